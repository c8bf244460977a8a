/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ranks.h - the ranks of one host, started and watched by their shim.
 *
 * Each rank is in a process group of its own. They end together: on request, or
 * when the owner is destroyed, every group gets SIGTERM, after a grace of five
 * seconds SIGKILL, and so does every process that a rank has left behind, for
 * the shim is made their reaper (PR_SET_CHILD_SUBREAPER). Ranks also die with
 * the shim (PR_SET_PDEATHSIG).
 */
#ifndef HVD_RANKS_H
#define HVD_RANKS_H

#include "lib/base/err.h"
#include "lib/base/log.h"
#include "output.h"

#include <event2/event.h>
#include <jansson.h>
#include <stdbool.h>

struct hvd_ranks;

struct hvd_ranks_opts {
	char *const *argv; /* the user's command */
	bool bind;         /* to disjoint cores */
	bool near;         /* … or rather to the NUMA domains of these, which ranks share */
	const char *cpus;  /* those of each, see hvd_bind_listed(); NULL = all that there are, divided */
	bool inherit;      /* ranks inherit all open descriptors: an MPI may have handed down some */
	int key_fd;        /* each rank gets it at the same number, see rank_env.h; 0 = none. Not owned */
	int number;        /* of a rank whose plan does not tell it (HOROVOD_RANK) */
	bool stay;         /* ranks come and go by hvd_ranks_add and _end_one; none is needed for it to go on */
	bool ignore_ends;  /* ranks outlive SIGTERM, unless the program decides otherwise, and soon get SIGKILL after it
			    */
	struct hvd_output_style output;
};

struct hvd_ranks_ops {
	void (*exited)(int id, int status, void *arg); /* of each rank, status as from waitpid(2); id is its number */
	void (*all_gone)(void *arg);                   /* once: no process is left */
};

/* Start a rank for each object of `plans` (NAME: VALUE). When one cannot be started all end, with err set. */
struct hvd_ranks *hvd_ranks_start(struct event_base *base, const json_t *plans, const struct hvd_ranks_opts *opts,
				  const struct hvd_ranks_ops *ops, void *arg, const struct hvd_log *log,
				  struct hvd_err *err);
/* One more, known as `id` and bound as the one of `slots` ranks that has this local rank. -1 with err set. */
int hvd_ranks_add(struct hvd_ranks *ranks, int id, const json_t *plan, int slot, int slots, struct hvd_err *err);
/* SIGTERM to one of them and, a second later or at once, SIGKILL. One that has ended already is no error. */
void hvd_ranks_end_one(struct hvd_ranks *ranks, int id, bool at_once);
/* Begin to end them; all_gone follows within the grace. Once begun, nothing changes it. */
void hvd_ranks_end(struct hvd_ranks *ranks);
/* The launcher's request to end them. Its second one does not wait for the grace: SIGKILL at once. A signal that this
 * process gets itself is no request of the launcher, for a scheduler may signal both at the same time. */
void hvd_ranks_end_told(struct hvd_ranks *ranks);
/* Pass a signal on to all ranks' groups. */
void hvd_ranks_signal(struct hvd_ranks *ranks, int sig);
void hvd_ranks_destroy(struct hvd_ranks *ranks); /* kills what is left at once; NULL is fine */

#endif
