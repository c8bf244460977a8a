/* SPDX-License-Identifier: Apache-2.0 */
/*
 * job.h - a job, from the first host that registers to the last rank.
 *
 * It holds the watch over time limit, hangs and hosts (job_watch.h), the failures of its ranks, and the result. A policy
 * (job_policy.h) knows the hosts and ranks, and a starter (starter.h) starts them. The table in job_states.c says what may
 * happen when; rank_exits.c says what follows from the end of a rank. How the job ends:
 *   - every rank has ended: the starter ends by itself, or the policy ends the job
 *   - a rank of a static job has failed: the others are ended, unless the launch spec says to keep going, or the starter
 *     decides. When all of them have ended, the report names the one that failed first
 *     (launcher/diagnosis/failure_report.h)
 *   - the start has failed, the policy gives up, the time limit is met, a hang, or a signal: everything is ended
 */
#ifndef HVD_JOB_H
#define HVD_JOB_H

#include "failures.h"
#include "job_result.h"
#include "launcher/hosts/driver_opts.h"
#include "launcher/world/progress.h"
#include "lib/host/rank_end.h"
#include "lib/host/unkillable.h"
#include "lib/protocol/handshake.h"
#include "runfunc.h"

#include <event2/event.h>

struct hvd_job;
struct hvd_job_policy;
struct hvd_rv;
struct hvd_starter;

/* Nothing is owned, and all must outlive the job. */
struct hvd_job_opts {
	struct event_base *base;
	struct hvd_driver_opts *driver;
	struct hvd_session *session;
	struct hvd_starter *starter;
	struct hvd_job_policy *policy;
	struct hvd_runfunc *func; /* --run-func, or NULL */
	struct hvd_result *result;
	const char *control; /* as in job_watch.h; read once */
	pid_t pid;
	const struct hvd_log *log;
};

/* Listen, and have the starter start. The job is the starter's and the policy's `job` from then on, also after an error,
 * and the caller destroys it. -1 with err set: nothing was started, or not all. */
int hvd_job_create(const struct hvd_job_opts *opts, struct hvd_err *err);
void hvd_job_destroy(struct hvd_job *job); /* before the policy; NULL is fine */
/* The event loop has ended: complete the result, and log the failures of ranks that have ended the job. */
void hvd_job_report(struct hvd_job *job);

/* ---- what the owner and the starter report ---- */

/* End the job because of a signal, which the caller has logged and made the result; again: at once. */
void hvd_job_interrupt(struct hvd_job *job);
/* The job cannot go on. `why` is logged unless another reason was; NULL: the user was told. */
void hvd_job_fail(struct hvd_job *job, const struct hvd_err *why);
/* The starter has a signal by which it ends all ranks, of which the user was told: their ends are no failures. */
void hvd_job_expect_ends(struct hvd_job *job);
/* Send a signal to all ranks. */
void hvd_job_signal(struct hvd_job *job, int sig);
/* Nothing of the starter is left. */
void hvd_job_starter_gone(struct hvd_job *job);

/* ---- what the policy reports ---- */

/* --run-func: the rendezvous is open, and no rank knows of it yet. -1 with err set. */
int hvd_job_serve_func(struct hvd_job *job, struct hvd_rv *rv, struct hvd_err *err);
void hvd_job_host_registered(struct hvd_job *job, uint32_t host);
/* The start has failed; all agents were told. */
void hvd_job_start_failed(struct hvd_job *job, const struct hvd_err *why);
/* All ranks have their plan, or a generation has it for the first time. */
void hvd_job_started(struct hvd_job *job);
/* The generation with this number begins, after so many restarts. */
void hvd_job_generation(struct hvd_job *job, int generation, int restarts, const struct hvd_layout *layout);
/* A rank has ended. `end` has its number; `id` is that by which the policy knows its process. `told`: it was told to
 * end. */
void hvd_job_rank_ended(struct hvd_job *job, const struct hvd_rank_end *end, uint32_t id, const char *host, bool told);
void hvd_job_unkillable(struct hvd_job *job, uint32_t rank, const char *host, const struct hvd_unkillable *what);
/* An agent got SIGTERM, and with it perhaps its ranks. Is that of a preemption? Find it out. */
void hvd_job_terminated(struct hvd_job *job);
void hvd_job_stalled(struct hvd_job *job, const struct hvd_stall *stall);
/* The job has ended, or cannot go on, and ends with this status. `why` is logged, unless its code is 0; HVD_E_FAILED:
 * ranks or hosts have failed. */
void hvd_job_end(struct hvd_job *job, const struct hvd_err *why, int status);
/* The connection of the last agent has ended. */
void hvd_job_agents_left(struct hvd_job *job);

/* ---- what they may ask ---- */

struct hvd_failure_report *hvd_job_failures(struct hvd_job *job); /* of this generation */
bool hvd_job_ending(const struct hvd_job *job);                   /* was the starter told to end everything? */
/* Was a reason for the job's failure logged that is not a rank's failure? */
bool hvd_job_failed(const struct hvd_job *job);
/* Have all ranks ended, as far as is known? */
bool hvd_job_ranks_ended(const struct hvd_job *job);

#endif
