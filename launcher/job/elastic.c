/* SPDX-License-Identifier: Apache-2.0 */
/* elastic.c - connects the parts of an elastic job with its state machine, see elastic.h. */
#include "elastic.h"

#include "elastic_internal.h"
#include "launcher/scheduler/scheduler.h"
#include "lib/base/cleanup.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

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

static void on_proc_lost(uint32_t host, const struct hvd_err *why, void *arg)
{
	struct elastic *el = arg;

	if (hvd_procs_ending(el->job.procs))
		return;
	hvd_log_err(el->job.log, why);
	hvd_agent_registry_forget(el->agents, host);
	hvd_job_watch_ask(el->watch);
	hvd_discovery_nudge(el->discovery);
	hvd_event_queue_add(el->events, HVD_EVENT_HOST_LOST, host, 0);
}

static void on_cut_short(uint32_t host, void *arg)
{
	hvd_stuck_procs_cut_short(&((struct elastic *)arg)->stuck, host);
}

static void on_none_left(void *arg)
{
	struct elastic *el = arg;

	if (hvd_procs_ending(el->job.procs))
		hvd_frontend_stop(&el->job);
}

static void on_hosts(const struct hvd_alloc *hosts, void *arg)
{
	struct elastic *el = arg;

	/* At once, before they are asked for one by one. */
	if (el->job.backend->reach)
		hvd_launch_find_local(el->job.launch, hosts);
	/* A host that is not listed any longer is to be left in peace, or is down. */
	for (uint32_t h = 0; h < hvd_machine_n_hosts(el->machine); h++)
		if (hvd_alloc_find(hosts, hvd_machine_host(el->machine, h)) < 0)
			hvd_agent_registry_doubt(el->agents, h);
	/* That there are none may be the job's end, of which Slurm knows more. */
	el->no_hosts = el->of_job && hosts->n_hosts == 0;
	if (el->no_hosts)
		hvd_job_watch_ask(el->watch);
	else
		hvd_event_queue_add_hosts(el->events, hosts);
}

static void on_leaving(const char *host, double seconds, void *arg)
{
	hvd_info(((struct elastic *)arg)->job.log, "%s will be taken away in %.0f s: its ranks are moved now", host,
		 seconds);
}

static void on_signal_ranks(int sig, void *arg)
{
	struct elastic *el = arg;

	el->job.result->requeue.signalled = true;
	hvd_agent_registry_signal(el->agents, sig);
}

static void on_end(const struct hvd_err *why, void *arg)
{
	if (why)
		hvd_elastic_failed(why, arg);
	else
		hvd_elastic_end(arg);
}

/* The Slurm job has ended, and all agents with it. What the ranks died of needs no report. */
static void end_with_job(struct elastic *el, const char *fate)
{
	struct hvd_err why = {0};

	hvd_err_set(&why, HVD_E_NOENT, "job %s %s; ending the launch", hvd_batch_job_of(el->job.launch->spec, 0).name,
		    fate ? fate : "has ended");
	hvd_elastic_finish(&why, 1, el);
}

/* It is known whether the job is preempted. */
static void release_held(struct elastic *el)
{
	struct hvd_held_end *held = el->held;
	const size_t n = el->n_held;

	el->asking = false;
	el->held = NULL;
	el->n_held = 0;
	for (size_t i = 0; i < n; i++)
		hvd_elastic_rank_ended(el, held[i].worker, held[i].status);
	free(held);
}

static void on_facts(const struct hvd_job_facts *facts, void *arg)
{
	struct elastic *el = arg;

	static const struct hvd_alloc none;

	if (!el->of_job || hvd_procs_ending(el->job.procs))
		return;
	el->leaving.seconds = facts->preempted ? facts->left : 0;
	release_held(el);
	if (!facts->unknown && facts->over) {
		end_with_job(el, facts->fate);
		return;
	}
	if (el->no_hosts)
		hvd_event_queue_add_hosts(el->events, &none);
	el->no_hosts = false;
}

static bool is_ending(void *arg)
{
	return hvd_procs_ending(((struct elastic *)arg)->job.procs);
}

/* Nobody reads the results of --run-func any more. */
static void on_unread(void *arg)
{
	static const struct hvd_err none = {0};

	hvd_elastic_finish(&none, 1, arg);
}

/* All ranks have ended, so that the job can begin again. */
static void on_all_left(int status, void *arg)
{
	static const struct hvd_err none = {0};

	hvd_elastic_finish(&none, status, arg);
}

/* ---- life ---- */

/* sbatch -G: which host has how many? */
static void find_gpus(struct elastic *el, struct hvd_launch *launch)
{
	const struct hvd_batch_job job = hvd_batch_job_of(launch->spec, 0);

	if (!el->of_job || !job.scheduler->gpus)
		return;
	job.scheduler->gpus(&job, launch->envp, &el->gpus);
	if (el->gpus.n > 0)
		launch->gpus = &el->gpus;
}

static int begin(struct elastic *el, const struct hvd_discovery_opts *discovery, struct hvd_err *err)
{
	static const struct hvd_discovery_ops discovery_ops = {on_hosts, on_leaving, hvd_elastic_failed};
	static const struct hvd_elastic_rv_ops erv_ops = {on_arrived, on_connected, on_ready, on_notify};
	struct hvd_machine_opts opts = hvd_elastic_machine_opts(el->job.launch->spec, el->job.opts->kill_wait);
	struct hvd_frontend *job = &el->job;
	struct hvd_boot boot;

	static const struct hvd_job_watch_ops watch_ops = {
		.signal_ranks = on_signal_ranks, .end = on_end, .facts = on_facts, .ending = is_ending};
	struct hvd_requeue_wish *wish = &job->result->requeue;

	el->leaving = (struct hvd_draining){.spec = job->launch->spec, .wish = wish, .over = on_all_left, .arg = el};
	hvd_draining_init(&el->leaving, job->base);
	opts.hosts_stay = discovery->from == HVD_DISCOVER_HOSTS;
	opts.hosts_end = opts.hosts_stay || discovery->from == HVD_DISCOVER_SLURM; /* the job has ended then */
	opts.hosts_come = discovery->agent_pool != NULL;
	el->restart = opts.restart;
	hvd_restart_history_init(&el->history, el->restart ? job->opts->events : NULL, job->result->began);
	el->progress.pattern = job->launch->spec->progress_file;
	hvd_progress_file_changed(&el->progress);
	if (!el->restart)
		hvd_strv_add(&job->opts->extra_env, "HOROVOD_ELASTIC=1");
	el->machine = hvd_machine_create(&opts, hvd_now(), &hvd_elastic_machine_ops, el, job->log);
	hvd_stuck_procs_init(&el->stuck, job, el->machine);
	el->events = hvd_event_queue_create(job->base, el->machine);
	el->peers = hvd_gloo_peers_create();
	el->erv = hvd_elastic_rv_create(el->machine, &erv_ops, el, job->log);
	if (hvd_frontend_open_func(job, on_unread, el, err) != 0)
		return -1;
	el->agents = hvd_agent_registry_create(job->base, false, job->opts, &job->secret.session,
					       &hvd_elastic_agent_registry_ops, el, job->log, err);
	if (el->agents)
		el->world =
			hvd_world_create(job->base, el->agents, job->opts, &hvd_elastic_world_ops, el, job->log, err);
	if (!el->world)
		return -1;
	el->watch = hvd_job_watch_create(&(struct hvd_job_watch_opts){.base = job->base,
								      .spec = job->launch->spec,
								      .stacks = hvd_world_stacks(el->world),
								      .wish = wish,
								      .events = job->opts->events,
								      .pid = getpid(),
								      .ops = &watch_ops,
								      .arg = el,
								      .log = job->log});
	hvd_job_watch_started(el->watch, NULL);
	el->silent = hvd_unresponsive_ranks_create(el->world, job->log);
	hvd_world_boot(el->world, &boot);
	if (hvd_frontend_set_boot(job, &boot, err) != 0)
		return -1;
	el->discovery = hvd_discovery_create(job->base, discovery, &discovery_ops, el, job->log, err);
	return el->discovery ? 0 : -1;
}

static void cleanup(struct elastic *el)
{
	hvd_discovery_destroy(el->discovery);
	hvd_draining_clear(&el->leaving);
	free(el->held);
	hvd_strv_free(&el->gpus);
	hvd_stuck_procs_clear(&el->stuck);
	hvd_restart_history_clear(&el->history);
	hvd_frontend_end_procs(&el->job);
	hvd_elastic_rv_destroy(el->erv);
	hvd_job_watch_destroy(el->watch);
	hvd_unresponsive_ranks_destroy(el->silent);
	hvd_agent_registry_destroy(el->agents);
	hvd_world_destroy(el->world);
	hvd_gloo_peers_destroy(el->peers);
	hvd_event_queue_destroy(el->events);
	hvd_failures_clear(&el->failures);
	hvd_machine_destroy(el->machine);
	hvd_frontend_clear(&el->job);
}

int hvd_elastic_run(struct hvd_launch *launch, const struct hvd_backend *backend, struct hvd_driver_opts *opts,
		    struct hvd_result *result, struct hvd_err *err)
{
	static const struct hvd_frontend_ops job_ops = {.end = hvd_elastic_end, .signal_ranks = on_signal_ranks};
	static const struct hvd_procs_ops procs_ops = {
		.lost = on_proc_lost, .cut_short = on_cut_short, .none_left = on_none_left};
	const struct hvd_layout *layout;
	struct elastic el = {0};
	struct hvd_discovery_opts discovery = {0};
	int rc = hvd_frontend_init(&el.job, launch, backend, opts, result, true, &job_ops, &procs_ops, &el, err);

	if (rc == 0)
		rc = hvd_discovery_choose(launch, &discovery, err);
	if (rc == 0) {
		el.of_job = backend == &hvd_backend_steps && discovery.from != HVD_DISCOVER_JOBS;
		find_gpus(&el, launch);
		rc = begin(&el, &discovery, err);
	}
	hvd_discovery_opts_clear(&discovery);
	if (rc == 0) {
		hvd_frontend_run(&el.job);
		layout = hvd_world_layout(el.world);
		result->generations = hvd_machine_generation(el.machine);
		hvd_restart_history_end(&el.history, result, hvd_now(), el.job.log);
		if (el.failed && !el.job.result->ended_by)
			hvd_failures_end(&el.failures, launch->spec, result, opts->events, el.job.log);
		if (hvd_machine_idle(el.machine) && !el.job.result->ended_by)
			result->status = HVD_IDLE_STATUS;
		hvd_frontend_finish(&el.job, layout->size ? layout : NULL, 0, el.output_lost);
	}
	cleanup(&el);
	return rc;
}
