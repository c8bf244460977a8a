/* SPDX-License-Identifier: Apache-2.0 */
/*
 * role_hosts.h - on which hosts of an allocation each role of a launch runs.
 *
 * Each replica of a role is a world, with a number of its own: those of the first role come first. The roles take their
 * hosts in the order of the allocation, in their own order, and no role has a host of another, but for --with=ROLE: such a
 * role runs on the hosts of the other. With -N each replica has so many hosts alone. With -n and no -N the replicas take
 * slots, so those of one role may share a host. With neither the last role takes all hosts that are left, and a role
 * with --with all hosts of the other.
 *
 * In a heterogeneous job a role has hosts of one component: that of --het-group, else that of its number among the roles
 * with hosts of their own.
 *
 * The CPUs and GPUs of a host are shared out to the worlds on it: those that ask for a number for each rank get it, in
 * the order of worlds. All others share what is left; if there are no CPUs left, all CPUs.
 *
 * Values only: nothing here asks a host or a scheduler.
 */
#ifndef HVD_ROLE_HOSTS_H
#define HVD_ROLE_HOSTS_H

#include "launcher/options/role_specs.h"
#include "lib/base/err.h"
#include "lib/host/alloc.h"
#include "lib/host/host_share.h"

#include <stdbool.h>

/* What the roles are placed on. The lists have an entry for each host of `alloc`. */
struct hvd_role_ground {
	const struct hvd_alloc *alloc;
	bool slots_bind; /* no role may have more ranks on a host than the host has slots; else they are a default */
	const int *cpus; /* as host_share.h counts them; 0 = not known; NULL: of no host */
	const int *gpus; /* -1 = not known; NULL: of no host */
	int spares;      /* so many of the last hosts with slots no role has */
};

struct hvd_role_place {
	int host;  /* index in the allocation */
	int slots; /* ranks of the world on this host; at least 1 */
	struct hvd_host_share share;
};

struct hvd_role_world {
	int role, replica;
	int ranks;
	struct hvd_role_place *places; /* in the order of its ranks; each host once */
	int n_places;
};

/* Owns its lists. A zeroed struct is empty. */
struct hvd_role_hosts {
	struct hvd_role_world *worlds;
	int n_worlds;
};

/* The first spare host: so many of the last hosts with slots are none of a role's. The number of hosts if there is none. */
int hvd_role_hosts_spare(const struct hvd_role_ground *ground);

/* -1 with HVD_E_USAGE if there are too few hosts, CPUs or GPUs; the message has the sum, by role. *out is then empty.
 * `specs` have been checked by hvd_role_specs_load(). */
int hvd_role_hosts_assign(struct hvd_role_hosts *out, const struct hvd_role_specs *specs,
			  const struct hvd_role_ground *ground, struct hvd_err *err);
void hvd_role_hosts_clear(struct hvd_role_hosts *hosts); /* NULL is fine */

/* The most ranks that the world has on a host. */
static inline int hvd_role_world_most(const struct hvd_role_world *world)
{
	int most = 0;

	for (int i = 0; i < world->n_places; i++)
		if (world->places[i].slots > most)
			most = world->places[i].slots;
	return most;
}

/* The places of all worlds as text, for --dry-run and tests: a line for each world, "NAME/REPLICA: HOST*SLOTS …", with the CPUs
 * and GPUs of each place as "c0-7" and "g4-" where they are not all of the host. The caller frees it. */
char *hvd_role_hosts_text(const struct hvd_role_hosts *hosts, const struct hvd_role_specs *specs,
			  const struct hvd_alloc *alloc);

#endif
