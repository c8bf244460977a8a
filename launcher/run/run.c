/* SPDX-License-Identifier: Apache-2.0 */
/* run.c - what a static job does with what the driver, the backend's processes and signals tell, see run.h. */
#include "run.h"

#include "job_fate.h"
#include "job_watch.h"
#include "launcher/diagnosis/failure_report.h"
#include "lib/base/cleanup.h"
#include "lib/process/spawn.h"
#include "overdue.h"
#include "runfunc.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* HVD_START_RANKS: after a failed start the driver has told the ranks to end. After this the backend ends those that
 * the driver could not reach. */
#define SOFT_END_SECONDS 2
/* How long an MPI may take to end the ranks after one has failed, before it is asked to. */
#define MPI_END_SECONDS 3
/* How long a backend may take to end its processes before it is killed; and how long it may go on when all of its ranks
 * have ended, before it is overdue. */
#define END_SECONDS 10
/* … to end when it was told to, and no rank is left that it could wait for. */
#define SETTLE_SECONDS 2
/* After a failure: how long ends of ranks may be on their way when the backend's processes have ended. */
#define TOLD_MS 500
/* A node agent that ends its ranks unasked does so since what had started it is gone, or is ending it: how long that
 * may take to be seen here, before the end counts as a failure of the rank. */
#define UNASKED_SECONDS 1

struct run {
	struct hvd_job job;
	struct hvd_driver *driver;
	struct hvd_runfunc *func; /* --run-func, or NULL */
	struct event *soft_end;
	bool failed;    /* for another reason than a rank's failure: the start, a host, the results' reader */
	bool all_ended; /* every rank has ended, as the agents have reported … */
	bool broken;    /* … or as one has not that was on a host whose connection just broke */
	struct hvd_overdue *overdue; /* watches the backend's process since then */
	struct hvd_failure_report *failures;
	struct event *told; /* pending: no process is left, and ends of ranks may be on their way */
	struct {
		struct event *late; /* pending: why the rank was ended is awaited */
		uint32_t rank;
		int status;
		char host[256];
	} unasked; /* a rank that its node agent has ended unasked */
	struct hvd_job_watch *watch;
	int proc_status; /* as from waitpid(2), of the process whose end is this launch's status; 0 = none has ended
			    badly */
	bool excused;    /* the next process that has ended belonged to a host that was left out */
};

/* Do node agents or rank shims end the ranks when the driver says so? Otherwise the backend does. */
static bool driver_ends_ranks(const struct run *run)
{
	return run->job.backend->mode != HVD_START_RANKS;
}

static void end_all(void *arg)
{
	struct run *run = arg;
	struct hvd_job *job = &run->job;

	if (job->ending_signal && !job->result->started)
		run->failed = true;
	hvd_failure_report_ending(run->failures, hvd_wall_now());
	if (!job->ending)
		hvd_procs_end(job->procs, run->all_ended ? SETTLE_SECONDS : END_SECONDS);
	if (driver_ends_ranks(run))
		hvd_driver_end_ranks(run->driver);
	if (!driver_ends_ranks(run) || run->failed)
		hvd_procs_signal(job->procs, SIGTERM);
	job->ending = true;
}

static void on_soft_end(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	end_all(arg);
}

/* ---- what the driver tells ---- */

static void on_process_lost(const struct hvd_loss *loss, void *arg)
{
	struct run *run = arg;

	if (run->job.ending)
		return;
	hvd_failure_report_lost(run->failures, loss);
	if (hvd_job_watch_process_lost(run->watch, loss))
		run->broken = false;
}

static void on_failed(const struct hvd_err *why, void *arg)
{
	struct run *run = arg;

	if (run->job.ending_signal)
		return; /* the start fails because of the signal */
	run->failed = true;
	run->job.result->status = hvd_err_status(why);
	hvd_log_err(run->job.log, why);
	if (driver_ends_ranks(run))
		end_all(run);
	else
		evtimer_add(run->soft_end, &(struct timeval){.tv_sec = SOFT_END_SECONDS});
}

/* The first failure that is heard of. */
static void rank_failed(struct run *run, uint32_t rank, const char *host, int status)
{
	struct hvd_result *result = run->job.result;
	struct timeval tv = {.tv_sec = MPI_END_SECONDS};
	char text[64];

	result->rank_failed = true;
	result->rank = rank;
	result->rank_status = status;
	result->status = hvd_status_exit(status);
	snprintf(result->host, sizeof(result->host), "%s", host);
	hvd_status_text(status, text, sizeof(text));
	if (run->job.launch->spec->failure.keep_going) {
		hvd_error(run->job.log, "rank %u on %s failed: %s; the others go on (--keep-going)", rank, host, text);
		return;
	}
	hvd_error(run->job.log, "rank %u on %s failed: %s; ending the other ranks", rank, host, text);
	if (driver_ends_ranks(run))
		end_all(run);
	else if (run->job.backend->status_hides_signals)
		evtimer_add(run->soft_end, &tv); /* an MPI ends the others itself, but hydra's may wait for ever */
}

static void on_unasked_late(evutil_socket_t fd, short what, void *arg)
{
	struct run *run = arg;

	(void)fd;
	(void)what;
	if (!run->job.result->rank_failed && !run->job.ending)
		rank_failed(run, run->unasked.rank, run->unasked.host, run->unasked.status);
}

/* Its process here is about to end, and is not to be taken for one whose ranks have ended by themselves. */
static void await_why(struct run *run, const struct hvd_rank_end *end, const char *host)
{
	struct timeval tv = {.tv_sec = UNASKED_SECONDS};

	if (evtimer_pending(run->unasked.late, NULL))
		return;
	run->unasked.rank = end->rank;
	run->unasked.status = end->status;
	snprintf(run->unasked.host, sizeof(run->unasked.host), "%s", host);
	evtimer_add(run->unasked.late, &tv);
}

static void on_rank_exit(const struct hvd_rank_end *end, const char *host, void *arg)
{
	struct run *run = arg;
	struct hvd_job *job = &run->job;
	bool heard = end->status == 0 || job->result->rank_failed || job->ending;

	hvd_failure_report_add(run->failures, end, host);
	if (!heard && end->cause == HVD_END_WITH_ALL && job->backend->mode == HVD_START_HOSTS) {
		await_why(run, end, host);
		return;
	}
	hvd_procs_rank_ended(job->procs, host);
	hvd_requeue_rank_ended(&job->result->requeue, job->launch->spec, end->status);
	if (end->status != 0 && run->func && !job->ending)
		hvd_runfunc_failed(run->func, end->rank, host, end->status);
	/* After the signal before the time limit ranks end one after the other; each may still write a checkpoint. */
	if (!heard && !hvd_requeue_wanted(&job->result->requeue, HVD_REQUEUE_LIMIT))
		rank_failed(run, end->rank, host, end->status);
}

/* The job cannot go on, for a reason that is logged unless another failure was logged before. */
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

/* srun may wait for ever for the tasks of such a host. */
static void on_host_lost(const char *host, const char *how, void *arg)
{
	struct run *run = arg;
	struct hvd_err why = {0};

	if (*how && run->all_ended && run->job.result->rank_failed && !run->job.ending)
		hvd_warn(run->job.log, "%s%s, and srun still waits; ending it", host, how);
	hvd_job_watch_lost_error(&why, host, how, "ending the job");
	end_without(run, &why);
	hvd_driver_lose_host(run->driver, host);
}

/* ---- the job's time limit ---- */

static void on_signal_ranks(int sig, void *arg)
{
	struct run *run = arg;

	run->job.result->requeue.signalled = true;
	if (driver_ends_ranks(run))
		hvd_driver_signal_ranks(run->driver, sig);
	else
		hvd_procs_signal(run->job.procs, sig); /* srun and mpirun pass it on */
}

/* Hosts that were left out have no ranks, and the last of the others may have fewer than slots. */
static void count_ranks(struct run *run)
{
	const struct hvd_layout *layout = hvd_driver_layout(run->driver);

	for (int h = 0; run->job.backend->mode == HVD_START_HOSTS && h < layout->n_hosts; h++)
		if (layout->hosts[h].n > 0)
			hvd_procs_set_ranks(run->job.procs, (uint32_t)h, layout->hosts[h].n);
}

static void on_started(void *arg)
{
	struct run *run = arg;

	hvd_job_watch_started(run->watch, run->job.backend == &hvd_backend_srun ? run->driver : NULL);
	if (run->job.launch->spec->spares > 0)
		count_ranks(run);
	run->job.result->started = true;
	run->job.result->start_seconds = hvd_job_seconds(&run->job);
}

/* A host's connection has ended before its ranks did; its agent may have said why. */
static void on_host_gone(const char *host, const struct hvd_err *why, void *arg)
{
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
	hvd_job_watch_host_gone(run->watch, host, why);
}

/* ---- hangs and the time limit ---- */

static void on_end(const struct hvd_err *why, void *arg)
{
	if (why)
		end_without(arg, why);
	else
		end_all(arg);
}

static bool is_ending(void *arg)
{
	return ((struct run *)arg)->job.ending;
}

static void on_stalled(const struct hvd_stall *stall, void *arg)
{
	struct run *run = arg;

	if (!run->all_ended)
		hvd_job_watch_stalled(run->watch, stall);
}

/* ---- all ranks have ended ---- */

static void on_overdue(const struct hvd_err *why, bool certain, void *arg)
{
	struct run *run = arg;

	if (certain) {
		end_without(run, why);
	} else if (run->broken && !run->job.ending) {
		struct hvd_loss loss = {.of = HVD_LOSS_HOST, .status = -1};

		loss.host = hvd_job_watch_settled_host(run->watch, &loss.at);
		hvd_warn(run->job.log, "%s: the connection to its node agent was lost, and %s still waits; ending it",
			 loss.host, run->job.launch->procs[0].argv.v[0]);
		hvd_failure_report_lost(run->failures, &loss);
		hvd_job_watch_lose(run->watch);
	} else if (!run->job.ending) {
		hvd_info(run->job.log, "%s", why->msg);
		hvd_job_watch_ask_of_all(run->watch);
	}
}

static void on_ranks_ended(const struct hvd_strv *without_munge, void *arg)
{
	struct run *run = arg;

	run->all_ended = true;
	run->broken = hvd_job_watch_settle(run->watch);
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

/* ---- signals and children ---- */

static void on_host_came(uint32_t host, void *arg)
{
	hvd_procs_registered(((struct run *)arg)->job.procs, host);
}

/* The job goes on without the host. An agent that has registered is told to end; a process that may still be on its way
 * to the host is not waited for. */
static void on_left_out(uint32_t host, void *arg)
{
	struct run *run = arg;

	if (run->job.backend->mode == HVD_START_HOSTS)
		hvd_procs_release(run->job.procs, host, true);
}

/* A host's process has ended, and with it its node agent's connection. */
static void on_proc_lost(uint32_t host, const struct hvd_err *why, void *arg)
{
	struct run *run = arg;

	if (run->job.ending)
		return;
	if (!run->job.result->started) {
		run->excused = hvd_driver_leave_out(run->driver, host, why);
		if (!run->excused)
			hvd_driver_give_up(run->driver, why);
		return;
	}
	hvd_log_err(run->job.log, why);
	hvd_job_failed(&run->job);
	if (!run->job.launch->spec->failure.keep_going)
		end_all(run);
}

static void on_joined(struct hvd_conn *conn, struct hvd_client_io *io, void *arg)
{
	hvd_driver_adopt(((struct run *)arg)->driver, conn, io);
}

static void on_proc_ended(int status, void *arg)
{
	struct run *run = arg;

	if (!run->failed && !run->job.result->rank_failed && run->job.result->status == 0 && !run->excused) {
		run->job.result->status = hvd_status_exit(status);
		run->proc_status = status;
	}
	run->excused = false;
}

/* The one process that started all ranks has ended badly, and neither anybody nor a rank's end has said why. */
static bool unexplained(const struct run *run)
{
	const char *host;

	return run->job.backend->mode != HVD_START_HOSTS && run->proc_status != 0 && !run->failed &&
	       !run->job.result->rank_failed && !run->job.ending && !run->job.ending_signal &&
	       (WIFSIGNALED(run->proc_status) ||
		(run->job.result->started && !hvd_failure_report_first(run->failures, &host)));
}

static void stop(struct run *run)
{
	char text[64];

	if (unexplained(run)) {
		hvd_cleanup_free char *fate = hvd_job_fate(hvd_requeue_job(run->job.launch->spec, 0));

		if (hvd_failure_report_loss(run->failures))
			hvd_failure_report_log(run->failures, false, run->job.log);
		else
			hvd_error(run->job.log, "%s ended: %s%s%s", run->job.launch->procs[0].argv.v[0],
				  hvd_status_text(run->proc_status, text, sizeof(text)), fate ? "; " : "",
				  fate ? fate : "");
	}
	hvd_job_stop(&run->job);
}

/* No process is left. Ends of ranks that they have told of last may not have been read yet. srun may have ended with
 * the tasks that Slurm has ended since it has given up a host. */
static void on_none_left(void *arg)
{
	struct run *run = arg;

	if (unexplained(run))
		hvd_job_watch_ask_slurm(run->watch);
	if ((run->job.result->rank_failed || unexplained(run)) && hvd_driver_connected(run->driver))
		evtimer_add(run->told, &(struct timeval){.tv_usec = TOLD_MS * 1000});
	else
		stop(run);
}

static void on_all_left(void *arg)
{
	struct run *run = arg;

	if (evtimer_pending(run->told, NULL))
		stop(run);
}

static void on_told(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	stop(arg);
}

/* All ends are known: the failure that counts is the first by its time. */
static void report_failures(struct run *run)
{
	struct hvd_result *result = run->job.result;
	const struct hvd_rank_end *first;
	const char *host;

	if (!result->rank_failed)
		return;
	first = hvd_failure_report_first(run->failures, &host);
	if (!first)
		return;
	if (result->status == hvd_status_exit(result->rank_status) && !run->job.ending_signal)
		result->status = hvd_status_exit(hvd_failure_report_status(run->failures));
	result->rank = first->rank;
	result->rank_status = first->status;
	snprintf(result->host, sizeof(result->host), "%s", host);
	if (hvd_failure_report_killed(run->failures)) {
		hvd_cleanup_free char *fate = hvd_job_fate(hvd_requeue_job(run->job.launch->spec, 0));

		hvd_failure_report_killer(run->failures, fate);
	}
	hvd_failure_report_log(run->failures, !first->error && hvd_requeue_leaving(&result->requeue), run->job.log);
	hvd_failure_report_json(run->failures, &result->first_failure, &result->failures);
}

/* HVD_START_RANKS: the backend's process has the signal from the terminal, or gets it from here, and decides what to
 * do. Two cases are left for hvdrun. If the exit status of the process does not tell that a signal ended it, hvdrun's
 * status does. And if all ranks have ended already, srun would go on after one SIGINT: then it is ended. */
static void on_backend_signal(int sig, bool tty, void *arg)
{
	struct run *run = arg;
	struct hvd_job *job = &run->job;

	if (!tty)
		on_signal_ranks(sig, run);
	if (job->ending) {
		/* The user was told. */
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
		on_started,     on_failed,   on_rank_exit, on_host_gone, on_host_came,   on_rendezvous_opened,
		on_ranks_ended, on_all_left, on_stalled,   on_left_out,  on_process_lost};
	static const struct hvd_job_watch_ops watch_ops = {on_signal_ranks, on_end, on_host_lost, is_ending};
	struct hvd_job *job = &run->job;
	struct hvd_boot boot;

	run->soft_end = evtimer_new(job->base, on_soft_end, run);
	run->unasked.late = evtimer_new(job->base, on_unasked_late, run);
	run->told = evtimer_new(job->base, on_told, run);
	run->failures = hvd_failure_report_create();
	if (hvd_job_open_func(job, on_unread, run, &run->func, err) != 0)
		return -1;
	run->driver = hvd_driver_create(job->base, job->opts, &job->secret.session, &ops, run, job->log, err);
	if (!run->driver)
		return -1;
	run->watch = hvd_job_watch_create(&(struct hvd_job_watch_opts){.base = job->base,
								       .spec = job->launch->spec,
								       .stacks = hvd_driver_stacks(run->driver),
								       .wish = &job->result->requeue,
								       .pid = getpid(),
								       .ops = &watch_ops,
								       .arg = run,
								       .log = job->log});
	hvd_driver_boot(run->driver, &boot);
	return hvd_job_set_boot(job, &boot, err) == 0 ? hvd_procs_start(job->procs, err) : -1;
}

static void cleanup(struct run *run)
{
	hvd_job_end_procs(&run->job);
	hvd_overdue_destroy(run->overdue);
	hvd_job_watch_destroy(run->watch);
	hvd_driver_destroy(run->driver);
	hvd_runfunc_close(run->func);
	if (run->soft_end)
		event_free(run->soft_end);
	if (run->unasked.late)
		event_free(run->unasked.late);
	if (run->told)
		event_free(run->told);
	hvd_failure_report_destroy(run->failures);
	hvd_job_clear(&run->job);
}

int hvd_run(struct hvd_launch *launch, const struct hvd_backend *backend, struct hvd_driver_opts *opts,
	    struct hvd_result *result, struct hvd_err *err)
{
	static const struct hvd_job_ops job_ops = {end_all, on_signal_ranks, on_backend_signal};
	static const struct hvd_procs_ops procs_ops = {
		.ended = on_proc_ended, .lost = on_proc_lost, .none_left = on_none_left, .joined = on_joined};
	struct run run = {0};
	int rc = hvd_job_init(&run.job, launch, backend, opts, result, false, &job_ops, &procs_ops, &run, err);

	if (rc == 0)
		rc = begin(&run, err);
	if (rc == 0)
		hvd_job_run(&run.job);
	if (rc == 0)
		report_failures(&run);
	if (rc == 0 && run.func)
		result->status =
			hvd_runfunc_end(run.func, hvd_driver_layout(run.driver), result->status, result->started);
	if (rc == 0 && hvd_driver_output_lost(run.driver))
		hvd_job_failed(&run.job);
	if (run.job.ending_signal)
		hvd_requeue_unwant(&result->requeue, HVD_REQUEUE_LIMIT);
	result->seconds = hvd_job_seconds(&run.job);
	cleanup(&run);
	return rc;
}
