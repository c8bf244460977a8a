/* SPDX-License-Identifier: Apache-2.0 */
/* run.c - the backend's processes as what starts, signals and ends the ranks of a job of hvdrun, see run.h. */
#include "run.h"

#include "elastic.h"
#include "end_timeout.h"
#include "job.h"
#include "launcher/scheduler/scheduler.h"
#include "launcher_process.h"
#include "lib/base/cleanup.h"
#include "lib/process/spawn.h"
#include "static_ranks.h"
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
	struct hvd_launcher_process launcher;
	struct hvd_job_policy *policy;
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
	struct hvd_launcher_process *launcher = &run_of(starter)->launcher;

	return hvd_boot_format(boot, launcher->boot, err) == 0 ? hvd_procs_start(launcher->procs, err) : -1;
}

/* srun and mpirun pass it on. */
static void do_signal(struct hvd_starter *starter, int sig)
{
	hvd_procs_signal(run_of(starter)->launcher.procs, sig);
}

static void do_end(struct hvd_starter *starter, const struct hvd_ending *how)
{
	struct run *run = run_of(starter);
	struct hvd_procs *procs = run->launcher.procs;

	if (!how->again) {
		hvd_procs_end(procs, how->no_ranks ? SETTLE_SECONDS
				     : starter->agents_end_ranks
					     ? (int)run->launcher.opts->kill_wait + HVD_UNKILLABLE_TOLD_SECONDS
					     : END_SECONDS);
		if (run->policy->ops->procs_ending)
			run->policy->ops->procs_ending(run->policy);
	}
	if (run->launcher.result->ended_by)
		hvd_procs_drop_output(procs);
	if (!how->agents && !run->has_signal)
		hvd_procs_signal(procs, SIGTERM);
	if (run->policy->hosts_change && hvd_procs_running(procs) == 0)
		hvd_job_handle(starter->job, HVD_JOB_STARTER_GONE);
}

/* What is in front of the agents only waits for them. An MPI's or srun's process has other hosts, too. */
static void do_host_lost(struct hvd_starter *starter, const char *host)
{
	hvd_procs_lost(run_of(starter)->launcher.procs, host);
}

static void on_end_timeout(const struct hvd_err *why, bool certain, void *arg)
{
	struct run *run = arg;

	if (certain)
		hvd_job_fail(run->starter.job, why);
	else if (!run->starter.job->ending &&
		 !hvd_static_ranks_lose_unconfirmed(run->policy, run->launcher.launch->procs[0].argv.v[0]))
		hvd_info(run->launcher.log, "%s", why->msg);
}

static void do_ranks_ended(struct hvd_starter *starter, const struct hvd_strv *without_munge)
{
	struct run *run = run_of(starter);
	struct hvd_procs *procs = run->launcher.procs;

	if (starter->job->ending)
		hvd_procs_end(procs, SETTLE_SECONDS);
	else
		run->end_timeout =
			hvd_end_timeout_watch(run->launcher.base, run->launcher.launch->procs[0].argv.v[0],
					      hvd_procs_pid(procs), END_SECONDS, without_munge, on_end_timeout, run);
}

/* Has the one process that started all ranks ended badly, and neither anybody nor a rank's end has said why? Before any
 * agent has come it says itself why it cannot start them. */
static bool unexplained(struct hvd_starter *starter, bool say)
{
	const struct run *run = run_of(starter);
	const struct hvd_result *result = run->launcher.result;
	const struct hvd_batch_job job = hvd_batch_job_of(run->launcher.launch->spec, result->job);
	struct hvd_failure_report *failures = hvd_failures_now(&run->starter.job->failures[0]);
	const bool early = !result->started;
	hvd_cleanup_free char *fate = NULL;
	const char *host;
	char text[64];

	if (starter->agents_start_ranks || run->proc_status == 0 || run->starter.job->failed || result->rank_failed ||
	    run->starter.job->ending || result->ended_by || run->ended_by)
		return false;
	if (!WIFSIGNALED(run->proc_status) &&
	    (early ? !hvd_static_ranks_agent_gone(run->policy) : hvd_failure_report_first(failures, &host) != NULL))
		return false;
	if (!say)
		return true;
	fate = hvd_batch_job_fate(&job);
	if (hvd_failure_report_loss(failures))
		hvd_failure_report_log(failures, false, run->launcher.log);
	else
		hvd_error(run->launcher.log, "%s ended%s: %s%s%s", run->launcher.launch->procs[0].argv.v[0],
			  early ? " before the start was complete" : "",
			  hvd_status_text(run->proc_status, text, sizeof(text)), fate ? "; " : "", fate ? fate : "");
	return true;
}

/* ---- processes ---- */

/* The backend's process has this signal, too, and ends all ranks by it. */
static void leave_to_process(struct run *run, int sig)
{
	hvd_info(run->launcher.log, "%s: %s ends the ranks", sig == SIGINT ? "interrupted" : strsignal(sig),
		 run->launcher.launch->procs[0].argv.v[0]);
	run->ended_by = sig;
	run->starter.job->ends_expected = true;
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

	run->left_out = run->policy->ops->proc_lost(run->policy, host, why);
}

static void on_proc_ended(int status, void *arg)
{
	struct run *run = arg;
	struct hvd_result *result = run->launcher.result;
	int exit_status = hvd_status_exit(status);

	if (run->policy->hosts_change)
		return;
	/* See interrupts(); of the ranks' ends none has come before. */
	if (run->interrupted && !run->ended_by && !result->ended_by && !result->rank_failed &&
	    hvd_rank_end_cancelled(&(struct hvd_rank_end){.status = status}))
		leave_to_process(run, SIGINT);
	if (!run->starter.job->failed && !result->rank_failed && result->status == 0 && !run->left_out) {
		result->status = exit_status;
		run->proc_status = status;
	}
	run->left_out = false;
}

static void on_none_left(void *arg)
{
	hvd_job_handle(((struct run *)arg)->starter.job, HVD_JOB_STARTER_GONE);
}

/* It may still have output to pass on. */
static void on_cut_short(uint32_t host, void *arg)
{
	struct run *run = arg;

	run->policy->ops->cut_short(run->policy, host);
}

/* ---- signals ---- */

/* Does srun end all ranks by this signal? Of two SIGINT within a second by the second one. */
static bool ends_ranks(struct run *run, int sig)
{
	hvd_time before = run->interrupted;

	if (sig != SIGINT)
		return sig == SIGTERM || sig == SIGHUP;
	run->interrupted = hvd_now();
	return run->launcher.launch->spec->srun.one_interrupt ||
	       (before && run->interrupted - before < INTERRUPT_SECONDS * NS_PER_S);
}

/* HVD_START_RANKS: the backend's process has the signal from the terminal, or gets it from here, and decides what to
 * do. Two cases are left for hvdrun. If the exit status of the process does not tell that a signal ended it, hvdrun's
 * status does. And if all ranks have ended already, srun would go on after one SIGINT: then it is ended. */
static void on_backend_signal(struct run *run, int sig, bool tty)
{
	struct hvd_launcher_process *launcher = &run->launcher;

	if (!tty)
		hvd_job_signal(sig, run->starter.job);
	if (run->starter.job->ending) {
		/* The user was told. */
	} else if (launcher->backend->status_hides_signals && (sig == SIGINT || sig == SIGTERM || sig == SIGHUP)) {
		hvd_launcher_process_ended_by(launcher, sig);
		run->has_signal = true;
		hvd_job_handle(run->starter.job, HVD_JOB_INTERRUPTED);
	} else if (sig == SIGINT && run->starter.job->ranks_ended) {
		hvd_info(launcher->log, "interrupted; all ranks have ended: ending %s",
			 launcher->launch->procs[0].argv.v[0]);
		launcher->result->ended_by = sig;
		launcher->result->status = 128 + sig;
		hvd_job_handle(run->starter.job, HVD_JOB_INTERRUPTED);
	} else if (ends_ranks(run, sig) && !run->ended_by) {
		leave_to_process(run, sig);
	}
}

static void on_signal(int sig, bool tty, void *arg)
{
	struct run *run = arg;
	struct hvd_launcher_process *launcher = &run->launcher;

	if (sig == SIGCHLD) {
		hvd_procs_reap(launcher->procs);
	} else if (launcher->backend->mode == HVD_START_RANKS) {
		on_backend_signal(run, sig, tty);
	} else if (sig == SIGINT || sig == SIGTERM || sig == SIGHUP) {
		hvd_launcher_process_ended_by(launcher, sig);
		hvd_job_handle(run->starter.job, HVD_JOB_INTERRUPTED);
	} else {
		/* Rank 0 has used the terminal in the background: the shell stops all of its job. */
		if (sig == SIGTTIN || sig == SIGTTOU)
			sig = SIGTSTP;
		hvd_job_signal(sig, run->starter.job);
		hvd_launcher_process_pause(launcher, sig);
	}
}

/* ---- life ---- */

/* Nobody reads the results of --run-func any more. */
static void on_unread(void *arg)
{
	hvd_job_fail(((struct run *)arg)->starter.job, NULL);
}

/* Only within a job: outside of one srun says itself that its job is queued. */
static void watch_step(struct run *run)
{
	const struct hvd_launch *launch = run->launcher.launch;
	const uint32_t job = hvd_batch_job_of(launch->spec, 0).number;

	if (job && run->launcher.backend == &hvd_backend_srun)
		run->step_wait = hvd_step_wait_watch(run->starter.job, job);
}

static int begin(struct run *run, struct hvd_err *err)
{
	struct hvd_launcher_process *launcher = &run->launcher;

	run->policy = launcher->launch->spec->elastic.on ? hvd_elastic_create(launcher, err)
							 : hvd_static_ranks_create(launcher->base);
	if (!run->policy || hvd_launcher_process_open_func(launcher, on_unread, run, err) != 0)
		return -1;
	return hvd_job_create(&(struct hvd_job_opts){.base = launcher->base,
						     .driver = launcher->opts,
						     .session = &launcher->secret.session,
						     .starter = &run->starter,
						     .policy = run->policy,
						     .func = launcher->func,
						     .result = launcher->result,
						     .pid = getpid(),
						     .log = launcher->log},
			      err);
}

static void make_starter(struct run *run, const struct hvd_backend *backend)
{
	static const struct hvd_starter_ops ops = {.start = do_start,
						   .signal = do_signal,
						   .end = do_end,
						   .interrupts = interrupts,
						   .host_lost = do_host_lost,
						   .ranks_ended = do_ranks_ended,
						   .unexplained = unexplained};
	const bool itself = backend->mode == HVD_START_RANKS;
	const bool slurm = backend == &hvd_backend_srun || backend == &hvd_backend_steps ||
			   hvd_scheduler_of(run->launcher.launch->envp) == &hvd_scheduler_slurm;

	run->starter =
		(struct hvd_starter){.ops = &ops,
				     .procs = run->launcher.procs,
				     .agents_start_ranks = backend->mode == HVD_START_HOSTS,
				     .agents_end_ranks = !itself,
				     .ends_after_failure = backend == &hvd_backend_srun &&
							   hvd_launch_spec_ends_ranks(run->launcher.launch->spec),
				     .failure_seconds = backend->status_hides_signals ? MPI_END_SECONDS : 0,
				     .failed_seconds = itself ? FAILED_SECONDS : 0,
				     .failed_later_seconds = itself ? FAILED_SECONDS : 0,
				     .last_ms = LAST_MS,
				     .ask_slurm = slurm};
}

/* The event loop has ended. */
static void end(struct run *run)
{
	const struct hvd_job_policy *policy = run->policy;

	hvd_procs_drain(run->launcher.procs);
	hvd_job_report(run->starter.job);
	hvd_launcher_process_finish(&run->launcher, policy->ops->layout(policy), run->starter.job->output_lost);
}

int hvd_run(struct hvd_launch *launch, const struct hvd_backend *backend, struct hvd_driver_opts *opts,
	    struct hvd_result *result, struct hvd_err *err)
{
	static const struct hvd_procs_ops procs_ops = {
		.ended = on_proc_ended, .lost = on_proc_lost, .cut_short = on_cut_short, .none_left = on_none_left};
	struct run run = {0};
	int rc = hvd_launcher_process_init(&run.launcher, launch, backend, opts, result, on_signal, &procs_ops, &run,
					   err);

	make_starter(&run, backend);
	if (rc == 0)
		rc = begin(&run, err);
	if (rc == 0) {
		watch_step(&run);
		event_base_dispatch(run.launcher.base);
		end(&run);
	}
	hvd_launcher_process_end_procs(&run.launcher);
	hvd_step_wait_destroy(run.step_wait);
	hvd_end_timeout_destroy(run.end_timeout);
	if (run.policy)
		run.policy->ops->destroy(run.policy);
	hvd_job_destroy(run.starter.job);
	hvd_launcher_process_clear(&run.launcher);
	return rc;
}
