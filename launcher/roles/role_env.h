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

/* The i-th port that is reserved for the `local_rank`-th rank of a world on a host of the allocation; 0: it is not known. */
typedef in_port_t hvd_role_port_fn(int world, int host, int local_rank, unsigned i, void *arg);

/* `addrs` has the address of each host of the allocation in the best network. A role has no HVD_ROLE_…_ADDRS if the address
 * of one of its hosts is AF_UNSPEC, and with --ports=NUMBER no HVD_ROLE_…_PORTS if one of its ports is not known. The caller
 * clears *env. */
void hvd_role_env_make(struct hvd_role_env *env, const struct hvd_role_specs *specs, const struct hvd_role_hosts *hosts,
		       const struct hvd_alloc *alloc, const struct hvd_addr *addrs, hvd_role_port_fn *port, void *arg);
void hvd_role_env_clear(struct hvd_role_env *env);

/* Set the variables of the ranks of a world, by its number. */
void hvd_role_env_emit(const struct hvd_role_env *env, const struct hvd_role_hosts *hosts, int world,
		       struct hvd_strv *to);

#endif
