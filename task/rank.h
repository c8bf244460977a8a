/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rank.h - the shim of one rank, where the backend starts ranks (srun, jsrun, mpirun).
 *
 * Each function is a program's main part: it reports errors on `log` and
 * returns the exit status.
 */
#ifndef HVD_RANK_H
#define HVD_RANK_H

#include "lib/base/log.h"
#include "lib/protocol/boot.h"
#include "output.h"
#include "taskinfo.h"

/* Fetch the plan and print it on standard output: NAME=VALUE strings with their NULs, and an empty one. `all`: the
 * plans of all of the host's ranks, one behind the other by local rank; by local rank 0 only. */
int hvd_rank_print_plan(const struct hvd_boot *boot, const struct hvd_taskinfo *info, bool all,
			const struct hvd_log *log);

/*
 * Fetch the plan and run the command in its environment, as a child, so that the driver learns from here
 * how the first failing rank ended (srun's own status is that of the signal which ended the others). Signals
 * for the task's group reach the command by themselves; the shim ends as the command did.
 *
 * `follow`: see command.h.
 */
int hvd_rank_run(const struct hvd_boot *boot, const struct hvd_taskinfo *info, char *const *argv,
		 const struct hvd_output_style *style, bool follow, const struct hvd_log *log);

#endif
