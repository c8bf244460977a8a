/* SPDX-License-Identifier: Apache-2.0 */
/*
 * emit_roles.h - the variables by which the ranks of a role find the other roles of their launch. No framework knows them.
 * They are equal in all ranks of a world, but for the last two.
 *
 *   HVD_ROLE                 the rank's role
 *   HVD_ROLE_REPLICA         the number of its replica, from 0
 *   HVD_ROLES                the names of all roles, "trainer,rollout"
 *   HVD_ROLE_ROLLOUT_HOSTS   for each role, with its name in capitals and "_" for "-": the names of its hosts
 *   HVD_ROLE_ROLLOUT_ADDRS   the addresses of these hosts, in the same order
 *   HVD_ROLE_ROLLOUT_SIZE    the number of its ranks
 *   HVD_ROLE_ROLLOUT_PORTS   the ports at which it listens, "8000,8001"; not set if there are none. With --ports=NUMBER: those that
 *                            are reserved for rank 0, then those for rank 1, …, NUMBER for each
 *   HVD_PORTS                those for the rank itself
 *   HVD_JOB_STORE            127.0.0.1:PORT of a TCPStore that the ranks of all roles share; not set in a launch with one world
 *
 * Hosts and ports have commas between them. Where a role has several replicas, there are semicolons between these:
 * "n5,n6;n7,n8". Ports that are not reserved are the same for all ranks, and are listed once.
 */
#ifndef HVD_EMIT_ROLES_H
#define HVD_EMIT_ROLES_H

#include "lib/base/strv.h"

#include <netinet/in.h>
#include <stdbool.h>

/* The values of a role, as texts. Those longer than HVD_EMIT_ROLES_MOST bytes are not set, since no process could be started
 * with them. */
struct hvd_emit_role {
	const char *name;
	char *hosts, *addrs, *size, *ports; /* owned by whoever made them; NULL: not set */
	bool common_ports;                  /* `ports` are those of each rank */
};

#define HVD_EMIT_ROLES_MOST (64 * 1024)

struct hvd_emit_roles {
	const struct hvd_emit_role *roles;
	int n;
	int role, replica; /* of the rank */
};

void hvd_emit_roles(const struct hvd_emit_roles *in, struct hvd_strv *env);
void hvd_emit_job_store(in_port_t port, struct hvd_strv *env); /* 0: there is none */

#endif
