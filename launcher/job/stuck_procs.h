/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stuck_procs.h - launch processes of an elastic job that do not learn that their node agents have ended.
 *
 * srun waits forever if a host is lost, or if munged does not answer there or on this host. Such a process is ended
 * soon, with a message. The last output of ranks of the last generation may be missing then, and the job has failed;
 * for a host without such ranks this is only a warning.
 */
#ifndef HVD_STUCK_PROCS_H
#define HVD_STUCK_PROCS_H

#include "launcher/world/machine.h"
#include "launcher_process.h"
#include "lib/base/size.h"
#include "lib/base/timer.h"

struct hvd_stuck_procs {
	struct hvd_launcher_process *job;
	const struct hvd_machine *machines[HVD_MAX_WORLDS]; /* which have the same hosts */
	unsigned n_machines;
	struct hvd_timer *own;
};

/* `job` is not owned. */
void hvd_stuck_procs_init(struct hvd_stuck_procs *stuck, struct hvd_launcher_process *job);
/* The machine of the next world, which is not owned. There is one at least. */
void hvd_stuck_procs_add(struct hvd_stuck_procs *stuck, const struct hvd_machine *machine);
void hvd_stuck_procs_clear(struct hvd_stuck_procs *stuck);

void hvd_stuck_procs_ending(struct hvd_stuck_procs *stuck); /* all are being ended, for the first time */
void hvd_stuck_procs_lost(struct hvd_stuck_procs *stuck, uint32_t host);
void hvd_stuck_procs_without_munge(struct hvd_stuck_procs *stuck, uint32_t host); /* its agent reports that */
void hvd_stuck_procs_cut_short(struct hvd_stuck_procs *stuck, uint32_t host); /* its process is about to be killed */

#endif
