/* SPDX-License-Identifier: Apache-2.0 */
/*
 * layout.h - which rank runs where: rank → host, local rank, cross rank, as Horovod defines them.
 *
 *   local rank   position of a rank among the ranks of its host
 *   cross rank   position of the rank's host among the hosts that have this local rank; hosts count in the order of
 *                their first ranks
 *   cross size   how many hosts have this local rank
 *
 * Values only: no I/O. Several threads may read one layout.
 */
#ifndef HVD_LAYOUT_H
#define HVD_LAYOUT_H

#include "lib/base/err.h"

#include <stddef.h>
#include <stdint.h>

/* The slot of one rank: where it runs, and its position among the others. */
struct hvd_rank_slot {
	int rank, size;
	int local_rank, local_size;
	int cross_rank, cross_size;
	int host;    /* index into hvd_layout.hosts */
	uint32_t id; /* of its process: the rank, unless a job changes its ranks' numbers (launcher/world/machine.h) */
};

struct hvd_layout_host {
	char *name;
	int n;      /* ranks on this host; may be 0 */
	int *ranks; /* by local rank */
};

/* Owns its hosts and rank slots. A zeroed struct is an empty layout. */
struct hvd_layout {
	int size; /* ranks */
	int n_hosts;
	struct hvd_layout_host *hosts;
	struct hvd_rank_slot *rank_slots; /* by rank */
};

/* Take the ranks as a scheduler placed them: host i runs tasks[i] tasks, of which task j has rank tids[i][j]. Each rank
 * from 0 to n-1 must occur exactly once. Without `tids` (NULL) the ranks are numbered in the order of the hosts. On success
 * the caller clears *out; after an error it is empty. */
int hvd_layout_from_tasks(struct hvd_layout *out, char *const *names, const int *tasks, int *const *tids, int n_hosts,
			  struct hvd_err *err);

/* The rank of the process with this id on a host, by its number. -1: there is none. */
int hvd_layout_rank_of(const struct hvd_layout *layout, uint32_t host, uint32_t id);

/* The hosts that have ranks, for messages: "n[1-3]". The caller frees it. */
char *hvd_layout_hosts_text(const struct hvd_layout *layout);

void hvd_layout_clear(struct hvd_layout *l); /* leaves an empty layout; NULL is fine */

/* Read a list such as "2(x4),1", which means 2 2 2 2 1: Slurm writes SLURM_TASKS_PER_NODE and SLURM_JOB_CPUS_PER_NODE
 * that way (uint16_array_to_str() in its sources). More than max_nodes numbers, and a number above HVD_MAX_RANKS, are
 * errors. Returns how many numbers *out has, which the caller frees; -1 with *out NULL. Untrusted input is fine. */
int hvd_tasks_per_node_parse(const char *text, int max_nodes, int **out, struct hvd_err *err);

#endif
