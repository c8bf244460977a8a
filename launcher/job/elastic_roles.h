/* SPDX-License-Identifier: Apache-2.0 */
/*
 * elastic_roles.h - the roles of an elastic job: each of their replicas is a world. They have their hosts from the begin to
 * the end of the launch, start in the order of --after, and are told of each other by variables (lib/frameworks/emit_roles.h).
 *
 * No rank is started before all hosts of all roles have come, since each rank is told where the others are.
 */
#ifndef HVD_ELASTIC_ROLES_H
#define HVD_ELASTIC_ROLES_H

#include "launcher/roles/role_hosts.h"
#include "launcher/start/backend.h"

struct elastic;
struct elastic_part;
struct hvd_elastic_roles;

/* Give the roles of launch->roles their hosts in this allocation. -1 with HVD_E_USAGE: there are not enough. The caller
 * clears *out. */
int hvd_elastic_roles_place(const struct hvd_launch *launch, const struct hvd_alloc *alloc, struct hvd_role_hosts *out,
			    struct hvd_err *err);

/* On the hosts that discovery knows. NULL with err set. */
struct hvd_elastic_roles *hvd_elastic_roles_create(struct elastic *el, struct hvd_err *err);
void hvd_elastic_roles_destroy(struct hvd_elastic_roles *roles); /* after the parts; NULL is fine */

struct hvd_role_world_opts {
	struct hvd_driver_opts *opts; /* valid as long as the roles */
	bool ends_all, service;       /* as in struct elastic_part */
};

/* What the part of a world is made of. False: there are no more worlds. */
bool hvd_elastic_roles_world(struct hvd_elastic_roles *roles, unsigned number, struct hvd_role_world_opts *out);

/* These are the hosts now. Each world's machine has all of them, with slots on its own. */
void hvd_elastic_roles_listed(struct hvd_elastic_roles *roles, const struct hvd_alloc *hosts);
/* A host is lost, or unfit: a spare one takes its place in all worlds. If there is none, and not all hosts have come yet, the
 * launch ends. */
void hvd_elastic_roles_gone(struct hvd_elastic_roles *roles, const char *host);
/* For the process of a host, of which the name is set: the slots of all worlds on it, at least 1, and its component. */
void hvd_elastic_roles_host(const struct hvd_elastic_roles *roles, struct hvd_alloc_host *host);
/* What a world has of a host. NULL: it has no ranks there. */
const struct hvd_host_share *hvd_elastic_roles_share(const struct hvd_elastic_roles *roles, unsigned world,
						     const char *host);

/* The host with this number was admitted: the worlds may start that wait for nothing else. */
void hvd_elastic_roles_admitted(struct hvd_elastic_roles *roles, uint32_t host);
/* A generation of the world begins: set the variables of its ranks. */
void hvd_elastic_roles_generation(struct elastic_part *part);
/* The ranks of a generation are ready (launcher/world/ready.h): those that wait for them may start. */
void hvd_elastic_roles_ready(struct elastic_part *part);
/* The world is over. -1 with err set: others wait for it in vain. */
int hvd_elastic_roles_over(const struct elastic_part *part, struct hvd_err *err);

#endif
