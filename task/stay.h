/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stay.h - the node agent that stays beside tasks that Slurm has started.
 *
 * Where hvd-task starts the ranks, the node agent lasts as long as they do. In a task of `srun --hvd` the user's
 * program takes hvd-task's place, so what is to go on is a process of its own (resident.h), one on each host. It has
 *   the host's relay of the rendezvous, if the plan has one;
 *   a connection to the driver of its own: {"t":"stay", "node":I} after the handshake, then as in agent.h. It is made
 *     some seconds after the start, which it is not to delay, or at once when a rank has failed;
 *   what the host's tasks and slurmstepd tell of the ranks (stay_ranks.h), and the standard error of these;
 *   the sockets of ports that are reserved for the ranks (ports.h).
 * Where rank shims are the tasks, which report themselves, it has only the relay.
 */
#ifndef HVD_STAY_H
#define HVD_STAY_H

#include "lib/base/err.h"
#include "lib/base/log.h"
#include "lib/net/reserve.h"
#include "lib/protocol/boot.h"
#include "relay.h"
#include "taskinfo.h"

#include <sys/types.h>

/* Nothing is owned, but the relay's sockets are taken. The reserved ones stay the caller's, too. */
struct hvd_stay_opts {
	pid_t task; /* which runs; the process stays for those beside it, too */
	const struct hvd_boot *boot;
	const struct hvd_taskinfo *info;
	struct hvd_relay_opts relay;        /* plan NULL: there is none */
	const struct hvd_reserve *reserved; /* ports that the process keeps reserved; NULL = none */
	bool notes; /* HVD_STEP_NOTES_FD and HVD_STEP_SPARE_FD are open (lib/protocol/step_note.h) */
};

/* The process, once it was started. */
struct hvd_stay {
	pid_t pid;        /* 0 = there is none */
	int *error_files; /* by local rank: its descriptors of pipes that take what a rank writes into its error file
			     (lib/job/rank_error.h); 0 = none. NULL = none at all */
};

/* Start the process. Its descriptors are closed here, also after an error. -1 with err set: none was started. */
int hvd_stay_begin(const struct hvd_stay_opts *opts, struct hvd_stay *stay, const struct hvd_log *log,
		   struct hvd_err *err);
void hvd_stay_clear(struct hvd_stay *stay); /* a zeroed one is fine; the process goes on */

#endif
