/* SPDX-License-Identifier: Apache-2.0 */
/*
 * requeue_guard.h - has the batch job begin again when hvdrun itself is killed (--requeue-on=node).
 *
 * A process of its own, hvd-requeue, reads a pipe from hvdrun, and requeues the job when hvdrun ends without a word.
 * It has to be quick: the batch script goes on when hvdrun is killed, and at the script's end Slurm kills what is left
 * of the job.
 */
#ifndef HVD_REQUEUE_GUARD_H
#define HVD_REQUEUE_GUARD_H

#include "launcher/options/launch_spec.h"
#include "lib/base/log.h"

/* hvdrun's side. Starts `program`, hvd-requeue, if the job is to begin again after a failed node and there is a batch
 * job; it goes on without if that fails. Returns a descriptor for hvd_requeue_guard_end(), or -1. */
int hvd_requeue_guard_start(const struct hvd_launch_spec *spec, const char *program, const struct hvd_log *log);
/* The launch ends as it should. -1 is fine. */
void hvd_requeue_guard_end(int guard);

/* The process: wait for hvdrun's end, whose word comes from the descriptor `fd`; `scheduler` and `name` are those of the job
 * (struct hvd_batch_job). Returns the exit status. */
int hvd_requeue_guard(const char *scheduler, const char *name, int fd, const struct hvd_log *log);

#endif
