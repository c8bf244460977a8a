/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stack_find.h - which processes of this host are a rank's, as /proc has them.
 */
#ifndef HVD_STACK_FIND_H
#define HVD_STACK_FIND_H

#include "lib/base/err.h"
#include "rank_watch.h"

#include <stdbool.h>

/* The ranks that were found. Zeroed: none. The caller frees `v`. */
struct hvd_found_ranks {
	struct hvd_found_rank {
		struct hvd_watched_rank rank;
		uint32_t step;
		bool in_step; /* `step` is known */
	} * v;
	size_t n, room;
};

/* The main processes of the tasks of JOB or JOB.STEP on this host that belong to this user: by the variables that Slurm
 * sets for tasks. Without STEP those of all steps but batch scripts, and but this process's own. -1 with HVD_E_USAGE
 * for a `target` that is neither. */
int hvd_stack_find_step(const char *target, struct hvd_found_ranks *found, struct hvd_err *err);

/* The process whose stack tells where the rank is: the first one that runs Python, of the rank's main process and those
 * below it; else the last one of a chain of processes that have one child each, as a shell that waits for a program. Up
 * to `room` further Python processes below are stored in `others`; *n is how many. */
pid_t hvd_stack_find_main(pid_t pid, pid_t *others, size_t room, size_t *n);

/* The value of a variable that the process was started with; NULL: none, or it cannot be read. The caller frees it. */
char *hvd_stack_find_env(pid_t pid, const char *name);

#endif
