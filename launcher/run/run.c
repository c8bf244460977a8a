/* SPDX-License-Identifier: Apache-2.0 */
#include "run.h"

#include "lib/job/layout.h"
#include "lib/process/spawn.h"
#include "node_down.h"
#include "overdue.h"
#include "runfunc.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

/* After a failed start the ranks end by themselves, as the driver has told them; this is for those it could not reach.
 */
#define SOFT_END_SECONDS 2
/* A host whose shim went without a word is lost when the launch still goes on after this. srun may wait for such a
 * host's tasks for ever. */
#define LOST_HOST_SECONDS 3
/* How long an MPI may take to end the ranks after one has failed, before it is asked to. */
#define MPI_END_SECONDS 3
/* How long a backend may take to end its processes before it is killed itself; and how long to see that all of its
 * ranks have ended, before it is asked to end. */
#define END_SECONDS 10
/* … when it has been asked to end, and no rank is left that it could wait for. */
#define SETTLE_SECONDS 2

struct run {
	struct hvd_job job;
	struct hvd_driver *driver;
	struct hvd_runfunc *func; /* --run-func, or NULL */
	struct event *soft_end, *host_lost;
	char lost_host[256];
	bool failed;                 /* not because a rank failed: the start, a host, the results' reader */
	bool all_ended;              /* all ranks, as their shims have told */
	struct hvd_overdue *overdue; /* since then */
	struct hvd_node_down *down;
};

/* Do the shims end the ranks when the driver says so? */
static bool shims_end(const struct run *run)
{
	return run->job.backend->mode != HVD_START_RANKS;
}

/* End everything: the ranks through their shims where those start them, else through the backend's process. */
static void end_all(void *arg)
{
	struct run *run = arg;
	struct hvd_job *job = &run->job;

	if (job->ending_signal && !job->result->started)
		run->failed = true;
	if (!job->ending)
		hvd_procs_end(job->procs, run->all_ended ? SETTLE_SECONDS : END_SECONDS);
	if (shims_end(run))
		hvd_driver_end_ranks(run->driver);
	if (!shims_end(run) || run->failed)
		hvd_procs_signal(job->procs, SIGTERM);
	job->ending = true;
}

static void on_soft_end(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	end_all(arg);
}

/* ---- what the driver says ---- */

static void on_node_down(const char *host, void *arg);

static void on_started(void *arg)
{
	struct run *run = arg;

	if (run->job.backend == &hvd_backend_srun)
		run->down = hvd_node_down_watch(run->job.base, run->driver, on_node_down, run);
	run->job.result->started = true;
	run->job.result->start_seconds = hvd_job_seconds(&run->job);
}

static void on_failed(const struct hvd_err *why, void *arg)
{
	struct timeval tv = {.tv_sec = SOFT_END_SECONDS};
	struct run *run = arg;

	if (run->job.ending_signal)
		return; /* what fails now fails because of it */
	run->failed = true;
	run->job.result->status = hvd_err_status(why);
	hvd_log_err(run->job.log, why);
	if (shims_end(run))
		end_all(run);
	else
		evtimer_add(run->soft_end, &tv);
}

static void on_rank_exit(uint32_t rank, const char *host, int status, void *arg)
{
	struct timeval tv = {.tv_sec = MPI_END_SECONDS};
	struct run *run = arg;
	char text[64];

	hvd_procs_rank_ended(run->job.procs, host);
	if (status != 0 && run->func && !run->job.ending)
		hvd_runfunc_failed(run->func, rank, host, status);
	if (status == 0 || run->job.result->rank_failed || run->job.ending)
		return;
	run->job.result->rank_failed = true;
	run->job.result->rank = rank;
	run->job.result->rank_status = status;
	run->job.result->status = hvd_status_exit(status);
	snprintf(run->job.result->host, sizeof(run->job.result->host), "%s", host);
	hvd_status_text(status, text, sizeof(text));
	if (run->job.launch->spec->failure.keep_going) {
		hvd_error(run->job.log, "rank %u on %s failed: %s; the others go on (--keep-going)", rank, host, text);
		return;
	}
	hvd_error(run->job.log, "rank %u on %s failed first: %s; ending the other ranks", rank, host, text);
	if (shims_end(run))
		end_all(run); /* otherwise the backend does it: it sees the same end */
	else if (run->job.backend->status_hides_signals)
		evtimer_add(run->soft_end, &tv); /* though hydra's launcher has been seen to wait for ever */
}

/* A host cannot do its part any longer, for a reason that is logged unless the job is ending anyhow. */
static void end_without(struct run *run, const struct hvd_err *why)
{
	if (run->job.ending)
		return;
	if (!run->failed && !run->job.result->rank_failed) {
		hvd_log_err(run->job.log, why);
		run->job.result->status = 1;
		run->failed = true;
	}
	end_all(run);
}

static void lost(struct run *run, const char *because)
{
	struct hvd_err why = {0};

	hvd_err_set(&why, HVD_E_NET, "the connection to its node agent was lost%s; ending the job", because);
	hvd_err_hint(&why, "did the host fail, or was it taken away? (%s %s)",
		     hvd_alloc_in_lsf(run->job.launch->envp) ? "bhosts" : "sinfo -N -n", run->lost_host);
	hvd_err_host(&why, run->lost_host);
	end_without(run, &why);
}

static void on_node_down(const char *host, void *arg)
{
	struct run *run = arg;

	snprintf(run->lost_host, sizeof(run->lost_host), "%s", host);
	lost(run, ": Slurm has given up the node");
	hvd_driver_lose_host(run->driver, host);
}

static void on_lost_host(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	lost(arg, "");
}

/* Often the step is just being ended, and this host's shim was first to go: wait whether the rest follows. A host that
 * does not answer, or whose shim says what has happened, is no such case. */
static void on_host_gone(const char *host, const struct hvd_err *why, void *arg)
{
	struct timeval tv = {.tv_sec = LOST_HOST_SECONDS};
	struct run *run = arg;
	struct hvd_err told;

	if (why->code == HVD_E_FAILED) {
		hvd_err_set(&told, HVD_E_FAILED, "%s; ending the job", why->msg);
		hvd_err_hint(&told,
			     "was it killed, or is the host out of memory? (dmesg and the scheduler's log there)");
		hvd_err_host(&told, host);
		end_without(run, &told);
		return;
	}
	if (evtimer_pending(run->host_lost, NULL))
		return;
	snprintf(run->lost_host, sizeof(run->lost_host), "%s", host);
	if (why->code == HVD_E_TIMEOUT)
		lost(run, ": the host does not answer");
	else
		evtimer_add(run->host_lost, &tv);
}

/* ---- all ranks have ended ---- */

static void on_overdue(const struct hvd_err *why, bool certain, void *arg)
{
	struct run *run = arg;

	if (certain)
		end_without(run, why);
	else if (!run->job.ending)
		hvd_info(run->job.log, "%s", why->msg);
}

static void on_ranks_ended(const struct hvd_strv *without_munge, void *arg)
{
	struct run *run = arg;

	run->all_ended = true;
	evtimer_del(run->host_lost);
	if (run->job.ending)
		hvd_procs_end(run->job.procs, SETTLE_SECONDS);
	else
		run->overdue =
			hvd_overdue_watch(run->job.base, run->job.launch->procs[0].argv.v[0],
					  hvd_procs_pid(run->job.procs), END_SECONDS, without_munge, on_overdue, run);
}

/* ---- a function for every rank ---- */

static int on_rendezvous_opened(struct hvd_rv *rv, void *arg, struct hvd_err *err)
{
	struct run *run = arg;

	return run->func ? hvd_runfunc_serve(run->func, rv, &run->job.secret.session.key, err) : 0;
}

static void on_unread(void *arg)
{
	struct run *run = arg;

	run->failed = true;
	run->job.result->status = 1;
	end_all(run);
}

static int open_func(struct run *run, struct hvd_err *err)
{
	const struct hvd_launch_spec *spec = run->job.launch->spec;

	if (!spec->function.file)
		return 0;
	run->job.opts->meeting_env = HVD_RUNFUNC_ENV;
	run->job.opts->func_key = true;
	hvd_strv_addf(&run->job.opts->env, HVD_RUNFUNC_MAX_ENV "=%zu", hvd_runfunc_max());
	run->func = hvd_runfunc_open(run->job.base, spec->function.file, spec->function.results, on_unread, run,
				     run->job.log, err);
	return run->func ? 0 : -1;
}

/* The ranks have ended: is everyone's result there? */
static void end_func(struct run *run)
{
	const struct hvd_layout *l = hvd_driver_layout(run->driver);
	struct hvd_result *result = run->job.result;
	int missing = 0, first = 0;
	struct hvd_err why = {0};

	for (int r = l ? l->size - 1 : -1; r >= 0; r--)
		if (!hvd_runfunc_has(run->func, (uint32_t)r)) {
			missing++;
			first = r;
		}
	if (missing && result->status == 0) {
		hvd_err_set(&why, HVD_E_FAILED, "rank %d ended without a result (%d of %d ranks did)", first, missing,
			    l->size);
		hvd_err_hint(&why, "the command must PUT one at /runfunc_result/%d before it ends; see hvdrun(1)",
			     first);
		hvd_err_host(&why, l->hosts[l->rank_slots[first].host].name);
		hvd_log_err(run->job.log, &why);
		hvd_runfunc_failed(run->func, (uint32_t)first, why.host, 0);
		result->status = 1;
	}
	if (hvd_runfunc_end(run->func, result->status, result->started, l ? (uint32_t)l->size : 0) != 0 &&
	    result->status == 0)
		result->status = 1;
}

/* ---- signals and children ---- */

static void on_host_came(uint32_t host, void *arg)
{
	hvd_procs_registered(((struct run *)arg)->job.procs, host);
}

/* A host's process is gone, and with it the way to its ranks. */
static void on_proc_lost(uint32_t host, const struct hvd_err *why, void *arg)
{
	struct run *run = arg;

	(void)host;
	if (run->job.ending)
		return;
	if (!run->job.result->started) {
		hvd_driver_give_up(run->driver, why);
		return;
	}
	hvd_log_err(run->job.log, why);
	hvd_job_failed(&run->job);
	if (!run->job.launch->spec->failure.keep_going)
		end_all(run);
}

static void on_proc_ended(int status, void *arg)
{
	struct run *run = arg;
	char text[64];

	/* Whoever starts all ranks and is killed has told nobody: srun, an MPI. */
	if (run->job.backend->mode != HVD_START_HOSTS && WIFSIGNALED(status) && !run->failed &&
	    !run->job.result->rank_failed && !run->job.ending)
		hvd_error(run->job.log, "%s ended: %s", run->job.launch->procs[0].argv.v[0],
			  hvd_status_text(status, text, sizeof(text)));

	if (!run->failed && !run->job.result->rank_failed && run->job.result->status == 0)
		run->job.result->status = hvd_status_exit(status);
}

static void on_none_left(void *arg)
{
	hvd_job_stop(&((struct run *)arg)->job);
}

static void on_signal_ranks(int sig, void *arg)
{
	hvd_driver_signal_ranks(((struct run *)arg)->driver, sig);
}

/* The backend's process has the signal, or gets it now, and ends the ranks because of it. Two cases are left for us.
 * Its exit status may not tell of the signal: then ours does. And when all ranks have ended, srun would go on after one
 * SIGINT. */
static void on_backend_signal(int sig, bool tty, void *arg)
{
	struct run *run = arg;
	struct hvd_job *job = &run->job;

	if (!tty)
		hvd_procs_signal(job->procs, sig);
	if (job->ending) {
		/* It is told already. */
	} else if (job->backend->status_hides_signals && (sig == SIGINT || sig == SIGTERM || sig == SIGHUP)) {
		hvd_job_ended_by(job, sig);
		hvd_procs_end(job->procs, END_SECONDS);
		job->ending = true;
	} else if (run->all_ended && sig == SIGINT) {
		hvd_info(job->log, "interrupted; all ranks have ended: ending %s", job->launch->procs[0].argv.v[0]);
		job->ending_signal = sig;
		job->result->status = 128 + sig;
		end_all(run);
	}
}

/* ---- life ---- */

static int begin(struct run *run, struct hvd_err *err)
{
	static const struct hvd_driver_ops ops = {
		on_started, on_failed, on_rank_exit, on_host_gone, on_host_came, on_rendezvous_opened, on_ranks_ended};
	struct hvd_job *job = &run->job;
	struct hvd_boot boot;

	run->soft_end = evtimer_new(job->base, on_soft_end, run);
	run->host_lost = evtimer_new(job->base, on_lost_host, run);
	if (open_func(run, err) != 0)
		return -1;
	run->driver = hvd_driver_create(job->base, job->opts, &job->secret.session, &ops, run, job->log, err);
	if (!run->driver)
		return -1;
	hvd_driver_boot(run->driver, &boot);
	return hvd_job_set_boot(job, &boot, err) == 0 ? hvd_procs_start(job->procs, err) : -1;
}

static void cleanup(struct run *run)
{
	hvd_job_end_procs(&run->job);
	hvd_overdue_destroy(run->overdue);
	hvd_node_down_destroy(run->down);
	hvd_driver_destroy(run->driver);
	hvd_runfunc_close(run->func);
	if (run->soft_end)
		event_free(run->soft_end);
	if (run->host_lost)
		event_free(run->host_lost);
	hvd_job_clear(&run->job);
}

int hvd_run(struct hvd_launch *launch, const struct hvd_backend *backend, struct hvd_driver_opts *opts,
	    struct hvd_result *result, struct hvd_err *err)
{
	static const struct hvd_job_ops job_ops = {end_all, on_signal_ranks, on_backend_signal};
	static const struct hvd_procs_ops procs_ops = {
		.ended = on_proc_ended, .lost = on_proc_lost, .none_left = on_none_left};
	struct run run = {0};
	int rc = hvd_job_init(&run.job, launch, backend, opts, result, false, &job_ops, &procs_ops, &run, err);

	if (rc == 0)
		rc = begin(&run, err);
	if (rc == 0)
		hvd_job_run(&run.job);
	if (rc == 0 && run.func)
		end_func(&run);
	if (rc == 0 && hvd_driver_output_lost(run.driver))
		hvd_job_failed(&run.job);
	result->seconds = hvd_job_seconds(&run.job);
	cleanup(&run);
	return rc;
}
