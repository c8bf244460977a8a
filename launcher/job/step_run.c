/* SPDX-License-Identifier: Apache-2.0 */
/* step_run.c - srun with its plugin as what starts, signals and ends the ranks of a static job, see step_run.h. */
#include "step_run.h"

#include "job.h"
#include "launcher/scheduler/scheduler.h"
#include "lib/base/cleanup.h"
#include "lib/base/deadline.h"
#include "lib/base/signals.h"
#include "lib/base/timer.h"
#include "lib/process/command_line.h"
#include "lib/process/spawn.h"
#include "requeue.h"
#include "slurm/slurm.h"
#include "static_ranks.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* When the start fails, the ranks fail, and srun ends the step. If it has not done so within this time, because no rank
 * could be told, the driver asks Slurm's controller to end the step. After the start nobody is connected who could be
 * told: the controller is asked to send SIGTERM at once, and SIGKILL so much later. */
#define END_STEP_SECONDS 3
/* srun itself may wait for ever for the tasks of a lost host, also when the controller has ended the step: so long
 * after that it gets SIGTERM, by which it ends KillWait seconds later (30 by default), and so long after this
 * SIGKILL. Where no host is known to be lost, as after a start that has failed, tasks may only take long to end. */
#define END_SRUN_SECONDS         1
#define END_SRUN_SECONDS_UNKNOWN 3
#define KILL_SRUN_SECONDS        6
/* How long the controller may take to pass a signal on. Nothing happens in the launch meanwhile. */
#define SIGNAL_SECONDS 5.0
/* How long hosts that are still connected are waited for, when srun has ended and a rank has failed. srun's plugin
 * waits for some more. */
#define LAST_MS 1000

struct step {
	struct hvd_starter starter; /* first, so that a pointer to it is one to all */
	const struct hvd_step_run_opts *opts;
	struct hvd_job_policy *policy;
	const struct hvd_log *log;
	struct event_base *base;
	struct hvd_result result;
	struct hvd_timer *gone, *end_step, *end_srun;
	struct event *srun;
	pid_t srun_pid;
	int srun_signal;     /* the last one that srun was sent; 0 = none */
	char lost_host[256]; /* because of which the step is ended; "" = none */
	bool srun_gone;
	bool unranked;   /* srun ends with status 0, but its tasks were no ranks of this launch */
	int srun_status; /* with which srun ends; -1: it has not said */
	bool srun_left;  /* srun has not ended, and the job is to be requeued */
};

static struct step *step_of(struct hvd_starter *starter)
{
	return (struct step *)starter;
}

/* ---- what the job wants ---- */

static int do_start(struct hvd_starter *starter, const struct hvd_boot *boot, struct hvd_err *err)
{
	struct step *step = step_of(starter);
	char text[HVD_BOOT_MAX];
	size_t len;

	if (hvd_boot_format(boot, text, err) != 0)
		return -1;
	len = strlen(text);
	text[len] = '\n'; /* in place of the NUL: the text is one line */
	if (write(step->opts->srun, text, len + 1) != (ssize_t)len + 1)
		return hvd_err_sys(err, "cannot answer srun");
	return 0;
}

static void do_signal(struct hvd_starter *starter, int sig)
{
	struct step *step = step_of(starter);
	struct hvd_err err = {0};

	if (hvd_slurm_step_signal(step->opts->job, step->opts->step, sig, hvd_deadline_in(SIGNAL_SECONDS), &err) != 0)
		hvd_log_err(step->log, &err);
}

static void await_srun(struct step *step)
{
	int seconds = step->srun_signal  ? KILL_SRUN_SECONDS
		      : *step->lost_host ? END_SRUN_SECONDS
					 : END_SRUN_SECONDS_UNKNOWN;

	hvd_timer_in_ms(step->end_srun, seconds * 1000);
}

static void on_end_srun(void *arg)
{
	struct step *step = arg;

	if (step->srun_gone || step->srun_signal == SIGKILL || getppid() != step->srun_pid)
		return;
	/* The job's script may end with srun, and a job that is over cannot be requeued. */
	if (hvd_requeue_wanted(&step->result.requeue, HVD_REQUEUE_NODE)) {
		step->srun_left = true;
		event_base_loopbreak(step->base);
		return;
	}
	if (!step->srun_signal)
		hvd_info(step->log, "srun still waits for the tasks of %s; ending srun",
			 *step->lost_host ? step->lost_host : "a host, though Slurm was told to kill them");
	step->srun_signal = step->srun_signal ? SIGKILL : SIGTERM;
	kill(step->srun_pid, step->srun_signal);
	await_srun(step);
}

static void on_end_step(void *arg)
{
	struct step *step = arg;

	do_signal(&step->starter, SIGKILL);
	await_srun(step);
}

static void do_end(struct hvd_starter *starter, const struct hvd_ending *how)
{
	struct step *step = step_of(starter);

	if (how->had_time) {
		on_end_step(step);
		return;
	}
	do_signal(starter, SIGTERM);
	hvd_timer_in_ms(step->end_step, END_STEP_SECONDS * 1000);
}

static void do_host_lost(struct hvd_starter *starter, const char *host)
{
	struct step *step = step_of(starter);

	if (!*step->lost_host)
		snprintf(step->lost_host, sizeof(step->lost_host), "%s", host);
}

/* ---- srun ---- */

static void on_srun(evutil_socket_t fd, short what, void *arg)
{
	struct step *step = arg;
	unsigned char byte;
	ssize_t n = read(fd, &byte, 1);

	(void)what;
	if (n > 0)
		step->srun_status = byte;
	if (n > 0 || (n < 0 && (errno == EAGAIN || errno == EINTR)))
		return;
	event_del(step->srun);
	step->srun_gone = true;
	hvd_timer_in_ms(step->gone, 0);
}

/* All that had come before srun's end was read. */
static void on_gone(void *arg)
{
	hvd_job_handle(((struct step *)arg)->starter.job, HVD_JOB_STARTER_GONE);
}

/* ---- the report ---- */

/* srun ends with the highest status of its tasks, those among them that it has ended itself. */
static void log_status(const struct step *step)
{
	struct hvd_failure_report *report = hvd_failures_now(&step->starter.job->failures[0]);
	int first = hvd_status_exit(hvd_failure_report_status(report));
	int highest = hvd_failure_report_highest(report);

	/* srun has said it, unless it is of another release: of tasks that ran out of memory it has another opinion. */
	if (step->srun_status >= 0 && first && step->srun_status != first && step->srun_status != highest)
		hvd_info(step->log,
			 "the status of the launch is %d, that of the rank that failed first; srun's own is %d", first,
			 step->srun_status);
	else if (first && highest > first && step->srun_status != first)
		hvd_info(step->log,
			 "the status of the launch is %d, that of the rank that failed first; srun's own is the "
			 "highest of all ranks', %d here",
			 first, highest);
}

/* srun has ended with the status of ranks that a signal has ended, and no agent has reported an end: when a job
 * is cancelled, agents may be gone before they can. */
static void log_unreported(const struct step *step)
{
	int sig = step->srun_status - 128;
	const struct hvd_batch_job job = hvd_batch_job_of(step->opts->driver->spec, step->opts->job);
	hvd_cleanup_free char *fate = sig == SIGTERM || sig == SIGKILL ? hvd_batch_job_fate(&job) : NULL;

	if (fate)
		hvd_info(step->log, "the ranks were ended by SIG%s, since %s", hvd_signal_name(sig), fate);
}

/* srun has ended, and hosts never registered. A task with the plugin ends with status 0 only after its host has
 * registered, so with that status the tasks there have run without it. */
static void log_unregistered(struct step *step)
{
	hvd_cleanup_free char *missing = hvd_static_ranks_unregistered(step->policy);
	struct hvd_err why = {0};

	if (!missing || step->srun_status < 0 || step->starter.job->ending)
		return;
	step->unranked = step->srun_status == 0;
	if (step->unranked)
		hvd_err_set(&why, HVD_E_FAILED,
			    "%s, but its tasks have run: each by itself, without its rank and its rendezvous", missing);
	else
		hvd_err_set(&why, HVD_E_FAILED, "srun has ended before the start was complete: %s", missing);
	hvd_err_hint(&why,
		     "%ssrun's plugin is not loaded there: plugstack.conf of each node must list hvd.so, as here (man "
		     "spank-hvd); compare by srun -N%u grep -rs hvd.so /etc/slurm",
		     step->unranked ? "" : "if tasks did run, ", (unsigned)step->opts->driver->hosts);
	hvd_log_err(step->log, &why);
}

/* Where the launch could not go on, which was logged, it is not awaited how the ranks end that were ended then. */
static void log_end(struct step *step)
{
	struct hvd_job *job = step->starter.job;

	if (hvd_job_report(job))
		log_status(step);
	else if (!job->failed && hvd_failure_report_any(hvd_failures_now(&job->failures[0])))
		return; /* that was one line */
	else if (!job->failed && !step->result.started)
		log_unregistered(step);
	else if (!job->failed)
		log_unreported(step);
	else if (step->result.started && !*step->lost_host)
		hvd_info(step->log,
			 "the status of the launch is %d; srun's own is the highest of the ranks', which were ended",
			 step->result.status);
}

/* The status that srun's plugin has srun end with. */
static int status_seen(const struct step *step)
{
	int first = hvd_status_exit(hvd_failure_report_status(hvd_failures_now(&step->starter.job->failures[0])));

	if (step->starter.job->failed)
		return step->result.status;
	return first ? first : step->unranked ? 1 : step->srun_status > 0 ? step->srun_status : 0;
}

/* ---- life ---- */

static void begin(struct step *step)
{
	hvd_cleanup_free char *command = hvd_command_line_of(getppid());
	static const struct hvd_starter_ops ops = {
		.start = do_start, .signal = do_signal, .end = do_end, .host_lost = do_host_lost};

	step->starter = (struct hvd_starter){.ops = &ops,
					     .judges_failures = true,
					     .ends_after_failure = step->opts->ends_ranks,
					     .failed_seconds = END_STEP_SECONDS,
					     .last_ms = LAST_MS,
					     .ask_slurm = true};
	step->policy = hvd_static_ranks_create(step->base);
	step->srun_status = -1;
	step->result = (struct hvd_result){.began = hvd_now(), .requeue = {.job = step->opts->job}};
	hvd_event(step->opts->driver->events, LAUNCH_BEGAN, .version = HVD_VERSION, .backend = "plugin",
		  .command = command, .job = step->opts->job);
	hvd_requeue_begin(step->opts->driver->spec, step->opts->job, step->log);
	step->end_step = hvd_timer_new(step->base, on_end_step, step);
	step->end_srun = hvd_timer_new(step->base, on_end_srun, step);
	step->gone = hvd_timer_new(step->base, on_gone, step);
	step->srun_pid = getppid();
	step->srun = event_new(step->base, step->opts->srun, EV_READ | EV_PERSIST, on_srun, step);
	event_add(step->srun, NULL);
}

static void end(struct step *step)
{
	step->policy->ops->destroy(step->policy);
	hvd_job_destroy(step->starter.job);
	event_free(step->srun);
	hvd_timer_free(step->gone);
	hvd_timer_free(step->end_step);
	hvd_timer_free(step->end_srun);
	event_base_free(step->base);
}

int hvd_step_run(const struct hvd_step_run_opts *opts, struct hvd_err *err)
{
	struct step step = {.opts = opts, .log = opts->log, .base = event_base_new()};
	char launch[64];
	int rc, seen = 1;

	if (!step.base)
		return hvd_err_set(err, HVD_E_SYS, "cannot make an event loop");
	snprintf(launch, sizeof(launch), "slurm-%u.%u", opts->job, opts->step);
	begin(&step);
	rc = hvd_job_create(&(struct hvd_job_opts){.base = step.base,
						   .driver = opts->driver,
						   .session = opts->session,
						   .starter = &step.starter,
						   .policy = step.policy,
						   .result = &step.result,
						   .control = launch,
						   .pid = step.srun_pid,
						   .log = step.log},
			    err);
	if (rc == 0) {
		event_base_dispatch(step.base);
		log_end(&step);
		seen = status_seen(&step);
	}
	end(&step);
	if (rc == 0)
		rc = hvd_requeue_at_end(opts->driver->spec, &step.result.requeue, step.unranked ? 1 : 0, seen,
					opts->driver->events, opts->log);
	hvd_requeue_clear(&step.result.requeue);
	hvd_result_clear(&step.result);
	if (step.srun_left && rc != HVD_REQUEUE_STATUS && getppid() == step.srun_pid)
		kill(step.srun_pid, SIGKILL);
	return rc;
}
