/* SPDX-License-Identifier: Apache-2.0 */
/*
 * role_env.h - what the ranks of a launch are told of all its roles (lib/frameworks/emit_roles.h), from the hosts of the
 * roles and the addresses of the hosts.
 */
#ifndef HVD_ROLE_ENV_H
#define HVD_ROLE_ENV_H

#include "lib/base/strv.h"
#include "lib/frameworks/emit_roles.h"
#include "lib/net/addr.h"
#include "role_hosts.h"

/* Owns its texts; the names are those of the specs. */
struct hvd_role_env {
	struct hvd_emit_role *roles;
	int n;
};

/* `addrs` has the address of each host of the allocation in the best network. A role has no HVD_ROLE_…_ADDRS if the address
 * of one of its hosts is AF_UNSPEC. The caller clears *env. */
void hvd_role_env_make(struct hvd_role_env *env, const struct hvd_role_specs *specs, const struct hvd_role_hosts *hosts,
		       const struct hvd_alloc *alloc, const struct hvd_addr *addrs);
void hvd_role_env_clear(struct hvd_role_env *env);

/* Set the variables of the ranks of a world, by its number. */
void hvd_role_env_emit(const struct hvd_role_env *env, const struct hvd_role_hosts *hosts, int world,
		       struct hvd_strv *to);

#endif
