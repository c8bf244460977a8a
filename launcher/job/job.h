/* SPDX-License-Identifier: Apache-2.0 */
/*
 * job.h - a job of fixed size, from the first host that registers to the last rank: one generation of ranks.
 *
 * It holds the driver, the watch over time limit, hangs and hosts (job_watch.h), and the failure report. What starts
 * the ranks is a starter (starter.h). What may happen when, and what follows from it, is the table in job.c. How
 * the job ends:
 *   - every rank has ended: the starter ends by itself
 *   - a rank has failed: the others are ended, unless the launch spec says to keep going, or the starter decides. When
 *     all of them have ended, the report names the one that failed first (launcher/diagnosis/failure_report.h)
 *   - the start has failed, a host is lost, the time limit is met, a hang, or a signal: everything is ended
 */
#ifndef HVD_JOB_H
#define HVD_JOB_H

#include "failures.h"
#include "job_result.h"
#include "launcher/hosts/clients.h"
#include "launcher/hosts/driver_opts.h"
#include "lib/protocol/handshake.h"
#include "runfunc.h"

#include <event2/event.h>

struct hvd_starter;
struct hvd_job;

/* Nothing is owned, and all must outlive the job. */
struct hvd_job_opts {
	struct event_base *base;
	struct hvd_driver_opts *driver;
	struct hvd_session *session;
	struct hvd_starter *starter;
	struct hvd_runfunc *func; /* --run-func, or NULL */
	struct hvd_result *result;
	const char *control; /* as in job_watch.h; read once */
	pid_t pid;
	const struct hvd_log *log;
};

/* Listen, and have the starter start. The job is the starter's `job` from then on, also after an error, and the caller
 * destroys it. -1 with err set: nothing was started, or not all. */
int hvd_job_create(const struct hvd_job_opts *opts, struct hvd_err *err);
void hvd_job_destroy(struct hvd_job *job); /* NULL is fine */

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
/* The process that has started a host's agent has ended too early. True: the host is left out, and the job goes on. */
bool hvd_job_host_failed(struct hvd_job *job, uint32_t host, const struct hvd_err *why);
/* All ranks have ended, and the starter, a program of that name, goes on. True: it waits for a host whose connection
 * ended at that moment; the job ends. False: there is no such host, and Slurm is asked about all hosts from now on. */
bool hvd_job_lose_unconfirmed_host(struct hvd_job *job, const char *starter);

/* ---- what they may ask ---- */

struct hvd_driver *hvd_job_driver(const struct hvd_job *job);
struct hvd_failures *hvd_job_failures(struct hvd_job *job);
bool hvd_job_ending(const struct hvd_job *job); /* was the starter told to end everything? */
/* Was a reason for the job's failure logged that is not a rank's failure? */
bool hvd_job_failed(const struct hvd_job *job);
/* Have all ranks ended, as far as is known? */
bool hvd_job_ranks_ended(const struct hvd_job *job);

#endif
