/* SPDX-License-Identifier: Apache-2.0 */
/* run.c - the backend's processes as what starts, signals and ends the ranks of a static job, see run.h. */
#include "run.h"

#include "end_timeout.h"
#include "job.h"
#include "launcher/scheduler/scheduler.h"
#include "launcher/world/driver.h"
#include "lib/base/cleanup.h"
#include "lib/process/spawn.h"
#include "starter.h"
#include "step_wait.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* srun, mpirun: how long the ranks may take to end that were told of a failed start. */
#define FAILED_SECONDS 2
/* How long an MPI may take to end the ranks after one has failed; hydra's may wait for ever. */
#define MPI_END_SECONDS 3
/* How long mpirun, jsrun and srun may take to end their ranks before they are killed; and how long they may go on when
 * all of their ranks have ended, before the user is told. */
#define END_SECONDS 10
/* The same after it was told to end, and no rank is left that it could wait for. */
#define SETTLE_SECONDS 2
/* Of two SIGINT within this time srun takes the second one for an order to end; a second, and what the way here takes. */
#define INTERRUPT_SECONDS 2
/* After a failure: how long ends of ranks may be on their way when the backend's processes have ended. */
#define LAST_MS  500
#define NS_PER_S 1000000000LL

struct run {
	struct hvd_starter starter; /* first, so that a pointer to it is one to all */
	struct hvd_frontend job;
	struct hvd_step_wait *step_wait;
	struct hvd_end_timeout *end_timeout; /* watches the backend's process since all ranks have ended */
	int proc_status; /* as from waitpid(2), of the process whose end is this launch's status; 0 = none has ended
			    badly */
	int ended_by;    /* the signal by which the process ends all ranks, other than through this one; 0 = none */
	hvd_time interrupted; /* when the last SIGINT came */
	bool has_signal;      /* the process has the signal that ends the job */
	bool left_out;        /* the next process that has ended belonged to a host that was left out */
};

static struct run *run_of(struct hvd_starter *starter)
{
	return (struct run *)starter;
}

/* ---- what the job wants ---- */

static int do_start(struct hvd_starter *starter, const struct hvd_boot *boot, struct hvd_err *err)
{
	struct hvd_frontend *job = &run_of(starter)->job;

	return hvd_frontend_set_boot(job, boot, err) == 0 ? hvd_procs_start(job->procs, err) : -1;
}

/* srun and mpirun pass it on. */
static void do_signal(struct hvd_starter *starter, int sig)
{
	hvd_procs_signal(run_of(starter)->job.procs, sig);
}

static void do_end(struct hvd_starter *starter, const struct hvd_ending *how)
{
	struct run *run = run_of(starter);
	struct hvd_procs *procs = run->job.procs;

	if (!how->again && how->no_ranks)
		hvd_procs_end(procs, SETTLE_SECONDS);
	else if (!how->again)
		hvd_procs_end(procs, starter->agents_end_ranks
					     ? (int)run->job.opts->kill_wait + HVD_UNKILLABLE_TOLD_SECONDS
					     : END_SECONDS);
	if (!how->agents && !run->has_signal)
		hvd_procs_signal(procs, SIGTERM);
}

/* What is in front of the agents only waits for them. An MPI's or srun's process has other hosts, too. */
static void do_host_lost(struct hvd_starter *starter, const char *host)
{
	hvd_procs_lost(run_of(starter)->job.procs, host);
}

static void on_end_timeout(const struct hvd_err *why, bool certain, void *arg)
{
	struct run *run = arg;

	if (certain)
		hvd_job_fail(run->starter.job, why);
	else if (!hvd_job_ending(run->starter.job) &&
		 !hvd_job_lose_unconfirmed_host(run->starter.job, run->job.launch->procs[0].argv.v[0]))
		hvd_info(run->job.log, "%s", why->msg);
}

static void do_ranks_ended(struct hvd_starter *starter, const struct hvd_strv *without_munge)
{
	struct run *run = run_of(starter);
	struct hvd_procs *procs = run->job.procs;

	if (hvd_job_ending(starter->job))
		hvd_procs_end(procs, SETTLE_SECONDS);
	else
		run->end_timeout =
			hvd_end_timeout_watch(run->job.base, run->job.launch->procs[0].argv.v[0], hvd_procs_pid(procs),
					      END_SECONDS, without_munge, on_end_timeout, run);
}

/* Has the one process that started all ranks ended badly, and neither anybody nor a rank's end has said why? */
static bool unexplained(struct hvd_starter *starter, bool say)
{
	const struct run *run = run_of(starter);
	const struct hvd_result *result = run->job.result;
	const struct hvd_batch_job job = hvd_batch_job_of(run->job.launch->spec, 0);
	struct hvd_failure_report *failures = hvd_failures_now(hvd_job_failures(run->starter.job));
	hvd_cleanup_free char *fate = NULL;
	const char *host;
	char text[64];

	if (starter->agents_start_ranks || run->proc_status == 0 || hvd_job_failed(run->starter.job) ||
	    result->rank_failed || hvd_job_ending(run->starter.job) || result->ended_by || run->ended_by)
		return false;
	if (!WIFSIGNALED(run->proc_status) && (!result->started || hvd_failure_report_first(failures, &host)))
		return false;
	if (!say)
		return true;
	fate = hvd_batch_job_fate(&job);
	if (hvd_failure_report_loss(failures))
		hvd_failure_report_log(failures, false, run->job.log);
	else
		hvd_error(run->job.log, "%s ended: %s%s%s", run->job.launch->procs[0].argv.v[0],
			  hvd_status_text(run->proc_status, text, sizeof(text)), fate ? "; " : "", fate ? fate : "");
	return true;
}

/* ---- processes ---- */

/* The backend's process has this signal, too, and ends all ranks by it. */
static void leave_to_process(struct run *run, int sig)
{
	hvd_info(run->job.log, "%s: %s ends the ranks", sig == SIGINT ? "interrupted" : strsignal(sig),
		 run->job.launch->procs[0].argv.v[0]);
	run->ended_by = sig;
	hvd_job_expect_ends(run->starter.job);
}

/* Of two signals that came at once this process has seen one, and srun two. */
static bool interrupts(struct hvd_starter *starter)
{
	struct run *run = run_of(starter);

	if (!run->interrupted || hvd_now() - run->interrupted >= INTERRUPT_SECONDS * NS_PER_S)
		return false;
	leave_to_process(run, SIGINT);
	return true;
}

static void on_proc_lost(uint32_t host, const struct hvd_err *why, void *arg)
{
	struct run *run = arg;

	run->left_out = hvd_job_host_failed(run->starter.job, host, why);
}

static void on_proc_ended(int status, void *arg)
{
	struct run *run = arg;
	struct hvd_result *result = run->job.result;
	int exit_status = hvd_status_exit(status);

	/* See interrupts(); of the ranks' ends none has come before. */
	if (run->interrupted && !run->ended_by && !result->ended_by && !result->rank_failed &&
	    hvd_rank_end_cancelled(&(struct hvd_rank_end){.status = status}))
		leave_to_process(run, SIGINT);
	if (!hvd_job_failed(run->starter.job) && !result->rank_failed && result->status == 0 && !run->left_out) {
		result->status = exit_status;
		run->proc_status = status;
	}
	run->left_out = false;
}

static void on_none_left(void *arg)
{
	hvd_job_starter_gone(((struct run *)arg)->starter.job);
}

/* ---- signals ---- */

static void on_end(void *arg)
{
	hvd_job_interrupt(((struct run *)arg)->starter.job);
}

static void on_signal_ranks(int sig, void *arg)
{
	hvd_job_signal(((struct run *)arg)->starter.job, sig);
}

/* Does srun end all ranks by this signal? Of two SIGINT within a second by the second one. */
static bool ends_ranks(struct run *run, int sig)
{
	hvd_time before = run->interrupted;

	if (sig != SIGINT)
		return sig == SIGTERM || sig == SIGHUP;
	run->interrupted = hvd_now();
	return run->job.launch->spec->srun.one_interrupt ||
	       (before && run->interrupted - before < INTERRUPT_SECONDS * NS_PER_S);
}

/* HVD_START_RANKS: the backend's process has the signal from the terminal, or gets it from here, and decides what to
 * do. Two cases are left for hvdrun. If the exit status of the process does not tell that a signal ended it, hvdrun's
 * status does. And if all ranks have ended already, srun would go on after one SIGINT: then it is ended. */
static void on_backend_signal(int sig, bool tty, void *arg)
{
	struct run *run = arg;
	struct hvd_frontend *job = &run->job;

	if (!tty)
		on_signal_ranks(sig, run);
	if (hvd_job_ending(run->starter.job)) {
		/* The user was told. */
	} else if (job->backend->status_hides_signals && (sig == SIGINT || sig == SIGTERM || sig == SIGHUP)) {
		hvd_frontend_ended_by(job, sig);
		run->has_signal = true;
		on_end(run);
	} else if (sig == SIGINT && hvd_job_ranks_ended(run->starter.job)) {
		hvd_info(job->log, "interrupted; all ranks have ended: ending %s", job->launch->procs[0].argv.v[0]);
		job->result->ended_by = sig;
		job->result->status = 128 + sig;
		on_end(run);
	} else if (ends_ranks(run, sig) && !run->ended_by) {
		leave_to_process(run, sig);
	}
}

/* ---- life ---- */

/* Nobody reads the results of --run-func any more. */
static void on_unread(void *arg)
{
	hvd_job_fail(((struct run *)arg)->starter.job, NULL);
}

static bool tasks_run(void *arg)
{
	return hvd_driver_connected(hvd_job_driver(((struct run *)arg)->starter.job));
}

/* Only within a job: outside of one srun says itself that its job is queued. */
static void watch_step(struct run *run)
{
	const struct hvd_launch *launch = run->job.launch;
	const uint32_t job = hvd_batch_job_of(launch->spec, 0).number;

	if (job && run->job.backend == &hvd_backend_srun)
		run->step_wait = hvd_step_wait_watch(run->job.base, job, run->job.procs, tasks_run, run, run->job.log);
}

static int begin(struct run *run, struct hvd_err *err)
{
	struct hvd_frontend *job = &run->job;

	if (hvd_frontend_open_func(job, on_unread, run, err) != 0)
		return -1;
	return hvd_job_create(&(struct hvd_job_opts){.base = job->base,
						     .driver = job->opts,
						     .session = &job->secret.session,
						     .starter = &run->starter,
						     .func = job->func,
						     .result = job->result,
						     .pid = getpid(),
						     .log = job->log},
			      err);
}

static void make_starter(struct run *run, const struct hvd_backend *backend)
{
	static const struct hvd_starter_ops by_agents = {.start = do_start,
							 .end = do_end,
							 .host_lost = do_host_lost,
							 .ranks_ended = do_ranks_ended,
							 .unexplained = unexplained},
					    by_itself = {.start = do_start,
							 .signal = do_signal,
							 .end = do_end,
							 .interrupts = interrupts,
							 .host_lost = do_host_lost,
							 .ranks_ended = do_ranks_ended,
							 .unexplained = unexplained};
	bool itself = backend->mode == HVD_START_RANKS;

	run->starter = (struct hvd_starter){.ops = itself ? &by_itself : &by_agents,
					    .procs = run->job.procs,
					    .agents_start_ranks = backend->mode == HVD_START_HOSTS,
					    .agents_end_ranks = !itself,
					    .ends_after_failure = backend == &hvd_backend_srun &&
								  hvd_launch_spec_ends_ranks(run->job.launch->spec),
					    .failure_seconds = backend->status_hides_signals ? MPI_END_SECONDS : 0,
					    .failed_seconds = itself ? FAILED_SECONDS : 0,
					    .failed_later_seconds = itself ? FAILED_SECONDS : 0,
					    .last_ms = LAST_MS,
					    .ask_slurm = backend == &hvd_backend_srun};
}

static void end(struct run *run)
{
	struct hvd_result *result = run->job.result;
	struct hvd_driver *driver = hvd_job_driver(run->starter.job);

	hvd_procs_drain(run->job.procs);
	if (result->rank_failed)
		hvd_failures_end(hvd_job_failures(run->starter.job), run->job.launch->spec, result,
				 run->job.opts->events, run->job.log);
	hvd_frontend_finish(&run->job, hvd_driver_layout(driver), hvd_driver_slurm_job(driver),
			    hvd_driver_output_lost(driver));
}

int hvd_run(struct hvd_launch *launch, const struct hvd_backend *backend, struct hvd_driver_opts *opts,
	    struct hvd_result *result, struct hvd_err *err)
{
	static const struct hvd_frontend_ops job_ops = {on_end, on_signal_ranks, on_backend_signal};
	static const struct hvd_procs_ops procs_ops = {
		.ended = on_proc_ended, .lost = on_proc_lost, .none_left = on_none_left};
	struct run run = {0};
	int rc = hvd_frontend_init(&run.job, launch, backend, opts, result, false, &job_ops, &procs_ops, &run, err);

	make_starter(&run, backend);
	if (rc == 0)
		rc = begin(&run, err);
	if (rc == 0) {
		watch_step(&run);
		hvd_frontend_run(&run.job);
		end(&run);
	}
	hvd_frontend_end_procs(&run.job);
	hvd_step_wait_destroy(run.step_wait);
	hvd_end_timeout_destroy(run.end_timeout);
	hvd_job_destroy(run.starter.job);
	hvd_frontend_clear(&run.job);
	return rc;
}
