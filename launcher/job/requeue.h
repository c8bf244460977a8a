/* SPDX-License-Identifier: Apache-2.0 */
/*
 * requeue.h - has the batch job begin again after a launch (--requeue-on).
 *
 * Reasons are collected while the launch runs (struct hvd_requeue_wish). When it has ended, and all that is to be told
 * of it was told, hvd_requeue_at_end() asks the scheduler, which then ends this process with the job.
 *
 * Once per cycle: a job that has begun again since this launch began, or that does not run any longer, is left alone.
 * So two launches of a job do not requeue it twice, nor does one requeue what the scheduler has requeued by itself
 * after a failed node or a preemption; and a job that was cancelled stays cancelled.
 *
 * Slurm (launcher/scheduler/scheduler_slurm.c): the job of SLURM_JOB_ID, or of srun's --jobid; a task of an array by
 * itself. Slurm takes back a batch job only, and one that may be requeued (--requeue, JobRequeue in slurm.conf). Hosts that have failed, or were judged bad
 * (hvd_requeue_avoid()), are added to the nodes that the job does not want (ExcNodeList), if enough nodes like them are
 * left for it. Slurm takes that of pending jobs only, so it is told right behind the requeueing, while Slurm is ending
 * this process: it may be too late for it.
 * LSF: brequeue, for the job of LSB_JOBID and LSB_JOBINDEX.
 *
 * A rank asks for it by ending with HVD_REQUEUE_STATUS, or by making the file that HVD_REQUEUE_FILE names, which the
 * user sets, with a path that this process and the ranks share. A file of that name which another user owns, or that is
 * no regular file, is not looked at. What a former launch has left is removed at the begin, the file itself at the end.
 */
#ifndef HVD_REQUEUE_H
#define HVD_REQUEUE_H

#include "launcher/events/event_log.h"
#include "launcher/options/launch_spec.h"
#include "lib/base/log.h"
#include "lib/base/strv.h"

#include <stdbool.h>
#include <stdint.h>

/* A rank that ends with it asks for the batch job to begin again. HTCondor's jobs say by the same status that they have
 * written a checkpoint. */
#define HVD_REQUEUE_STATUS 85

/* Zeroed at first. */
struct hvd_requeue_wish {
	unsigned reasons;    /* bits, 1 << enum hvd_requeue_reason */
	struct hvd_strv bad; /* HOST=REASON: hosts that the job is not to be given again (hvd_requeue_avoid()) */
	bool signalled;      /* ranks were signalled, or have failed, as in a preemption */
	bool preempted;      /* the job is being preempted: until its end ranks may save, and end */
	char role[64];       /* in a launch with roles: that whose ranks make no progress */
	uint32_t job;        /* Slurm's number of the job; 0 = that of SLURM_JOB_ID, or of --jobid */
};

/* `number` as `job` in struct hvd_requeue_wish. Before the ranks start: say in the log that this is not the job's first cycle,
 * and remove an old HVD_REQUEUE_FILE. */
void hvd_requeue_begin(const struct hvd_launch_spec *spec, uint32_t number, const struct hvd_log *log);

/* If the job is requeued, for whatever reason, it is kept away from this host, if enough nodes like it are left. Only the
 * first reason for a host counts: "its rank 3 cannot be killed". There may be 256 hosts. */
void hvd_requeue_avoid(struct hvd_requeue_wish *wish, const char *host, const char *why);
/* The host is good again. */
void hvd_requeue_allow(struct hvd_requeue_wish *wish, const char *host);

/* `host` may be NULL. Counts only if --requeue-on has the reason. */
void hvd_requeue_want(struct hvd_requeue_wish *wish, const struct hvd_launch_spec *spec, enum hvd_requeue_reason reason,
		      const char *host);
bool hvd_requeue_wanted(const struct hvd_requeue_wish *wish, enum hvd_requeue_reason reason);
/* Are ranks ending since the job ends or begins again: it is preempted, they were told of the time limit, or one has
 * asked for it? Then a rank that ends is no failure. */
bool hvd_requeue_leaving(const struct hvd_requeue_wish *wish);
/* The reason does not hold any longer. */
void hvd_requeue_unwant(struct hvd_requeue_wish *wish, enum hvd_requeue_reason reason);
/* A rank has ended, `status` as from waitpid(2). */
void hvd_requeue_rank_ended(struct hvd_requeue_wish *wish, const struct hvd_launch_spec *spec, int status);

/* The launch has ended with this exit status. Requeues the job if there is a reason, and waits for some seconds for
 * Slurm to end this process, so that the batch script does not go on meanwhile. Asks the scheduler and blocks: for as
 * long as the scheduler's commands do. Returns the exit status with which to go on: where the job was requeued, one that is
 * no success. The last event has that, or else `seen`, the status that users see, if this process ends with another one. */
int hvd_requeue_at_end(const struct hvd_launch_spec *spec, const struct hvd_requeue_wish *wish, int status, int seen,
		       struct hvd_event_log *events, const struct hvd_log *log);
void hvd_requeue_clear(struct hvd_requeue_wish *wish); /* leaves a zeroed struct */

#endif
