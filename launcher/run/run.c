/* SPDX-License-Identifier: Apache-2.0 */
#include "run.h"

#include "lib/base/xalloc.h"
#include "lib/job/layout.h"
#include "lib/process/nofile.h"
#include "lib/process/spawn.h"
#include "node_down.h"
#include "overdue.h"
#include "procs.h"
#include "runfunc.h"
#include "secret.h"
#include "signals.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

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

/* After SIGTSTP: time for the ranks to hear of it, before this process stops. */
#define PAUSE_MS 300

struct run {
	struct event_base *base;
	struct hvd_launch *launch;
	const struct hvd_backend *backend;
	struct hvd_driver_opts *opts;
	struct hvd_secret secret;
	struct hvd_driver *driver;
	struct hvd_result *result;
	const struct hvd_log *log;
	struct hvd_procs *procs;
	struct hvd_runfunc *func; /* --run-func, or NULL */
	struct hvd_procs_opts procs_opts;
	char boot[HVD_BOOT_MAX];
	struct hvd_signals *signals;
	struct event *soft_end, *hard_end, *host_lost, *pause;
	char lost_host[256];
	hvd_time began;
	bool failed, ending;
	bool all_ended;              /* all ranks, as their shims have told */
	struct hvd_overdue *overdue; /* since then */
	struct hvd_node_down *down;
	int ending_signal;
};

/* Do the shims end the ranks when the driver says so? */
static bool shims_end(const struct run *run)
{
	return run->backend->mode != HVD_START_RANKS;
}

/* End everything: the ranks through their shims where those start them, else through the backend's process. */
static void end_all(struct run *run)
{
	struct timeval tv = {.tv_sec = run->all_ended ? SETTLE_SECONDS : END_SECONDS};

	hvd_procs_stop(run->procs);
	if (shims_end(run))
		hvd_driver_end_ranks(run->driver);
	if (!shims_end(run) || run->failed)
		hvd_procs_signal(run->procs, SIGTERM);
	if (!run->ending)
		evtimer_add(run->hard_end, &tv);
	run->ending = true;
}

static void on_soft_end(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	end_all(arg);
}

static void on_hard_end(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	hvd_procs_signal(((struct run *)arg)->procs, SIGKILL);
}

/* ---- what the driver says ---- */

static void on_node_down(const char *host, void *arg);

static void on_started(void *arg)
{
	struct run *run = arg;

	if (run->backend == &hvd_backend_srun)
		run->down = hvd_node_down_watch(run->base, run->driver, on_node_down, run);
	run->result->started = true;
	run->result->start_seconds = (double)(hvd_now() - run->began) / 1e9;
}

static void on_failed(const struct hvd_err *why, void *arg)
{
	struct timeval tv = {.tv_sec = SOFT_END_SECONDS};
	struct run *run = arg;

	if (run->ending_signal)
		return; /* what fails now fails because of it */
	run->failed = true;
	run->result->status = hvd_err_status(why);
	hvd_log_err(run->log, why);
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

	hvd_procs_rank_ended(run->procs, host);
	if (status != 0 && run->func && !run->ending)
		hvd_runfunc_failed(run->func, rank, host, status);
	if (status == 0 || run->result->rank_failed || run->ending)
		return;
	run->result->rank_failed = true;
	run->result->rank = rank;
	run->result->rank_status = status;
	run->result->status = hvd_status_exit(status);
	snprintf(run->result->host, sizeof(run->result->host), "%s", host);
	hvd_status_text(status, text, sizeof(text));
	if (run->launch->spec->failure.keep_going) {
		hvd_error(run->log, "rank %u on %s failed: %s; the others go on (--keep-going)", rank, host, text);
		return;
	}
	hvd_error(run->log, "rank %u on %s failed first: %s; ending the other ranks", rank, host, text);
	if (shims_end(run))
		end_all(run); /* otherwise the backend does it: it sees the same end */
	else if (run->backend->status_hides_signals)
		evtimer_add(run->soft_end, &tv); /* though hydra's launcher has been seen to wait for ever */
}

/* A host cannot do its part any longer, for a reason that is logged unless the job is ending anyhow. */
static void end_without(struct run *run, const struct hvd_err *why)
{
	if (run->ending)
		return;
	if (!run->failed && !run->result->rank_failed) {
		hvd_log_err(run->log, why);
		run->result->status = 1;
		run->failed = true;
	}
	end_all(run);
}

static void lost(struct run *run, const char *because)
{
	struct hvd_err why = {0};

	hvd_err_set(&why, HVD_E_NET, "the connection to its node agent was lost%s; ending the job", because);
	hvd_err_hint(&why, "did the host fail, or was it taken away? (%s %s)",
		     hvd_alloc_in_lsf(run->launch->envp) ? "bhosts" : "sinfo -N -n", run->lost_host);
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
	else if (!run->ending)
		hvd_info(run->log, "%s", why->msg);
}

static void on_ranks_ended(const struct hvd_strv *without_munge, void *arg)
{
	struct timeval settle = {.tv_sec = SETTLE_SECONDS};
	struct run *run = arg;

	run->all_ended = true;
	evtimer_del(run->host_lost);
	if (run->ending)
		evtimer_add(run->hard_end, &settle);
	else
		run->overdue = hvd_overdue_watch(run->base, run->launch->procs[0].argv.v[0], hvd_procs_pid(run->procs),
						 END_SECONDS, without_munge, on_overdue, run);
}

/* ---- a function for every rank ---- */

static int on_meeting(struct hvd_rv *rv, void *arg, struct hvd_err *err)
{
	struct run *run = arg;

	return hvd_runfunc_serve(run->func, rv, &run->secret.session.key, err);
}

static void on_unread(void *arg)
{
	struct run *run = arg;

	run->failed = true;
	run->result->status = 1;
	end_all(run);
}

static int open_func(struct run *run, struct hvd_err *err)
{
	const struct hvd_launch_spec *spec = run->launch->spec;

	if (!spec->function.file)
		return 0;
	run->opts->meeting_env = HVD_RUNFUNC_ENV;
	run->opts->func_key = true;
	hvd_strv_addf(&run->opts->env, HVD_RUNFUNC_MAX_ENV "=%zu", hvd_runfunc_max());
	run->func =
		hvd_runfunc_open(run->base, spec->function.file, spec->function.results, on_unread, run, run->log, err);
	return run->func ? 0 : -1;
}

/* The ranks have ended: is everyone's result there? */
static void end_func(struct run *run)
{
	const struct hvd_layout *l = hvd_driver_layout(run->driver);
	struct hvd_result *result = run->result;
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
		hvd_log_err(run->log, &why);
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
	hvd_procs_came(((struct run *)arg)->procs, host);
}

/* A host's process is gone, and with it the way to its ranks. */
static void on_proc_lost(const struct hvd_err *why, void *arg)
{
	struct run *run = arg;

	if (run->ending)
		return;
	if (!run->result->started) {
		hvd_driver_give_up(run->driver, why);
		return;
	}
	hvd_log_err(run->log, why);
	if (run->result->status == 0)
		run->result->status = 1;
	if (!run->launch->spec->failure.keep_going)
		end_all(run);
}

static void on_proc_ended(int status, void *arg)
{
	struct run *run = arg;
	char text[64];

	/* Whoever starts all ranks and is killed has told nobody: srun, an MPI. */
	if (run->backend->mode != HVD_START_HOSTS && WIFSIGNALED(status) && !run->failed && !run->result->rank_failed &&
	    !run->ending)
		hvd_error(run->log, "%s ended: %s", run->launch->procs[0].argv.v[0],
			  hvd_status_text(status, text, sizeof(text)));

	if (!run->failed && !run->result->rank_failed && run->result->status == 0)
		run->result->status = hvd_status_exit(status);
}

static void on_all_ended(void *arg)
{
	event_base_loopbreak(((struct run *)arg)->base);
}

/* The backend's process ends its ranks because of this signal, and its own status does not tell. */
static void ended_by(struct run *run, int sig)
{
	struct timeval tv = {.tv_sec = END_SECONDS};

	if (run->ending)
		return;
	hvd_info(run->log, "%s: ending the ranks", sig == SIGINT ? "interrupted" : strsignal(sig));
	run->ending_signal = sig;
	run->ending = true;
	run->result->status = 128 + sig;
	evtimer_add(run->hard_end, &tv);
}

/* Nothing is left to be ended but the backend's process, which would go on after one SIGINT. */
static void ended_by_now(struct run *run, int sig)
{
	hvd_info(run->log, "interrupted; all ranks have ended: ending %s", run->launch->procs[0].argv.v[0]);
	run->ending_signal = sig;
	run->result->status = 128 + sig;
	end_all(run);
}

static void on_signal(int sig, bool tty, void *arg)
{
	struct run *run = arg;
	struct timeval moment = {.tv_usec = PAUSE_MS * 1000};

	if (sig == SIGCHLD) {
		hvd_procs_reap(run->procs);
	} else if (run->backend->mode == HVD_START_RANKS) {
		if (!tty)
			hvd_procs_signal(run->procs, sig);
		if (run->backend->status_hides_signals && (sig == SIGINT || sig == SIGTERM || sig == SIGHUP))
			ended_by(run, sig);
		else if (run->all_ended && sig == SIGINT && !run->ending)
			ended_by_now(run, sig);
	} else if (sig == SIGINT || sig == SIGTERM || sig == SIGHUP) {
		if (!run->ending_signal) {
			hvd_info(run->log, "%s: ending the ranks", sig == SIGINT ? "interrupted" : strsignal(sig));
			run->ending_signal = sig;
			run->result->status = 128 + sig;
			run->failed |= !run->result->started;
		}
		end_all(run);
	} else {
		hvd_driver_signal_ranks(run->driver, sig);
		if (sig == SIGTSTP)
			evtimer_add(run->pause, &moment);
		else if (sig == SIGCONT)
			evtimer_del(run->pause);
	}
}

/* The ranks have been told: now this process stops, as whoever sent SIGTSTP expects (a shell; bstop, which sends
 * SIGSTOP next). SIGCONT wakes it, and is then passed on. */
static void on_pause(evutil_socket_t fd, short what, void *arg)
{
	sigset_t waiting;

	(void)fd;
	(void)what;
	(void)arg;
	/* Stopped and woken by others before this was due? SIGCONT is about to be read then. */
	if (sigpending(&waiting) != 0 || !sigismember(&waiting, SIGCONT))
		raise(SIGSTOP);
}

/* ---- life ---- */

static int start_all(struct run *run, struct hvd_err *err)
{
	struct hvd_boot boot;

	hvd_driver_boot(run->driver, &boot);
	if (hvd_boot_format(&boot, run->boot, err) != 0)
		return -1;
	return hvd_procs_start(run->procs, err);
}

static int begin(struct run *run, struct hvd_err *err)
{
	static const struct hvd_driver_ops ops = {on_started, on_failed, on_rank_exit, on_host_gone};
	static const struct hvd_procs_ops procs_ops = {on_proc_ended, on_proc_lost, on_all_ended};

	run->procs_opts =
		(struct hvd_procs_opts){.boot = run->boot, .key = &run->secret.key, .nofile = hvd_raise_nofile()};
	if (run->backend->mode == HVD_START_HOSTS)
		prctl(PR_SET_CHILD_SUBREAPER, 1);
	run->base = event_base_new();
	if (!run->base)
		return hvd_err_set(err, HVD_E_SYS, "cannot make an event loop");
	run->soft_end = evtimer_new(run->base, on_soft_end, run);
	run->hard_end = evtimer_new(run->base, on_hard_end, run);
	run->host_lost = evtimer_new(run->base, on_lost_host, run);
	run->pause = evtimer_new(run->base, on_pause, run);
	run->procs = hvd_procs_create(run->base, run->launch, run->backend, &run->procs_opts, &procs_ops, run);
	run->opts->id_text = run->secret.id_text;
	if (open_func(run, err) != 0 || hvd_secret_make(&run->secret, run->launch, run->backend, err) != 0 ||
	    !(run->signals = hvd_signals_catch(run->base, run->backend->mode != HVD_START_RANKS, on_signal, run, err)))
		return -1;
	run->driver = hvd_driver_create(run->base, run->opts, &run->secret.session, &ops, run, run->log, err);
	if (!run->driver)
		return -1;
	hvd_driver_watch_hosts(run->driver, on_host_came);
	hvd_driver_watch_ends(run->driver, on_ranks_ended);
	if (run->func)
		hvd_driver_watch_meeting(run->driver, on_meeting);
	return start_all(run, err);
}

static void cleanup(struct run *run)
{
	if (hvd_procs_destroy(run->procs) != 0 && run->result->status == 0)
		run->result->status = 1;
	if (run->backend->mode == HVD_START_HOSTS)
		hvd_kill_adopted(); /* a killed shim's: what its ranks had started in sessions of their own */
	hvd_overdue_destroy(run->overdue);
	hvd_node_down_destroy(run->down);
	hvd_driver_destroy(run->driver);
	hvd_runfunc_close(run->func);
	hvd_signals_release(run->signals);
	hvd_secret_clear(&run->secret);
	if (run->soft_end)
		event_free(run->soft_end);
	if (run->hard_end)
		event_free(run->hard_end);
	if (run->host_lost)
		event_free(run->host_lost);
	if (run->pause)
		event_free(run->pause);
	if (run->base)
		event_base_free(run->base);
}

int hvd_run(struct hvd_launch *launch, const struct hvd_backend *backend, struct hvd_driver_opts *opts,
	    struct hvd_result *result, struct hvd_err *err)
{
	struct run run = {.launch = launch,
			  .backend = backend,
			  .opts = opts,
			  .result = result,
			  .log = launch->log,
			  .secret = {.fd = -1},
			  .began = hvd_now()};
	int rc;

	memset(result, 0, sizeof(*result));
	rc = begin(&run, err);
	if (rc == 0)
		event_base_dispatch(run.base);
	if (rc == 0 && run.func)
		end_func(&run);
	if (rc == 0 && result->status == 0 && hvd_driver_output_lost(run.driver))
		result->status = 1;
	result->seconds = (double)(hvd_now() - run.began) / 1e9;
	cleanup(&run);
	return rc;
}
