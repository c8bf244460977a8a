/* SPDX-License-Identifier: Apache-2.0 */
/*
 * elastic.c - what an elastic job has once, for all of its worlds: hosts and processes, and its begin and end; see
 * elastic.h.
 */
#include "elastic.h"

#include "elastic_internal.h"
#include "launcher/scheduler/scheduler.h"
#include "lib/base/cleanup.h"
#include "lib/base/strv.h"
#include "lib/base/xalloc.h"

#include <stdlib.h>
#include <string.h>

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
	hvd_elastic_host_gone(el, host, HVD_EVENT_HOST_LOST);
	return false;
}

static void cut_short(struct hvd_job_policy *policy, uint32_t host)
{
	hvd_stuck_procs_cut_short(&elastic_of(policy)->stuck, host);
}

/* All worlds have the same hosts. */
static void add_hosts(struct elastic *el, const struct hvd_alloc *hosts)
{
	if (el->roles) {
		hvd_elastic_roles_listed(el->roles, hosts);
		return;
	}
	for (unsigned i = 0; i < el->n_parts; i++)
		hvd_event_queue_add_hosts(el->parts[i]->events, hosts);
}

static void on_hosts(const struct hvd_alloc *hosts, void *arg)
{
	struct elastic *el = arg;
	const struct hvd_machine *known = hvd_elastic_hosts(el);

	/* At once, before they are asked for one by one. */
	if (el->launcher->backend->reach)
		hvd_launch_find_local(el->launcher->launch, hosts);
	/* A host that is not listed any longer is to be left in peace, or is down. */
	for (uint32_t h = 0; h < hvd_machine_n_hosts(known); h++)
		if (hvd_alloc_find(hosts, hvd_machine_host(known, h)) < 0)
			hvd_agent_registry_doubt(el->policy.job->agents, h);
	/* That there are none may be the job's end, of which Slurm knows more. */
	el->no_hosts = el->policy.in_slurm_job && hosts->n_hosts == 0;
	if (el->no_hosts)
		hvd_job_watch_ask(el->policy.job->watch);
	else
		add_hosts(el, hosts);
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
		add_hosts(el, &none);
	el->no_hosts = false;
}

/* ---- what the job asks, and wants done ---- */

static void end(struct hvd_job_policy *policy)
{
	struct elastic *el = elastic_of(policy);

	hvd_agent_registry_end(el->policy.job->agents);
	hvd_discovery_destroy(el->discovery);
	el->discovery = NULL;
	for (unsigned i = 0; i < el->n_parts; i++)
		hvd_event_queue_stop(el->parts[i]->events);
}

/* Of spare hosts no output may be missing. */
static void procs_ending(struct hvd_job_policy *policy)
{
	struct elastic *el = elastic_of(policy);
	const uint32_t n = hvd_machine_n_hosts(hvd_elastic_hosts(el));
	hvd_cleanup_free bool *busy = hvd_xcalloc((size_t)n + 1, sizeof(*busy));

	for (unsigned i = 0; i < el->n_parts; i++)
		hvd_machine_busy_hosts(el->parts[i]->machine, busy, n);
	for (uint32_t h = 0; h < n; h++)
		if (!busy[h])
			hvd_procs_idle(el->launcher->procs, h);
	hvd_stuck_procs_ending(&el->stuck);
}

/* The ranks of the generations that had not ended when the machines were notified last. */
static int running(const struct hvd_job_policy *policy)
{
	const struct elastic *el = elastic_of(policy);
	const struct hvd_worker *w;
	int n = 0;

	for (unsigned i = 0; i < el->n_parts; i++)
		for (int rank = 0; (w = hvd_machine_member(el->parts[i]->machine, rank)); rank++)
			n += w->state != HVD_WORKER_GONE;
	return n;
}

/* Count the ranks of a world by host, and those that have not ended. Lost hosts have none. */
static void count_ranks(const struct hvd_machine *machine, uint32_t n, int *ranks, int *left)
{
	const struct hvd_worker *w;

	for (int rank = 0; (w = hvd_machine_member(machine, rank)); rank++) {
		if (w->host >= n || hvd_machine_lost(machine, w->host))
			continue;
		ranks[w->host]++;
		left[w->host] += w->state != HVD_WORKER_GONE;
	}
}

static char *hosts(const struct hvd_job_policy *policy, enum hvd_hosts_asked which)
{
	const struct elastic *el = elastic_of(policy);
	const uint32_t n = hvd_machine_n_hosts(hvd_elastic_hosts(el));
	hvd_cleanup_free int *ranks = hvd_xcalloc(n + 1, sizeof(*ranks)), *left = hvd_xcalloc(n + 1, sizeof(*left));
	HVD_CLEANUP(hvd_strv_free) struct hvd_strv names = {0};
	bool any_over = false;

	for (unsigned i = 0; i < el->n_parts; i++)
		count_ranks(el->parts[i]->machine, n, ranks, left);
	for (uint32_t h = 0; h < n; h++) {
		if (ranks[h] == 0)
			continue;
		any_over |= left[h] == 0;
		if (left[h] > 0 || which == HVD_HOSTS_ALL)
			hvd_strv_add(&names, hvd_machine_host(hvd_elastic_hosts(el), h));
	}
	return names.n == 0 || (which == HVD_HOSTS_BEHIND && !any_over) ? NULL : hvd_strv_join(&names, ",");
}

static const struct hvd_layout *layout(const struct hvd_job_policy *policy)
{
	const struct hvd_layout *layout = hvd_world_layout(elastic_of(policy)->parts[0]->world);

	return layout->size ? layout : NULL;
}

static void finish(struct hvd_job_policy *policy)
{
	struct elastic *el = elastic_of(policy);
	struct hvd_result *result = policy->job->result;

	/* The result has those of the first world. */
	result->generations = hvd_machine_generation(el->parts[0]->machine);
	hvd_restart_history_end(&el->parts[0]->history, result, hvd_now(), el->log);
	result->roles = hvd_elastic_result(el);
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

int hvd_elastic_add_world(struct hvd_job_policy *policy, struct hvd_driver_opts *opts, bool ends_all,
			  struct hvd_err *err)
{
	struct elastic *el = elastic_of(policy);

	if (el->n_parts == HVD_MAX_RANK_WORLDS)
		return hvd_err_set(err, HVD_E_LIMIT, "more than %d worlds of ranks are not possible",
				   HVD_MAX_RANK_WORLDS);
	hvd_elastic_part_create(el, opts, ends_all);
	return 0;
}

static int open_worlds(struct hvd_job_policy *policy, struct hvd_err *err)
{
	struct elastic *el = elastic_of(policy);

	for (unsigned i = 0; i < el->n_parts; i++)
		if (hvd_elastic_part_open(el->parts[i], err) != 0)
			return -1;
	return 0;
}

static int begin(struct hvd_job_policy *policy, struct hvd_err *err)
{
	static const struct hvd_discovery_ops ops = {on_hosts, on_leaving, on_discovery_failed};
	struct elastic *el = elastic_of(policy);

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
	for (unsigned i = 0; i < el->n_parts; i++)
		hvd_elastic_part_destroy(el->parts[i]);
	hvd_elastic_roles_destroy(el->roles);
	free(el->wanted);
	free(el);
}

static void create_parts(struct elastic *el)
{
	struct hvd_role_world_opts world;

	if (!el->roles)
		hvd_elastic_part_create(el, el->launcher->opts, true);
	for (unsigned i = 0; el->roles && hvd_elastic_roles_world(el->roles, i, &world); i++) {
		hvd_elastic_part_create(el, world.opts, world.ends_all);
		el->parts[i]->service = world.service;
	}
}

struct hvd_job_policy *hvd_elastic_create(struct hvd_launcher_process *launcher, struct hvd_err *err)
{
	static const struct hvd_job_policy_ops ops = {.agents = &hvd_elastic_agent_registry_ops,
						      .open = open_worlds,
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
	hvd_stuck_procs_init(&el->stuck, launcher);
	if (launcher->launch->roles && !(el->roles = hvd_elastic_roles_create(el, err))) {
		destroy(&el->policy);
		return NULL;
	}
	create_parts(el);
	return &el->policy;
}
