/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The event loop ends when srun has closed its socket, and all ends of ranks are known that are about to be told: at
 * once, or when a rank has failed after LAST_SECONDS at most.
 */
#include "step_run.h"

#include "job_fate.h"
#include "job_watch.h"
#include "launcher/diagnosis/failure_report.h"
#include "launcher/driver/driver.h"
#include "lib/base/cleanup.h"
#include "lib/base/deadline.h"
#include "lib/process/spawn.h"
#include "requeue.h"
#include "shared_hosts.h"
#include "slurm/slurm.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* When the start fails, the ranks fail, and srun ends the step. If it has not done so within this time, because no rank
 * could be told, the driver asks Slurm's controller to end the step. After the start nobody is connected who could be
 * told: the controller is asked to send SIGTERM at once. */
#define END_STEP_SECONDS 3.0
/* srun itself may wait for ever for the tasks of a lost host, also when the controller has ended the step: so long
 * after that it gets SIGTERM, by which it ends KillWait seconds later (30 by default), and so long after this
 * SIGKILL. */
#define END_SRUN_SECONDS  1
#define KILL_SRUN_SECONDS 6
/* How long Slurm may take to say whether the job shares its hosts. */
#define ASK_SECONDS 2.0
/* How long hosts that are still connected are waited for, when srun has ended and a rank has failed. srun's plugin
 * waits for some more. */
#define LAST_SECONDS 1.0

struct step {
	const struct hvd_step_run_opts *opts;
	const struct hvd_log *log;
	struct event_base *base;
	struct hvd_driver *driver;
	struct event *srun, *term, *end_step, *end_srun, *last;
	pid_t srun_pid;
	int srun_signal; /* the last one that srun was sent; 0 = none */
	struct hvd_failure_report *report;
	struct hvd_requeue_wish requeue;
	struct hvd_job_watch *watch; /* NULL when the driver could not start */
	char lost_host[256];         /* because of which the step is ended; "" = none */
	int failed_status;           /* with which the start has failed */
	bool started, start_failed, srun_gone, waiting;
	bool srun_left; /* srun has not ended, and the job is to be requeued */
};

static void signal_step(const struct step *step, int sig)
{
	struct hvd_err err = {0};

	if (hvd_slurm_step_signal(step->opts->job, step->opts->step, sig, &err) != 0)
		hvd_log_err(step->log, &err);
}

static void await_srun(struct step *step)
{
	struct timeval tv = {.tv_sec = step->srun_signal ? KILL_SRUN_SECONDS : END_SRUN_SECONDS};

	evtimer_add(step->end_srun, &tv);
}

static void on_end_srun(evutil_socket_t fd, short what, void *arg)
{
	struct step *step = arg;

	(void)fd;
	(void)what;
	if (step->srun_gone || step->srun_signal == SIGKILL || getppid() != step->srun_pid)
		return;
	/* The job's script may end with srun, and a job that is over cannot be requeued. */
	if (hvd_requeue_wanted(&step->requeue, HVD_REQUEUE_NODE)) {
		step->srun_left = true;
		event_base_loopbreak(step->base);
		return;
	}
	if (!step->srun_signal)
		hvd_info(step->log, "srun still waits for the tasks of %s; ending srun", step->lost_host);
	step->srun_signal = step->srun_signal ? SIGKILL : SIGTERM;
	kill(step->srun_pid, step->srun_signal);
	await_srun(step);
}

static void on_end_step(evutil_socket_t fd, short what, void *arg)
{
	struct step *step = arg;

	(void)fd;
	(void)what;
	signal_step(step, SIGKILL);
	if (*step->lost_host)
		await_srun(step);
}

static void end_step(void *arg)
{
	struct step *step = arg;
	struct timeval tv = {.tv_sec = (time_t)END_STEP_SECONDS};

	hvd_failure_report_ending(step->report, hvd_wall_now());
	if (step->started)
		signal_step(step, SIGTERM);
	evtimer_add(step->end_step, &tv);
}

/* ---- the time limit, hangs and lost hosts ---- */

static void on_signal_ranks(int sig, void *arg)
{
	signal_step(arg, sig);
}

static void on_end(const struct hvd_err *why, void *arg)
{
	struct step *step = arg;

	if (why)
		hvd_log_err(step->log, why);
	end_step(step);
}

static bool is_ending(void *arg)
{
	const struct step *step = arg;

	return step->srun_gone || *step->lost_host;
}

/* srun would wait for the tasks of such a host until Slurm gives it up, or for ever. */
static void on_host_lost(const char *host, const char *how, void *arg)
{
	struct step *step = arg;
	bool end = step->opts->driver->spec->lost_host == HVD_LOST_HOST_LAUNCH ||
		   hvd_requeue_wanted(&step->requeue, HVD_REQUEUE_NODE);
	struct hvd_err why = {0};

	if (is_ending(step))
		return;
	hvd_job_watch_lost_error(&why, host, how,
				 end ? "ending the step" : "leaving the step to Slurm (lost-host: slurm)");
	hvd_log_err(step->log, &why);
	if (!end)
		return;
	snprintf(step->lost_host, sizeof(step->lost_host), "%s", host);
	end_step(step);
}

static void on_host_gone(const char *host, const struct hvd_err *why, void *arg)
{
	hvd_job_watch_host_gone(((struct step *)arg)->watch, host, why);
}

/* ---- what the driver tells ---- */

static void on_started(void *arg)
{
	struct step *step = arg;

	step->started = true;
	hvd_job_watch_started(step->watch, step->driver);
}

static void on_failed(const struct hvd_err *why, void *arg)
{
	struct step *step = arg;

	hvd_log_err(step->log, why);
	step->start_failed = true;
	step->failed_status = hvd_err_status(why);
	end_step(step);
}

static void on_stalled(const struct hvd_stall *stall, void *arg)
{
	hvd_job_watch_stalled(((struct step *)arg)->watch, stall);
}

static void on_rank_exit(const struct hvd_rank_end *end, const char *host, void *arg)
{
	struct step *step = arg;

	hvd_requeue_rank_ended(&step->requeue, step->opts->driver->spec, end->status);
	hvd_failure_report_add(step->report, end, host);
}

static void on_process_lost(const struct hvd_loss *loss, void *arg)
{
	struct step *step = arg;

	if (step->srun_gone)
		return;
	hvd_failure_report_lost(step->report, loss);
	hvd_job_watch_process_lost(step->watch, loss);
}

static void on_all_left(void *arg)
{
	struct step *step = arg;

	if (step->waiting)
		event_base_loopbreak(step->base);
}

/* ---- srun ---- */

static bool anything_failed(struct step *step)
{
	return !step->start_failed && !*step->lost_host && hvd_failure_report_any(step->report);
}

/* Called first when all that had come before srun's end was read. */
static void on_last(evutil_socket_t fd, short what, void *arg)
{
	struct step *step = arg;
	struct timeval tv = {.tv_sec = (time_t)LAST_SECONDS};

	(void)fd;
	(void)what;
	if (step->waiting || !anything_failed(step) || !hvd_driver_connected(step->driver)) {
		event_base_loopbreak(step->base);
		return;
	}
	step->waiting = true;
	evtimer_add(step->last, &tv);
}

static void on_srun(evutil_socket_t fd, short what, void *arg)
{
	struct step *step = arg;
	char byte;
	ssize_t n = read(fd, &byte, 1);

	(void)what;
	if (n > 0 || (n < 0 && (errno == EAGAIN || errno == EINTR)))
		return;
	event_del(step->srun);
	step->srun_gone = true;
	evtimer_add(step->last, &(struct timeval){0});
}

static void on_term(evutil_socket_t sig, short what, void *arg)
{
	(void)sig;
	(void)what;
	event_base_loopbreak(((struct step *)arg)->base);
}

static int send_boot(const struct step *step, struct hvd_err *err)
{
	struct hvd_boot boot;
	char text[HVD_BOOT_MAX];
	size_t len;

	hvd_driver_boot(step->driver, &boot);
	if (hvd_boot_format(&boot, text, err) != 0)
		return -1;
	len = strlen(text);
	text[len] = '\n'; /* in place of the NUL: the text is one line */
	if (write(step->opts->srun, text, len + 1) != (ssize_t)len + 1)
		return hvd_err_sys(err, "cannot answer srun");
	return 0;
}

/* srun ends with the highest status of its tasks, those among them that it has ended itself. */
static void log_status(const struct step *step)
{
	int first = hvd_status_exit(hvd_failure_report_status(step->report));
	int highest = hvd_failure_report_highest(step->report);

	if (first && highest > first)
		hvd_info(step->log,
			 "the status of the launch is %d, that of the rank that failed first; srun's own is the "
			 "highest of all ranks', %d here",
			 first, highest);
}

/* Where the first was ended by a signal to end, and says no more, somebody has ended the step: one line is enough. So
 * it is where the ranks were told of the time limit, or one asks to begin again. */
static void log_report(const struct step *step)
{
	const char *host;
	const struct hvd_rank_end *first = hvd_failure_report_first(step->report, &host);
	hvd_cleanup_free char *fate = hvd_failure_report_killed(step->report) ? hvd_job_fate(step->opts->job) : NULL;
	int sig = first && WIFSIGNALED(first->status) ? WTERMSIG(first->status) : 0;
	bool ended = sig == SIGTERM || sig == SIGINT || sig == SIGHUP || fate ||
		     hvd_failure_report_killed_together(step->report);

	if ((!fate && hvd_failure_report_loss(step->report)) || first->error || !ended) {
		hvd_failure_report_log(step->report, first && !first->error && hvd_requeue_leaving(&step->requeue),
				       step->log);
		log_status(step);
	} else {
		hvd_info(step->log, "the ranks were ended by SIG%s%s%s: as the first one rank %u on %s",
			 sigabbrev_np(sig ? sig : SIGKILL), fate ? ", since " : "", fate ? fate : "",
			 (unsigned)first->rank, host);
	}
}

/* The launch could not go on, which was said. How the ranks end that were ended then is not awaited. */
static void log_failed(const struct step *step)
{
	hvd_info(step->log, "the status of the launch is %d; srun's own is the highest of the ranks', which were ended",
		 step->failed_status);
}

/* ---- life ---- */

static void begin(struct step *step)
{
	step->requeue.job = step->opts->job;
	hvd_requeue_begin(step->opts->driver->spec, step->opts->job, step->log);
	step->report = hvd_failure_report_create();
	step->end_step = evtimer_new(step->base, on_end_step, step);
	step->end_srun = evtimer_new(step->base, on_end_srun, step);
	step->srun_pid = getppid();
	step->last = evtimer_new(step->base, on_last, step);
	step->srun = event_new(step->base, step->opts->srun, EV_READ | EV_PERSIST, on_srun, step);
	step->term = evsignal_new(step->base, SIGTERM, on_term, step);
	event_add(step->srun, NULL);
	event_add(step->term, NULL);
}

static void begin_watch(struct step *step)
{
	static const struct hvd_job_watch_ops ops = {on_signal_ranks, on_end, on_host_lost, is_ending};
	char launch[64];

	snprintf(launch, sizeof(launch), "slurm-%u.%u", step->opts->job, step->opts->step);
	step->watch = hvd_job_watch_create(&(struct hvd_job_watch_opts){.base = step->base,
									.spec = step->opts->driver->spec,
									.stacks = hvd_driver_stacks(step->driver),
									.wish = &step->requeue,
									.control = launch,
									.pid = step->srun_pid,
									.ops = &ops,
									.arg = step,
									.log = step->log});
}

static void end(struct step *step)
{
	hvd_job_watch_destroy(step->watch);
	hvd_driver_destroy(step->driver);
	hvd_failure_report_destroy(step->report);
	event_free(step->srun);
	event_free(step->term);
	event_free(step->end_step);
	event_free(step->end_srun);
	event_free(step->last);
	event_base_free(step->base);
}

int hvd_step_run(const struct hvd_step_run_opts *opts, struct hvd_err *err)
{
	static const struct hvd_driver_ops ops = {.started = on_started,
						  .failed = on_failed,
						  .rank_exit = on_rank_exit,
						  .host_gone = on_host_gone,
						  .all_left = on_all_left,
						  .stalled = on_stalled,
						  .process_lost = on_process_lost};
	struct step step = {.opts = opts, .log = opts->log, .base = event_base_new()};
	int rc = -1;

	if (!step.base)
		return hvd_err_set(err, HVD_E_SYS, "cannot make an event loop");
	begin(&step);
	step.driver = hvd_driver_create(step.base, opts->driver, opts->session, &ops, &step, opts->log, err);
	if (step.driver) {
		begin_watch(&step);
		rc = send_boot(&step, err);
	}
	/* srun is starting the tasks meanwhile. */
	if (rc == 0)
		hvd_shared_hosts_ask(opts->job, ASK_SECONDS, opts->driver, step.log);
	if (rc == 0)
		event_base_dispatch(step.base);
	if (rc == 0 && anything_failed(&step))
		log_report(&step);
	if (rc == 0 && step.start_failed && step.started)
		log_failed(&step);
	end(&step);
	if (rc == 0)
		rc = hvd_requeue_at_end(opts->driver->spec, &step.requeue, 0, opts->log);
	if (step.srun_left && rc != HVD_REQUEUE_STATUS && getppid() == step.srun_pid)
		kill(step.srun_pid, SIGKILL);
	return rc;
}
