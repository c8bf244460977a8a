/* SPDX-License-Identifier: Apache-2.0 */
#include "frontend.h"

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

void hvd_frontend_pause(struct hvd_frontend *fe, int sig)
{
	if (sig == SIGTSTP)
		hvd_timer_in_ms(fe->pause, PAUSE_MS);
	else if (sig == SIGCONT)
		hvd_timer_stop(fe->pause);
}

void hvd_frontend_ended_by(struct hvd_frontend *fe, int sig)
{
	if (fe->result->ended_by)
		return;
	hvd_info(fe->log, "%s: ending the ranks", sig == SIGINT ? "interrupted" : strsignal(sig));
	fe->result->ended_by = sig;
	fe->result->status = 128 + sig;
}

void hvd_frontend_failed(struct hvd_frontend *fe)
{
	if (fe->result->status == 0)
		fe->result->status = 1;
}

int hvd_frontend_init(struct hvd_frontend *fe, struct hvd_launch *launch, const struct hvd_backend *backend,
		      struct hvd_driver_opts *opts, struct hvd_result *result, hvd_signal_fn *on_signal,
		      const struct hvd_procs_ops *procs_ops, void *arg, struct hvd_err *err)
{
	const bool elastic = launch->spec->elastic.on;
	const bool job_control = !elastic && backend->mode != HVD_START_RANKS;

	*fe = (struct hvd_frontend){.launch = launch,
				    .backend = backend,
				    .opts = opts,
				    .result = result,
				    .log = launch->log,
				    .terminal = hvd_terminal_save(),
				    .secret = {.fd = -1}};
	*result = (struct hvd_result){.began = hvd_now()};
	hvd_requeue_begin(launch->spec, 0, launch->log);
	fe->procs_opts = (struct hvd_procs_opts){.boot = fe->boot,
						 .key = &fe->secret.key,
						 .nofile = launch->nofile ? launch->nofile : hvd_raise_nofile(),
						 .kill_wait = opts->kill_wait,
						 .elastic = elastic};
	opts->id_text = fe->secret.id_text;
	if (adopts(backend))
		prctl(PR_SET_CHILD_SUBREAPER, 1);
	fe->base = launch->agent_pool ? hvd_agent_pool_base(launch->agent_pool) : event_base_new();
	if (!fe->base)
		return hvd_err_set(err, HVD_E_SYS, "cannot make an event loop");
	if (!launch->agent_pool)
		event_base_priority_init(fe->base, 2); /* signals first, all else after them */
	fe->pause = hvd_timer_new(fe->base, on_pause, fe);
	fe->procs = hvd_procs_create(fe->base, launch, backend, &fe->procs_opts, procs_ops, arg);
	if (hvd_secret_make(&fe->secret, launch, backend, err) != 0)
		return -1;
	fe->signals = hvd_signals_catch(fe->base, job_control, on_signal, arg, err);
	return fe->signals ? 0 : -1;
}

int hvd_frontend_set_boot(struct hvd_frontend *fe, const struct hvd_boot *boot, struct hvd_err *err)
{
	return hvd_boot_format(boot, fe->boot, err);
}

int hvd_frontend_open_func(struct hvd_frontend *fe, void (*gone)(void *arg), void *arg, struct hvd_err *err)
{
	const struct hvd_launch_spec *spec = fe->launch->spec;

	if (!spec->run_func)
		return 0;
	fe->opts->rendezvous_env = HVD_RUNFUNC_ENV;
	fe->opts->func_key = true;
	hvd_strv_addf(&fe->opts->extra_env, HVD_RUNFUNC_MAX_ENV "=%zu", hvd_runfunc_max());
	fe->func = hvd_runfunc_open(fe->base, spec->run_func, spec->results, gone, arg, fe->log, err);
	return fe->func ? 0 : -1;
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

void hvd_frontend_finish(struct hvd_frontend *fe, const struct hvd_layout *layout, bool output_lost)
{
	struct hvd_result *result = fe->result;

	if (result->ended_by)
		hvd_requeue_unwant(&result->requeue, HVD_REQUEUE_LIMIT);
	if (!result->job)
		result->job = hvd_batch_job_of(fe->launch->spec, 0).number;
	result->hosts = layout ? hosts_of(layout) : NULL;
	if (fe->func)
		result->status = hvd_runfunc_end(fe->func, layout, result->status, layout != NULL);
	if (output_lost)
		hvd_frontend_failed(fe);
}

void hvd_frontend_end_procs(struct hvd_frontend *fe)
{
	fe->result->seconds = hvd_result_seconds(fe->result);
	if (hvd_procs_destroy(fe->procs) != 0)
		hvd_frontend_failed(fe);
	fe->procs = NULL;
	if (adopts(fe->backend))
		hvd_kill_adopted();
	hvd_terminal_restore(&fe->terminal, fe->result->status != 0);
}

void hvd_frontend_clear(struct hvd_frontend *fe)
{
	hvd_runfunc_close(fe->func);
	hvd_signals_release(fe->signals);
	hvd_secret_clear(&fe->secret);
	hvd_timer_free(fe->pause);
	if (fe->base && !fe->launch->agent_pool)
		event_base_free(fe->base);
}
