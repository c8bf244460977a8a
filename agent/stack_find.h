/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stack_find.h - which processes of this host are a rank's, as /proc has them.
 */
#ifndef HVD_STACK_FIND_H
#define HVD_STACK_FIND_H

#include "lib/base/err.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* A rank and its main process. */
struct hvd_watched_rank {
	uint32_t rank;
	pid_t pid;
};

/* The ranks that were found. Zeroed: none. The caller frees `v`. */
struct hvd_found_ranks {
	struct hvd_found_rank {
		struct hvd_watched_rank rank;
		uint32_t step;
		bool in_step; /* `step` is known */
	} * v;
	size_t n, room;
};

/* The main processes of the tasks of JOB or JOB.STEP on this host that belong to this user, by the variables that Slurm
 * sets for tasks. Without STEP: those of all steps except batch scripts and this process's own step. -1 with
 * HVD_E_USAGE for a malformed `target`. */
int hvd_stack_find_step(const char *target, struct hvd_found_ranks *found, struct hvd_err *err);

/* The process whose stack shows where the rank is: among the rank's main process and those below it, the first that
 * runs Python. Without Python, the last of a chain of processes that have one child each, as with a shell that waits
 * for a program. `others` gets up to `room` further Python processes; *n is how many. *cpu_ns: the processor time that
 * all of them have used. */
pid_t hvd_stack_find_main(pid_t pid, pid_t *others, size_t room, size_t *n, int64_t *cpu_ns);

/* The value of a variable in the environment with which the process was started; NULL: none, or it cannot be read. The
 * caller frees it. */
char *hvd_stack_find_env(pid_t pid, const char *name);

#endif
