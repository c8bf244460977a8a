/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rank.h - the rank shim: one process for each rank, where a scheduler or an MPI starts the ranks and watches them.
 *
 * Both functions log errors on `log`, and return the exit status.
 */
#ifndef HVD_RANK_H
#define HVD_RANK_H

#include "lib/base/log.h"
#include "lib/protocol/boot.h"
#include "output.h"
#include "taskinfo.h"

/* Get the plan, and print it on standard output: NAME=VALUE strings, each with its NUL, and an empty one. `all`: the
 * plans of all ranks of the host, one after the other by local rank; for local rank 0 only. `notes`: the
 * descriptors of lib/protocol/step_note.h are open; then a node agent stays (stay.h), and the plans have
 * HVD_STEP_AGENT_ENV. */
int hvd_rank_print_plan(const struct hvd_boot *boot, struct hvd_taskinfo *info, bool all, bool notes,
			const struct hvd_log *log);

/*
 * Get the plan, run the command with it as a child, tell the driver how the command ended, and end in the same way. The
 * driver has to hear it from here, because srun's own status is that of the signal by which srun ended the other ranks.
 * Signals that a scheduler sends to the process group reach the command without this process.
 *
 * `follow`: see command.h.
 */
int hvd_rank_run(const struct hvd_boot *boot, struct hvd_taskinfo *info, char *const *argv,
		 const struct hvd_output_style *style, bool follow, const struct hvd_log *log);

#endif
