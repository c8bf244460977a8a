/* SPDX-License-Identifier: Apache-2.0 */
#include "job.h"

#include "launcher/scheduler/scheduler.h"
#include "launcher/start/agent_pool.h"
#include "lib/base/timer.h"
#include "lib/process/rlimits.h"
#include "lib/process/spawn.h"
#include "signals.h"

#include <signal.h>
#include <string.h>
#include <sys/prctl.h>

/* After SIGTSTP: time for the ranks to hear of it, before this process stops. */
#define PAUSE_MS 300

/* The ranks have been told of SIGTSTP: now this process stops, as whoever sent the signal expects (a shell; bstop,
 * which sends SIGSTOP next). SIGCONT wakes it, and is then passed on. */
static void on_pause(void *arg)
{
	sigset_t waiting;

	(void)arg;
	/* Others may have stopped and woken this process before this was due: then SIGCONT is about to be read. */
	if (sigpending(&waiting) != 0 || !sigismember(&waiting, SIGCONT))
		raise(SIGSTOP);
}

/* May its processes leave others behind? An mpirun that is killed leaves its ssh or srun, which waits for ever for a host
 * that does not answer. */
static bool adopts(const struct hvd_backend *backend)
{
	return backend->mode == HVD_START_HOSTS || (backend->mode == HVD_START_RANKS && !backend->one_srun);
}

static void on_signal(int sig, bool tty, void *arg)
{
	struct hvd_job *job = arg;

	if (sig == SIGCHLD) {
		hvd_procs_reap(job->procs);
	} else if (job->backend->mode == HVD_START_RANKS) {
		job->ops->backend_signal(sig, tty, job->arg);
	} else if (sig == SIGINT || sig == SIGTERM || sig == SIGHUP) {
		hvd_job_ended_by(job, sig);
		job->ops->end(job->arg);
	} else {
		/* Rank 0 has used the terminal in the background: the shell stops all of its job. */
		if (sig == SIGTTIN || sig == SIGTTOU)
			sig = SIGTSTP;
		job->ops->signal_ranks(sig, job->arg);
		if (sig == SIGTSTP)
			hvd_timer_in_ms(job->pause, PAUSE_MS);
		else if (sig == SIGCONT)
			hvd_timer_stop(job->pause);
	}
}

void hvd_job_ended_by(struct hvd_job *job, int sig)
{
	if (job->result->ended_by)
		return;
	hvd_info(job->log, "%s: ending the ranks", sig == SIGINT ? "interrupted" : strsignal(sig));
	job->result->ended_by = sig;
	job->result->status = 128 + sig;
}

void hvd_job_failed(struct hvd_job *job)
{
	if (job->result->status == 0)
		job->result->status = 1;
}

int hvd_job_init(struct hvd_job *job, struct hvd_launch *launch, const struct hvd_backend *backend,
		 struct hvd_driver_opts *opts, struct hvd_result *result, bool elastic, const struct hvd_job_ops *ops,
		 const struct hvd_procs_ops *procs_ops, void *arg, struct hvd_err *err)
{
	bool job_control = !elastic && backend->mode != HVD_START_RANKS;

	*job = (struct hvd_job){.launch = launch,
				.backend = backend,
				.opts = opts,
				.result = result,
				.log = launch->log,
				.terminal = hvd_terminal_save(),
				.secret = {.fd = -1},
				.ops = ops,
				.arg = arg};
	*result = (struct hvd_result){.began = hvd_now()};
	hvd_requeue_begin(launch->spec, 0, launch->log);
	job->procs_opts = (struct hvd_procs_opts){.boot = job->boot,
						  .key = &job->secret.key,
						  .nofile = launch->nofile ? launch->nofile : hvd_raise_nofile(),
						  .kill_wait = opts->kill_wait,
						  .elastic = elastic};
	opts->id_text = job->secret.id_text;
	if (adopts(backend))
		prctl(PR_SET_CHILD_SUBREAPER, 1);
	job->base = launch->agent_pool ? hvd_agent_pool_base(launch->agent_pool) : event_base_new();
	if (!job->base)
		return hvd_err_set(err, HVD_E_SYS, "cannot make an event loop");
	if (!launch->agent_pool)
		event_base_priority_init(job->base, 2); /* signals first, all else after them */
	job->pause = hvd_timer_new(job->base, on_pause, job);
	job->procs = hvd_procs_create(job->base, launch, backend, &job->procs_opts, procs_ops, arg);
	if (hvd_secret_make(&job->secret, launch, backend, err) != 0)
		return -1;
	job->signals = hvd_signals_catch(job->base, job_control, on_signal, job, err);
	return job->signals ? 0 : -1;
}

int hvd_job_set_boot(struct hvd_job *job, const struct hvd_boot *boot, struct hvd_err *err)
{
	return hvd_boot_format(boot, job->boot, err);
}

void hvd_job_run(struct hvd_job *job)
{
	event_base_dispatch(job->base);
}

void hvd_job_stop(struct hvd_job *job)
{
	event_base_loopbreak(job->base);
}

int hvd_job_open_func(struct hvd_job *job, void (*gone)(void *arg), void *arg, struct hvd_err *err)
{
	const struct hvd_launch_spec *spec = job->launch->spec;

	if (!spec->run_func)
		return 0;
	job->opts->rendezvous_env = HVD_RUNFUNC_ENV;
	job->opts->func_key = true;
	hvd_strv_addf(&job->opts->extra_env, HVD_RUNFUNC_MAX_ENV "=%zu", hvd_runfunc_max());
	job->func = hvd_runfunc_open(job->base, spec->run_func, spec->results, gone, arg, job->log, err);
	return job->func ? 0 : -1;
}

static json_t *hosts_of(const struct hvd_layout *layout)
{
	json_t *hosts = json_array();

	for (int h = 0; h < layout->n_hosts; h++)
		if (layout->hosts[h].n > 0)
			json_array_append_new(hosts, json_pack("{s:s, s:i}", "name", layout->hosts[h].name, "ranks",
							       layout->hosts[h].n));
	return hosts;
}

void hvd_job_finish(struct hvd_job *job, const struct hvd_layout *layout, uint32_t slurm_job, bool output_lost)
{
	struct hvd_result *result = job->result;

	if (result->ended_by)
		hvd_requeue_unwant(&result->requeue, HVD_REQUEUE_LIMIT);
	result->job = slurm_job ? slurm_job : hvd_batch_job_of(job->launch->spec, 0).number;
	result->hosts = layout ? hosts_of(layout) : NULL;
	if (job->func)
		result->status = hvd_runfunc_end(job->func, layout, result->status, layout != NULL);
	if (output_lost)
		hvd_job_failed(job);
}

void hvd_job_end_procs(struct hvd_job *job)
{
	job->result->seconds = hvd_result_seconds(job->result);
	if (hvd_procs_destroy(job->procs) != 0)
		hvd_job_failed(job);
	job->procs = NULL;
	if (adopts(job->backend))
		hvd_kill_adopted();
	hvd_terminal_restore(&job->terminal, job->result->status != 0);
}

void hvd_job_clear(struct hvd_job *job)
{
	hvd_runfunc_close(job->func);
	hvd_signals_release(job->signals);
	hvd_secret_clear(&job->secret);
	hvd_timer_free(job->pause);
	if (job->base && !job->launch->agent_pool)
		event_base_free(job->base);
}
