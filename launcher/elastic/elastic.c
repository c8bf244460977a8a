/* SPDX-License-Identifier: Apache-2.0 */
/* elastic.c - the parts of an elastic job, put together. */
#include "elastic.h"

#include "discovery.h"
#include "elastic_rendezvous.h"
#include "event_queue.h"
#include "launcher/driver/gloo_peers.h"
#include "launcher/driver/node_agents.h"
#include "launcher/run/agent_procs.h"
#include "launcher/run/secret.h"
#include "launcher/run/signals.h"
#include "lib/base/xalloc.h"
#include "lib/process/nofile.h"
#include "lib/process/spawn.h"
#include "machine.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

/* A rank that has been silent for so long is replaced, unless the launch spec says otherwise; */
#define SILENT_SECONDS 1.0
/* … where its connections to the others were broken: it has nothing to wait for, and is at work. */
#define CUT_SECONDS 15.0
/* How long those that train wait for a worker that should come, and for one that should end; --elastic-timeout may be
 * longer. */
#define PATIENCE_SECONDS 600.0
/* Hosts that come one after the other within this time change the job once. */
#define SETTLE_SECONDS 3.0
/* How long a new rank waits at the rendezvous, unless it is ended: as good as for ever. */
#define RANK_WAIT_SECONDS (30 * 86400.0)

struct job {
	struct event_base *base;
	struct hvd_launch *launch;
	const struct hvd_backend *backend;
	struct hvd_driver_opts *opts;
	struct hvd_result *result;
	const struct hvd_log *log;
	struct hvd_secret secret;
	char boot[HVD_BOOT_MAX];
	struct hvd_procs_opts procs_opts;
	struct hvd_discovery *source;
	struct hvd_machine *machine;
	struct hvd_node_agents *agents;
	struct hvd_elastic_rv *erv;
	struct hvd_gloo_peers *pairs;
	struct hvd_agent_procs *agent_procs;
	struct hvd_event_queue *events;
	struct hvd_signals *signals;
	bool ending, output_lost;
	int ending_signal;
	hvd_time began;
};

/* ---- the end ---- */

static void end_all(struct job *job)
{
	hvd_node_agents_end(job->agents);
	hvd_agent_procs_end(job->agent_procs, job->ending_signal != 0);
	job->ending = true;
	hvd_discovery_destroy(job->source);
	job->source = NULL;
	hvd_event_queue_stop(job->events);
	if (hvd_agent_procs_running(job->agent_procs) == 0)
		event_base_loopbreak(job->base);
}

static void give_up(struct job *job, const struct hvd_err *why, int status)
{
	if (job->ending)
		return;
	hvd_log_err(job->log, why);
	job->result->status = status;
	end_all(job);
}

/* ---- what the machine wants ---- */

static void do_host_begin(uint32_t host, void *arg)
{
	struct job *job = arg;
	const char *name = hvd_machine_host(job->machine, host);
	struct hvd_err why = {0};

	hvd_verbose(job->log, "%s: starting its node agent", name);
	hvd_node_agents_expect(job->agents, host, name);
	if (hvd_agent_procs_start(job->agent_procs, host, name, hvd_machine_slots(job->machine, host),
				  hvd_machine_slurm_job(job->machine, host), &why) == 0)
		return;
	hvd_log_err(job->log, &why);
	hvd_node_agents_forget(job->agents, host);
	hvd_event_queue_add(job->events, HVD_EVENT_HOST_UNFIT, host, 0);
}

static void do_host_end(uint32_t host, void *arg)
{
	struct job *job = arg;

	hvd_verbose(job->log, "%s: ending its node agent", hvd_machine_host(job->machine, host));
	hvd_node_agents_forget(job->agents, host);
	hvd_agent_procs_release(job->agent_procs, host, false);
}

static void do_prepare(void *arg)
{
	struct job *job = arg;
	struct hvd_layout layout;
	struct hvd_err why = {0};

	if (hvd_machine_layout(job->machine, true, &layout, &why) == 0)
		hvd_node_agents_prepare(job->agents, &layout);
	else
		give_up(job, &why, 1);
}

static void do_generation(bool prepared, void *arg)
{
	struct job *job = arg;
	struct hvd_layout layout;
	struct hvd_err why = {0};

	hvd_elastic_rv_hush(job->erv);
	hvd_gloo_peers_begin(job->pairs);
	if (hvd_machine_layout(job->machine, false, &layout, &why) == 0)
		hvd_node_agents_generation(job->agents, &layout, prepared);
	else
		give_up(job, &why, 1);
}

static void do_worker_start(const struct hvd_worker *w, void *arg)
{
	struct job *job = arg;

	hvd_verbose(job->log, "%s: starting rank %d, local rank %d", hvd_machine_host(job->machine, w->host), w->rank,
		    w->slot);
	hvd_node_agents_start(job->agents, w->id, w->rank, hvd_machine_slots(job->machine, w->host));
}

static void do_worker_end(const struct hvd_worker *w, bool at_once, void *arg)
{
	struct job *job = arg;

	hvd_verbose(job->log, "%s: ending local rank %d%s", hvd_machine_host(job->machine, w->host), w->slot,
		    w->removed ? ", which is no longer part of the job" : "");
	hvd_node_agents_stop(job->agents, w->host, w->id, at_once);
}

static void do_answer(void *arg)
{
	struct job *job = arg;

	hvd_verbose(job->log, "generation %d begins, %.3f s after the start", hvd_machine_generation(job->machine),
		    (double)(hvd_now() - job->began) / 1e9);
	if (!job->result->started)
		job->result->start_seconds = (double)(hvd_now() - job->began) / 1e9;
	job->result->started = true;
	hvd_gloo_peers_answered(job->pairs);
	hvd_elastic_rv_answer(job->erv, hvd_node_agents_layout(job->agents));
}

static void do_notify(uint32_t worker, void *arg)
{
	struct job *job = arg;

	hvd_verbose(job->log, "telling rank 0 that hosts have changed");
	hvd_elastic_rv_notify(job->erv, worker);
}

static void do_cut(void *arg)
{
	struct job *job = arg;

	hvd_verbose(job->log, "breaking the connections of generation %d's ranks",
		    hvd_machine_generation(job->machine));
	if (hvd_node_agents_cut(job->agents, job->pairs) == 0) {
		hvd_verbose(job->log, "it is not known where they are connected");
		hvd_event_queue_add(job->events, HVD_EVENT_UNCUT, 0, 0);
	}
}

static void do_finish(const struct hvd_err *why, int status, void *arg)
{
	struct job *job = arg;

	if (job->ending)
		return;
	if (why->code)
		hvd_log_err(job->log, why);
	job->result->status = status;
	job->result->limit_met = why->code == HVD_E_LIMIT;
	end_all(job);
}

/* ---- what the other parts say ---- */

static int on_opened(struct hvd_rv *rv, void *arg, struct hvd_err *err)
{
	struct job *job = arg;

	(void)err;
	/* A new rank waits for the others, who come when rank 0 has looked whether hosts have changed. */
	hvd_rv_set_rank_wait(rv, RANK_WAIT_SECONDS);
	hvd_elastic_rv_open(job->erv, rv);
	hvd_gloo_peers_watch(job->pairs, rv);
	return 0;
}

static void on_came(uint32_t host, void *arg)
{
	hvd_agent_procs_came(((struct job *)arg)->agent_procs, host);
}

static void on_here(uint32_t host, void *arg)
{
	hvd_event_queue_add(((struct job *)arg)->events, HVD_EVENT_HOST_HERE, host, 0);
}

static void on_gone(uint32_t host, const struct hvd_err *why, bool unfit, void *arg)
{
	struct job *job = arg;

	if (job->ending)
		return; /* as it was told */
	hvd_warn(job->log, "%s is left out: %s", hvd_machine_host(job->machine, host), why->msg);
	if (*why->hint)
		hvd_info(job->log, "%s", why->hint);
	hvd_discovery_nudge(job->source);
	hvd_agent_procs_release(job->agent_procs, host, true);
	hvd_event_queue_add(job->events, unfit ? HVD_EVENT_HOST_UNFIT : HVD_EVENT_HOST_LOST, host, 0);
}

static void on_left(uint32_t host, void *arg)
{
	hvd_agent_procs_left(((struct job *)arg)->agent_procs, host);
}

static void on_exited(uint32_t worker, int status, void *arg)
{
	hvd_event_queue_add(((struct job *)arg)->events, HVD_EVENT_EXITED, worker, status);
}

static void on_failed(const struct hvd_err *why, void *arg)
{
	give_up(arg, why, hvd_err_status(why));
}

static void on_met(void *arg)
{
	hvd_event_queue_add(((struct job *)arg)->events, HVD_EVENT_CONNECTED, 0, 0);
}

static void on_arrived(uint32_t worker, void *arg)
{
	hvd_event_queue_add(((struct job *)arg)->events, HVD_EVENT_ARRIVED, worker, 0);
}

static void on_ready(uint32_t worker, void *arg)
{
	hvd_event_queue_add(((struct job *)arg)->events, HVD_EVENT_READY, worker, 0);
}

static void on_notified(uint32_t worker, const char *why, void *arg)
{
	struct job *job = arg;

	if (*why)
		hvd_verbose(job->log, "rank 0 could not be told that hosts have changed: %s", why);
	hvd_event_queue_add(job->events, HVD_EVENT_NOTIFIED, worker, *why == '\0');
}

static void on_cut(uint32_t host, int broken, const char *why, void *arg)
{
	struct job *job = arg;

	hvd_verbose(job->log, "%s: %d connections of its ranks broken%s%s", hvd_machine_host(job->machine, host),
		    broken, *why ? ": " : "", why);
	if (*why)
		hvd_event_queue_add(job->events, HVD_EVENT_UNCUT, 0, 0);
}

static void on_pass(const struct hvd_worker *w, const char *to, int64_t when, void *arg)
{
	hvd_node_agents_notify(((struct job *)arg)->agents, w->host, w->id, to, when);
}

static void on_shim_lost(uint32_t host, const struct hvd_err *why, void *arg)
{
	struct job *job = arg;

	if (job->ending)
		return;
	hvd_log_err(job->log, why);
	hvd_node_agents_forget(job->agents, host);
	hvd_discovery_nudge(job->source);
	hvd_event_queue_add(job->events, HVD_EVENT_HOST_LOST, host, 0);
}

static void on_cut_short(uint32_t host, void *arg)
{
	struct job *job = arg;

	hvd_error(job->log, "%s: %s did not end in time; what its ranks wrote last may be missing",
		  hvd_machine_host(job->machine, host), job->backend->name);
	if (job->result->status == 0)
		job->result->status = 1;
}

/* The user was told why. */
static void on_output_lost(void *arg)
{
	((struct job *)arg)->output_lost = true;
}

static void on_none_left(void *arg)
{
	struct job *job = arg;

	if (job->ending)
		event_base_loopbreak(job->base);
}

static void on_hosts(const struct hvd_alloc *hosts, void *arg)
{
	hvd_event_queue_add_hosts(((struct job *)arg)->events, hosts);
}

static void on_leaving(const char *host, double seconds, void *arg)
{
	hvd_info(((struct job *)arg)->log, "%s goes in %.0f s: its ranks leave it now", host, seconds);
}

/* ---- signals ---- */

static void on_signal(int sig, bool tty, void *arg)
{
	struct job *job = arg;

	(void)tty;
	if (sig == SIGCHLD) {
		hvd_agent_procs_reap(job->agent_procs);
	} else if (sig == SIGINT || sig == SIGTERM || sig == SIGHUP) {
		if (!job->ending_signal) {
			hvd_info(job->log, "%s: ending the ranks", sig == SIGINT ? "interrupted" : strsignal(sig));
			job->ending_signal = sig;
			job->result->status = 128 + sig;
		}
		end_all(job);
	} else {
		hvd_node_agents_signal(job->agents, sig);
	}
}

/* ---- life ---- */

static int begin_source(struct job *job, struct hvd_err *err)
{
	static const struct hvd_discovery_ops ops = {on_hosts, on_leaving, on_failed};
	struct hvd_discovery_opts opts;
	int rc = hvd_discovery_choose(job->launch, &opts, err);

	if (rc == 0)
		job->source = hvd_discovery_create(job->base, &opts, &ops, job, job->log, err);
	hvd_discovery_opts_clear(&opts);
	return rc == 0 && job->source ? 0 : -1;
}

static struct hvd_machine_opts machine_opts(const struct hvd_launch_spec *spec)
{
	const double silent = spec->elastic.silent, timeout = spec->elastic.timeout;

	return (struct hvd_machine_opts){
		.np = spec->elastic.first_np,
		.min_np = spec->elastic.min_np ? spec->elastic.min_np : spec->elastic.first_np,
		.max_np = spec->elastic.max_np,
		.reset_limit = spec->elastic.reset_limit,
		.elastic_timeout = timeout,
		.patience = timeout > PATIENCE_SECONDS ? timeout : PATIENCE_SECONDS,
		.cooldown_min = spec->elastic.cooldown_min,
		.cooldown_max = spec->elastic.cooldown_max,
		.silent_grace = silent > 0 ? silent : SILENT_SECONDS,
		.cut_grace = silent > 0 ? silent : CUT_SECONDS,
		.settle = SETTLE_SECONDS,
	};
}

static int begin(struct job *job, struct hvd_err *err)
{
	static const struct hvd_machine_ops machine_ops = {do_host_begin,   do_host_end,   do_prepare, do_generation,
							   do_worker_start, do_worker_end, do_answer,  do_notify,
							   do_cut,          do_finish};
	static const struct hvd_node_agents_ops crew_ops = {on_opened, on_came,     on_here, on_gone,        on_left,
							    on_exited, on_notified, on_cut,  on_output_lost, on_failed};
	static const struct hvd_elastic_rv_ops desk_ops = {on_arrived, on_met, on_ready, on_pass};
	static const struct hvd_agent_procs_ops shims_ops = {on_shim_lost, on_cut_short, on_output_lost, on_none_left};
	struct hvd_machine_opts opts = machine_opts(job->launch->spec);
	struct hvd_boot boot;

	job->procs_opts = (struct hvd_procs_opts){
		.boot = job->boot, .key = &job->secret.key, .nofile = hvd_raise_nofile(), .no_stdin = true};
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	hvd_strv_add(&job->opts->env, "HOROVOD_ELASTIC=1");
	job->agent_procs =
		hvd_agent_procs_create(job->base, job->launch, job->backend, &job->procs_opts, &shims_ops, job);
	job->machine = hvd_machine_create(&opts, hvd_now(), &machine_ops, job, job->log);
	job->events = hvd_event_queue_create(job->base, job->machine);
	job->pairs = hvd_gloo_peers_create();
	job->erv = hvd_elastic_rv_create(job->machine, &desk_ops, job, job->log);
	job->opts->id_text = job->secret.id_text;
	if (hvd_secret_make(&job->secret, job->launch, job->backend, err) != 0 ||
	    !(job->signals = hvd_signals_catch(job->base, false, on_signal, job, err)))
		return -1;
	job->agents = hvd_node_agents_create(job->base, job->opts, &job->secret.session, &crew_ops, job, job->log, err);
	if (!job->agents)
		return -1;
	hvd_node_agents_boot(job->agents, &boot);
	return hvd_boot_format(&boot, job->boot, err) == 0 && begin_source(job, err) == 0 ? 0 : -1;
}

static void cleanup(struct job *job)
{
	hvd_discovery_destroy(job->source);
	hvd_agent_procs_destroy(job->agent_procs);
	hvd_kill_adopted(); /* a killed shim's: what its ranks had started in sessions of their own */
	hvd_elastic_rv_destroy(job->erv);
	hvd_node_agents_destroy(job->agents);
	hvd_gloo_peers_destroy(job->pairs);
	hvd_event_queue_destroy(job->events);
	hvd_machine_destroy(job->machine);
	hvd_signals_release(job->signals);
	hvd_secret_clear(&job->secret);
	event_base_free(job->base);
}

int hvd_elastic_run(struct hvd_launch *launch, const struct hvd_backend *backend, struct hvd_driver_opts *opts,
		    struct hvd_result *result, struct hvd_err *err)
{
	struct job job = {.launch = launch,
			  .backend = backend,
			  .opts = opts,
			  .result = result,
			  .log = launch->log,
			  .secret = {.fd = -1},
			  .began = hvd_now()};
	int rc = 0;

	memset(result, 0, sizeof(*result));
	job.base = event_base_new();
	if (!job.base)
		return hvd_err_set(err, HVD_E_SYS, "cannot make an event loop");
	rc = begin(&job, err);
	if (rc == 0)
		event_base_dispatch(job.base);
	result->generations = hvd_machine_generation(job.machine);
	result->seconds = (double)(hvd_now() - job.began) / 1e9;
	cleanup(&job);
	if (job.output_lost && result->status == 0)
		result->status = 1;
	return rc;
}
