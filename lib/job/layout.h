/* SPDX-License-Identifier: Apache-2.0 */
/*
 * layout.h - rank → host, local rank, cross rank, by Horovod's definitions.
 *
 *   local rank   position of a rank among the ranks of its host
 *   cross rank   position of its host among the hosts that have this local rank, in the order of the hosts' first ranks
 *   cross size   how many hosts have this local rank
 *
 * Pure values: no I/O, no shared state; threads may read one layout together.
 */
#ifndef HVD_LAYOUT_H
#define HVD_LAYOUT_H

#include "lib/base/err.h"

#include <stddef.h>

/* The slot of one rank: where it runs, and its position among the others. */
struct hvd_rank_slot {
	int rank, size;
	int local_rank, local_size;
	int cross_rank, cross_size;
	int host; /* index into hvd_layout.hosts */
};

struct hvd_layout_host {
	char *name;
	int n;      /* ranks on this host; may be 0 */
	int *ranks; /* ranks[local rank] = rank */
};

/* A zeroed struct is an empty layout. */
struct hvd_layout {
	int size;
	int n_hosts;
	struct hvd_layout_host *hosts;
	struct hvd_rank_slot *rank_slots; /* rank_slots[rank] */
};

/* Ranks in slot order: all of names[0], then all of names[1], … After an error *out is empty. */
int hvd_layout_from_slots(struct hvd_layout *out, char *const *names, const int *slots, int n_hosts,
			  struct hvd_err *err);

/* Ranks as a scheduler placed them: host i runs tasks[i] tasks, whose ranks are tids[i][local id].
 * Every rank 0 … n-1 must occur exactly once. After an error *out is empty. */
int hvd_layout_from_tasks(struct hvd_layout *out, char *const *names, const int *tasks, int *const *tids, int n_hosts,
			  struct hvd_err *err);

void hvd_layout_clear(struct hvd_layout *l); /* leaves an empty layout; NULL is fine */

/* "2(x4),1" → 2 2 2 2 1: the syntax of SLURM_TASKS_PER_NODE and SLURM_JOB_CPUS_PER_NODE
 * (uint16_array_to_str in Slurm's sources). More than max_nodes numbers and numbers beyond
 * HVD_MAX_RANKS are errors. Returns how many there are, *out is the caller's to free; -1 with *out NULL.
 * Untrusted input is fine. */
int hvd_tasks_per_node_parse(const char *text, int max_nodes, int **out, struct hvd_err *err);

#endif
