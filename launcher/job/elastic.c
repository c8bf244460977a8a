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

/* ---- what the workers tell at the rendezvous ---- */

static void on_connected(void *arg)
{
	struct elastic *el = arg;

	hvd_world_init(el->policy.job->world, true);
	hvd_event_queue_add(el->events, HVD_EVENT_CONNECTED, 0, 0);
}

static void on_arrived(uint32_t worker, void *arg)
{
	struct elastic *el = arg;

	hvd_world_init(el->policy.job->world, false);
	hvd_event_queue_add(el->events, HVD_EVENT_ARRIVED, worker, 0);
}

static void on_ready(uint32_t worker, void *arg)
{
	hvd_event_queue_add(((struct elastic *)arg)->events, HVD_EVENT_READY, worker, 0);
}

static void on_notify(const struct hvd_worker *w, const char *to, int64_t when, void *arg)
{
	hvd_world_notify(((struct elastic *)arg)->policy.job->world, w->host, w->id, to, when);
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
	const struct hvd_layout *layout = hvd_world_layout(policy->job->world);

	return layout->size ? layout : NULL;
}

static void finish(struct hvd_job_policy *policy)
{
	struct elastic *el = elastic_of(policy);
	struct hvd_result *result = policy->job->result;

	result->generations = hvd_machine_generation(el->machine);
	hvd_restart_history_end(&el->history, result, hvd_now(), el->log);
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
	const struct hvd_discovery_opts *discovery = &el->discovery_opts;
	struct hvd_machine_opts opts = hvd_elastic_machine_opts(launcher->launch->spec, launcher->opts->kill_wait);

	opts.hosts_stay = discovery->from == HVD_DISCOVER_HOSTS;
	opts.hosts_end = opts.hosts_stay || discovery->from == HVD_DISCOVER_SLURM; /* the job has ended then */
	opts.hosts_come = discovery->agent_pool != NULL;
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

static int begin(struct hvd_job_policy *policy, struct hvd_err *err)
{
	static const struct hvd_discovery_ops ops = {on_hosts, on_leaving, on_discovery_failed};
	struct elastic *el = elastic_of(policy);

	el->silent = hvd_unresponsive_ranks_create(policy->job->world, el->log);
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
						      .world = &hvd_elastic_world_ops,
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
