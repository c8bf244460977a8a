/* SPDX-License-Identifier: Apache-2.0 */
#include "launcher_process.h"

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

void hvd_launcher_process_pause(struct hvd_launcher_process *launcher, int sig)
{
	if (sig == SIGTSTP)
		hvd_timer_in_ms(launcher->pause, PAUSE_MS);
	else if (sig == SIGCONT)
		hvd_timer_stop(launcher->pause);
}

void hvd_launcher_process_ended_by(struct hvd_launcher_process *launcher, int sig)
{
	if (launcher->result->ended_by)
		return;
	hvd_info(launcher->log, "%s: ending the ranks", sig == SIGINT ? "interrupted" : strsignal(sig));
	launcher->result->ended_by = sig;
	launcher->result->status = 128 + sig;
}

void hvd_launcher_process_failed(struct hvd_launcher_process *launcher)
{
	if (launcher->result->status == 0)
		launcher->result->status = 1;
}

int hvd_launcher_process_init(struct hvd_launcher_process *launcher, struct hvd_launch *launch,
			      const struct hvd_backend *backend, struct hvd_driver_opts *opts,
			      struct hvd_result *result, hvd_signal_fn *on_signal,
			      const struct hvd_procs_ops *procs_ops, void *arg, struct hvd_err *err)
{
	const bool elastic = launch->spec->elastic.on;
	const bool job_control = !elastic && backend->mode != HVD_START_RANKS;

	*launcher = (struct hvd_launcher_process){.launch = launch,
						  .backend = backend,
						  .opts = opts,
						  .result = result,
						  .log = launch->log,
						  .terminal = hvd_terminal_save(),
						  .secret = {.fd = -1}};
	*result = (struct hvd_result){.began = hvd_now()};
	hvd_requeue_begin(launch->spec, 0, launch->log);
	launcher->procs_opts = (struct hvd_procs_opts){.boot = launcher->boot,
						       .key = &launcher->secret.key,
						       .nofile = launch->nofile ? launch->nofile : hvd_raise_nofile(),
						       .kill_wait = opts->kill_wait,
						       .elastic = elastic};
	opts->id_text = launcher->secret.id_text;
	if (adopts(backend))
		prctl(PR_SET_CHILD_SUBREAPER, 1);
	launcher->base = launch->agent_pool ? hvd_agent_pool_base(launch->agent_pool) : event_base_new();
	if (!launcher->base)
		return hvd_err_set(err, HVD_E_SYS, "cannot make an event loop");
	if (!launch->agent_pool)
		event_base_priority_init(launcher->base, 2); /* signals first, all else after them */
	launcher->pause = hvd_timer_new(launcher->base, on_pause, launcher);
	launcher->procs = hvd_procs_create(launcher->base, launch, backend, &launcher->procs_opts, procs_ops, arg);
	if (hvd_secret_make(&launcher->secret, launch, backend, err) != 0)
		return -1;
	launcher->signals = hvd_signals_catch(launcher->base, job_control, on_signal, arg, err);
	return launcher->signals ? 0 : -1;
}

int hvd_launcher_process_open_func(struct hvd_launcher_process *launcher, void (*gone)(void *arg), void *arg,
				   struct hvd_err *err)
{
	const struct hvd_launch_spec *spec = launcher->launch->spec;

	if (!spec->run_func)
		return 0;
	launcher->opts->rendezvous_env = HVD_RUNFUNC_ENV;
	launcher->opts->func_key = true;
	hvd_strv_addf(&launcher->opts->extra_env, HVD_RUNFUNC_MAX_ENV "=%zu", hvd_runfunc_max());
	launcher->func = hvd_runfunc_open(launcher->base, spec->run_func, spec->results, gone, arg, launcher->log, err);
	return launcher->func ? 0 : -1;
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

void hvd_launcher_process_finish(struct hvd_launcher_process *launcher, const struct hvd_layout *layout,
				 bool output_lost)
{
	struct hvd_result *result = launcher->result;

	if (result->ended_by)
		hvd_requeue_unwant(&result->requeue, HVD_REQUEUE_LIMIT);
	if (!result->job)
		result->job = hvd_batch_job_of(launcher->launch->spec, 0).number;
	result->hosts = layout ? hosts_of(layout) : NULL;
	if (launcher->func)
		result->status = hvd_runfunc_end(launcher->func, layout, result->status, layout != NULL);
	if (output_lost)
		hvd_launcher_process_failed(launcher);
}

void hvd_launcher_process_end_procs(struct hvd_launcher_process *launcher)
{
	launcher->result->seconds = hvd_result_seconds(launcher->result);
	if (hvd_procs_destroy(launcher->procs) != 0)
		hvd_launcher_process_failed(launcher);
	launcher->procs = NULL;
	if (adopts(launcher->backend))
		hvd_kill_adopted();
	hvd_terminal_restore(&launcher->terminal, launcher->result->status != 0);
}

void hvd_launcher_process_clear(struct hvd_launcher_process *launcher)
{
	hvd_runfunc_close(launcher->func);
	hvd_signals_release(launcher->signals);
	hvd_secret_clear(&launcher->secret);
	hvd_timer_free(launcher->pause);
	if (launcher->base && !launcher->launch->agent_pool)
		event_base_free(launcher->base);
}
