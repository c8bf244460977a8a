/* SPDX-License-Identifier: Apache-2.0 */
/* elastic.c - connects the parts of an elastic job with its state machine, see elastic.h. */
#include "elastic.h"

#include "elastic_internal.h"
#include "launcher/scheduler/scheduler.h"
#include "lib/base/cleanup.h"
#include "lib/base/strv.h"
#include "lib/base/xalloc.h"

#include <stdlib.h>
#include <string.h>

/* After a failure: how long the others wait for a silent rank before it is replaced, unless the launch spec sets
 * another time; */
#define SILENT_SECONDS 1.0
/* The same if its connections were killed: then it does not wait for a dead peer, but is at work. */
#define KILL_SECONDS 15.0
/* How long training ranks wait for a worker to arrive, and for one to end; --elastic-timeout may be longer. */
#define PATIENCE_SECONDS 600.0
/* How long a next generation waits for the checks of hosts after the last rank has ended. */
#define CHECK_SECONDS 2.0
/* New hosts that appear one after the other within this time change the job once. */
#define SETTLE_SECONDS 3.0

/* ---- what the workers tell at the rendezvous ---- */

static void on_connected(void *arg)
{
	struct elastic *el = arg;

	hvd_world_init(el->world, true);
	hvd_event_queue_add(el->events, HVD_EVENT_CONNECTED, 0, 0);
}

static void on_arrived(uint32_t worker, void *arg)
{
	struct elastic *el = arg;

	hvd_world_init(el->world, false);
	hvd_event_queue_add(el->events, HVD_EVENT_ARRIVED, worker, 0);
}

static void on_ready(uint32_t worker, void *arg)
{
	hvd_event_queue_add(((struct elastic *)arg)->events, HVD_EVENT_READY, worker, 0);
}

static void on_notify(const struct hvd_worker *w, const char *to, int64_t when, void *arg)
{
	hvd_world_notify(((struct elastic *)arg)->world, w->host, w->id, to, when);
}

/* ---- what the processes and discovery tell ---- */

static bool proc_lost(struct hvd_job_policy *policy, uint32_t host, const struct hvd_err *why)
{
	struct elastic *el = elastic_of(policy);

	if (policy->job->ending)
		return false;
	hvd_log_err(el->log, why);
	hvd_agent_registry_forget(el->policy.job->agents, host);
	hvd_job_watch_ask(policy->job->watch);
	hvd_discovery_nudge(el->discovery);
	hvd_event_queue_add(el->events, HVD_EVENT_HOST_LOST, host, 0);
	return false;
}

static void cut_short(struct hvd_job_policy *policy, uint32_t host)
{
	hvd_stuck_procs_cut_short(&elastic_of(policy)->stuck, host);
}

static void on_hosts(const struct hvd_alloc *hosts, void *arg)
{
	struct elastic *el = arg;

	/* At once, before they are asked for one by one. */
	if (el->launcher->backend->reach)
		hvd_launch_find_local(el->launcher->launch, hosts);
	/* A host that is not listed any longer is to be left in peace, or is down. */
	for (uint32_t h = 0; h < hvd_machine_n_hosts(el->machine); h++)
		if (hvd_alloc_find(hosts, hvd_machine_host(el->machine, h)) < 0)
			hvd_agent_registry_doubt(el->policy.job->agents, h);
	/* That there are none may be the job's end, of which Slurm knows more. */
	el->no_hosts = el->policy.in_slurm_job && hosts->n_hosts == 0;
	if (el->no_hosts)
		hvd_job_watch_ask(el->policy.job->watch);
	else
		hvd_event_queue_add_hosts(el->events, hosts);
}

static void on_leaving(const char *host, double seconds, void *arg)
{
	hvd_info(((struct elastic *)arg)->log, "%s will be taken away in %.0f s: its ranks are moved now", host,
		 seconds);
}

static void on_discovery_failed(const struct hvd_err *why, void *arg)
{
	hvd_job_end(((struct elastic *)arg)->policy.job, why, hvd_err_status(why));
}

static void facts(struct hvd_job_policy *policy, const struct hvd_job_facts *facts)
{
	struct elastic *el = elastic_of(policy);
	static const struct hvd_alloc none;
	struct hvd_err why = {0};

	if (!policy->in_slurm_job)
		return;
	/* All agents have ended with the Slurm job. What the ranks died of needs no report. */
	if (!facts->unknown && facts->over) {
		hvd_err_set(&why, HVD_E_NOENT, "job %s %s; ending the launch",
			    hvd_batch_job_of(el->launcher->launch->spec, 0).name,
			    facts->fate ? facts->fate : "has ended");
		hvd_job_end(policy->job, &why, 1);
		return;
	}
	if (el->no_hosts)
		hvd_event_queue_add_hosts(el->events, &none);
	el->no_hosts = false;
}

/* ---- what the job asks, and wants done ---- */

static void end(struct hvd_job_policy *policy)
{
	struct elastic *el = elastic_of(policy);

	hvd_agent_registry_end(el->policy.job->agents);
	hvd_discovery_destroy(el->discovery);
	el->discovery = NULL;
	hvd_event_queue_stop(el->events);
}

/* Of spare hosts no output may be missing. */
static void procs_ending(struct hvd_job_policy *policy)
{
	struct elastic *el = elastic_of(policy);
	hvd_cleanup_free bool *busy = hvd_machine_busy_hosts(el->machine);

	for (uint32_t h = 0; h < hvd_machine_n_hosts(el->machine); h++)
		if (!busy[h])
			hvd_procs_idle(el->launcher->procs, h);
	hvd_stuck_procs_ending(&el->stuck);
}

/* The ranks of the generation that had not ended when the machine was notified last. */
static int running(const struct hvd_job_policy *policy)
{
	const struct hvd_machine *machine = elastic_of(policy)->machine;
	const struct hvd_worker *w;
	int n = 0;

	for (int rank = 0; (w = hvd_machine_member(machine, rank)); rank++)
		n += w->state != HVD_WORKER_GONE;
	return n;
}

static char *hosts(const struct hvd_job_policy *policy, enum hvd_hosts_asked which)
{
	const struct hvd_machine *machine = elastic_of(policy)->machine;
	const uint32_t n = hvd_machine_n_hosts(machine);
	hvd_cleanup_free int *ranks = hvd_xcalloc(n + 1, sizeof(*ranks)), *left = hvd_xcalloc(n + 1, sizeof(*left));
	HVD_CLEANUP(hvd_strv_free) struct hvd_strv names = {0};
	const struct hvd_worker *w;
	bool any_over = false;

	for (int rank = 0; (w = hvd_machine_member(machine, rank)); rank++) {
		ranks[w->host]++;
		left[w->host] += w->state != HVD_WORKER_GONE;
	}
	for (uint32_t h = 0; h < n; h++) {
		if (ranks[h] == 0 || hvd_machine_lost(machine, h))
			continue;
		any_over |= left[h] == 0;
		if (left[h] > 0 || which == HVD_HOSTS_ALL)
			hvd_strv_add(&names, hvd_machine_host(machine, h));
	}
	return names.n == 0 || (which == HVD_HOSTS_BEHIND && !any_over) ? NULL : hvd_strv_join(&names, ",");
}

static const struct hvd_layout *layout(const struct hvd_job_policy *policy)
{
	const struct hvd_layout *layout = hvd_world_layout(elastic_of(policy)->world);

	return layout->size ? layout : NULL;
}

static void finish(struct hvd_job_policy *policy)
{
	struct elastic *el = elastic_of(policy);
	struct hvd_result *result = policy->job->result;

	result->generations = hvd_machine_generation(el->machine);
	hvd_restart_history_end(&el->history, result, hvd_now(), el->log);
}

/* ---- before the start ---- */

/* The process of one host, moved to those of the launch. */
static int preview_host(struct hvd_launch *launch, const struct hvd_backend *backend, int index, struct hvd_err *err)
{
	const struct hvd_alloc_host *host = &launch->alloc.hosts[index];
	struct hvd_launch one;
	int rc = hvd_launch_for_host(&one, launch, backend, index, host, err);

	for (size_t i = 0; i < one.n_procs; i++) {
		struct hvd_proc *proc = hvd_launch_add(launch, host->name);

		hvd_strv_free(&proc->env);
		proc->argv = one.procs[i].argv;
		proc->stdin_args = one.procs[i].stdin_args;
		proc->env = one.procs[i].env;
	}
	free(one.procs);
	hvd_alloc_clear(&one.alloc);
	return rc;
}

int hvd_elastic_preview(struct hvd_launch *launch, const struct hvd_backend *backend, struct hvd_err *err)
{
	struct hvd_discovery_opts opts;
	int rc = hvd_discovery_choose(launch, &opts, err);

	if (rc == 0 && opts.hosts.n_hosts == 0) {
		rc = hvd_err_set(err, HVD_E_USAGE, "--dry-run: the hosts of this job are only known when it runs");
		hvd_err_hint(err, "list hosts with --hosts for the dry run");
	}
	if (rc == 0) {
		launch->alloc = opts.hosts;
		memset(&opts.hosts, 0, sizeof(opts.hosts));
	}
	for (int i = 0; rc == 0 && i < launch->alloc.n_hosts; i++)
		rc = preview_host(launch, backend, i, err);
	hvd_discovery_opts_clear(&opts);
	return rc;
}

static struct hvd_machine_opts machine_opts(const struct elastic *el)
{
	const struct hvd_launch_spec *spec = el->launcher->launch->spec;
	const enum hvd_discover from = el->discovery_opts.from;
	const double silent = spec->elastic.silent, timeout = spec->elastic.timeout;
	/* How many ranks there are without the spare hosts is known when the hosts are. */
	const int first = spec->spares > 0 && !spec->ranks.n ? 0 : spec->elastic.first_np;

	return (struct hvd_machine_opts){
		.np = first,
		.min_np = spec->elastic.min_np ? spec->elastic.min_np : first,
		.max_np = spec->elastic.max_np,
		.hosts_stay = from == HVD_DISCOVER_HOSTS,
		.hosts_end = from == HVD_DISCOVER_HOSTS || from == HVD_DISCOVER_SLURM, /* the job has ended then */
		.hosts_come = el->discovery_opts.agent_pool != NULL,
		.spares = spec->spares,
		.reset_limit = spec->elastic.reset_limit,
		.restart = spec->max_restarts >= 0,
		.max_restarts = spec->max_restarts,
		.max_idle = spec->max_idle_restarts,
		.progress_after = spec->progress_file ? -1 : spec->restart_window,
		.grace = el->launcher->opts->kill_wait,
		.elastic_timeout = timeout,
		.patience = timeout > PATIENCE_SECONDS ? timeout : PATIENCE_SECONDS,
		.cooldown_min = spec->elastic.cooldown_min,
		.cooldown_max = spec->elastic.cooldown_max,
		.silent_grace = silent > 0 ? silent : SILENT_SECONDS,
		.kill_grace = silent > 0 ? silent : KILL_SECONDS,
		.check_wait = spec->preflight ? CHECK_SECONDS : 0,
		.settle = SETTLE_SECONDS,
	};
}

/* ---- life ---- */

/* sbatch -G: which host has how many? */
static void find_gpus(struct elastic *el, struct hvd_launch *launch)
{
	const struct hvd_batch_job job = hvd_batch_job_of(launch->spec, 0);

	if (!el->policy.in_slurm_job || !job.scheduler->gpus)
		return;
	job.scheduler->gpus(&job, launch->envp, &el->gpus);
	if (el->gpus.n > 0)
		launch->gpus = &el->gpus;
}

static void make_parts(struct elastic *el)
{
	static const struct hvd_elastic_rv_ops erv_ops = {on_arrived, on_connected, on_ready, on_notify};
	struct hvd_launcher_process *launcher = el->launcher;
	const struct hvd_machine_opts opts = machine_opts(el);

	el->restart = opts.restart;
	hvd_restart_history_init(&el->history, el->restart ? launcher->opts->events : NULL, launcher->result->began);
	el->progress.pattern = launcher->launch->spec->progress_file;
	hvd_progress_file_changed(&el->progress);
	if (!el->restart)
		hvd_strv_add(&launcher->opts->extra_env, "HOROVOD_ELASTIC=1");
	el->machine = hvd_machine_create(&opts, hvd_now(), &hvd_elastic_machine_ops, el, el->log);
	hvd_stuck_procs_init(&el->stuck, launcher, el->machine);
	el->events = hvd_event_queue_create(launcher->base, el->machine);
	el->peers = hvd_gloo_peers_create();
	el->erv = hvd_elastic_rv_create(el->machine, &erv_ops, el, el->log);
}

static int open_world(struct hvd_job_policy *policy, struct hvd_err *err)
{
	struct elastic *el = elastic_of(policy);

	el->world = hvd_job_add_world(policy->job, &hvd_elastic_world_ops, policy->job, err);
	return el->world ? 0 : -1;
}

static int begin(struct hvd_job_policy *policy, struct hvd_err *err)
{
	static const struct hvd_discovery_ops ops = {on_hosts, on_leaving, on_discovery_failed};
	struct elastic *el = elastic_of(policy);

	el->silent = hvd_unresponsive_ranks_create(el->world, el->log);
	el->discovery = hvd_discovery_create(el->launcher->base, &el->discovery_opts, &ops, el, el->log, err);
	return el->discovery ? 0 : -1;
}

static void destroy(struct hvd_job_policy *policy)
{
	struct elastic *el = elastic_of(policy);

	hvd_discovery_destroy(el->discovery);
	hvd_discovery_opts_clear(&el->discovery_opts);
	hvd_strv_free(&el->gpus);
	hvd_stuck_procs_clear(&el->stuck);
	hvd_restart_history_clear(&el->history);
	hvd_elastic_rv_destroy(el->erv);
	hvd_unresponsive_ranks_destroy(el->silent);
	hvd_gloo_peers_destroy(el->peers);
	hvd_event_queue_destroy(el->events);
	hvd_machine_destroy(el->machine);
	free(el);
}

struct hvd_job_policy *hvd_elastic_create(struct hvd_launcher_process *launcher, struct hvd_err *err)
{
	static const struct hvd_job_policy_ops ops = {.agents = &hvd_elastic_agent_registry_ops,
						      .open = open_world,
						      .begin = begin,
						      .end = end,
						      .rank_ended = hvd_elastic_rank_ended,
						      .running = running,
						      .host_lost = hvd_elastic_host_lost,
						      .facts = facts,
						      .hosts = hosts,
						      .layout = layout,
						      .finish = finish,
						      .proc_lost = proc_lost,
						      .cut_short = cut_short,
						      .procs_ending = procs_ending,
						      .destroy = destroy};
	struct elastic *el = hvd_xcalloc(1, sizeof(*el));

	*el = (struct elastic){
		.policy = {.ops = &ops, .hosts_change = true}, .launcher = launcher, .log = launcher->log};
	if (hvd_discovery_choose(launcher->launch, &el->discovery_opts, err) != 0) {
		destroy(&el->policy);
		return NULL;
	}
	el->policy.in_slurm_job =
		launcher->backend == &hvd_backend_steps && el->discovery_opts.from != HVD_DISCOVER_JOBS;
	find_gpus(el, launcher->launch);
	make_parts(el);
	return &el->policy;
}
