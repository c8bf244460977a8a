/* SPDX-License-Identifier: Apache-2.0 */
/* job.c - what is reported to a job besides ends of ranks, and its begin and end, see job.h. */
#include "job.h"

#include "launcher/metrics/metrics.h"
#include "launcher/start/procs.h"
#include "launcher/world/job_store.h"
#include "lib/base/cleanup.h"
#include "lib/base/xalloc.h"
#include "lib/process/rlimits.h"
#include "status.h"

#include <stdlib.h>

/* Descriptors for everything but the connections of the hosts. */
#define OTHER_FILES 32

void hvd_job_signal(int sig, void *arg)
{
	struct hvd_job *job = arg;

	job->result->requeue.signalled = true;
	if (job->starter->agents_end_ranks)
		hvd_agent_registry_signal(job->agents, sig);
	else
		job->starter->ops->signal(job->starter, sig);
}

int hvd_job_serve_func(struct hvd_rv *rv, void *arg, struct hvd_err *err)
{
	const struct hvd_job_opts *opts = &((struct hvd_job *)arg)->opts;

	return opts->func ? hvd_runfunc_serve(opts->func, rv, &opts->session->key, err) : 0;
}

void hvd_job_host_registered(uint32_t host, void *arg)
{
	const struct hvd_job *job = arg;

	if (job->starter->procs)
		hvd_procs_registered(job->starter->procs, host);
}

void hvd_job_generation(struct hvd_job *job, unsigned world, int generation, int restarts,
			const struct hvd_layout *layout)
{
	hvd_cleanup_free char *hosts = hvd_layout_hosts_text(layout);

	hvd_failures_next(&job->failures[world], generation, job->events, job->log);
	hvd_event(job->events, GENERATION_BEGAN, .world = world, .generation = generation, .ranks = layout->size,
		  .hosts = hosts, .restarts = restarts);
}

void hvd_job_stalled(struct hvd_job *job, unsigned world, const struct hvd_stall *stall)
{
	if (!job->ranks_ended)
		hvd_job_watch_stalled(job->watch, world, stall);
}

void hvd_job_output_lost(void *arg)
{
	((struct hvd_job *)arg)->output_lost = true;
}

/* ---- the watch ---- */

static void on_end(const struct hvd_err *why, void *arg)
{
	if (why)
		hvd_job_fail(arg, why);
	else
		hvd_job_handle(arg, HVD_JOB_CANNOT_GO_ON);
}

static void on_facts(const struct hvd_job_facts *facts, void *arg)
{
	struct hvd_job *job = arg;

	hvd_rank_exits_answered(job);
	if (job->policy->ops->facts && !job->ending)
		job->policy->ops->facts(job->policy, facts);
}

/* ---- the end ---- */

bool hvd_job_report(struct hvd_job *job)
{
	const bool shown = job->starter->judges_failures;

	job->policy->ops->finish(job->policy);
	return (job->ranks_failed || (shown && !job->failed)) &&
	       hvd_failures_end(job->failures, job->n_worlds, job->failed_world, job->spec, job->result, shown,
				job->events, job->log);
}

/* ---- life ---- */

static void on_grace_over(void *arg)
{
	hvd_job_handle(arg, HVD_JOB_GRACE_OVER);
}

static void on_last(void *arg)
{
	hvd_job_handle(arg, HVD_JOB_AGENTS_LEFT);
}

/* Is there a descriptor for each host's connection? All of them are open at once. */
static int check_room(const struct hvd_driver_opts *opts, struct hvd_err *err)
{
	unsigned long files = hvd_nofile();

	if (opts->hosts + OTHER_FILES <= files)
		return 0;
	hvd_err_set(err, HVD_E_LIMIT, "%u hosts need a connection each, but this process may open only %lu files",
		    (unsigned)opts->hosts, files);
	return hvd_err_hint(err,
			    "raise the limit where the launch starts to more than %u: ulimit -Hn, or LimitNOFILE= of "
			    "the service that it runs in",
			    (unsigned)opts->hosts + OTHER_FILES);
}

struct hvd_world *hvd_job_add_world(struct hvd_job *job, const struct hvd_driver_opts *opts,
				    const struct hvd_world_ops *ops, void *arg, struct hvd_err *err)
{
	struct hvd_world *world = hvd_world_create(job->opts.base, job->agents, opts, ops, arg, job->log, err);

	if (!world)
		return NULL;
	job->failures[job->n_worlds].role = opts->role;
	job->worlds[job->n_worlds++] = world;
	return world;
}

static int open_agents(struct hvd_job *job, struct hvd_err *err)
{
	const struct hvd_job_opts *opts = &job->opts;
	struct hvd_job_policy *policy = job->policy;

	if (!policy->hosts_change && check_room(opts->driver, err) != 0)
		return -1;
	job->agents = hvd_agent_registry_create(opts->base, !policy->hosts_change, opts->driver, opts->session,
						policy->ops->agents, job, job->log, err);
	if (!job->agents || policy->ops->open(policy, err) != 0)
		return -1;
	if (job->n_worlds == 1)
		return 0;
	job->store =
		hvd_job_store_create(opts->base, job->agents, opts->driver, job->worlds, job->n_worlds, job->log, err);
	return job->store ? 0 : -1;
}

static int begin(struct hvd_job *job, struct hvd_err *err)
{
	static const struct hvd_job_watch_ops watch_ops = {hvd_job_signal, on_end, on_facts};
	struct hvd_job_policy *policy = job->policy;
	struct hvd_boot boot;

	if (open_agents(job, err) != 0)
		return -1;
	hvd_metrics_open(job->opts.driver->metrics, job->opts.base, job->agents, job->worlds, job->n_worlds);
	job->status = hvd_job_status_create(job);
	job->watch = hvd_job_watch_create(job, &watch_ops);
	/* Without a host that fits the ranks may have to wait for as long as the job lives. */
	if (policy->hosts_change)
		hvd_job_watch_started(job->watch);
	hvd_worlds_boot(job->worlds, job->n_worlds, &boot);
	if (job->starter->ops->start(job->starter, &boot, err) != 0)
		return -1;
	return policy->ops->begin ? policy->ops->begin(policy, err) : 0;
}

int hvd_job_create(const struct hvd_job_opts *opts, struct hvd_err *err)
{
	struct hvd_job *job = hvd_xcalloc(1, sizeof(*job));

	job->opts = *opts;
	job->spec = opts->driver->spec;
	job->starter = opts->starter;
	job->policy = opts->policy;
	job->starter->job = job->policy->job = job;
	job->result = opts->result;
	job->events = opts->driver->events;
	job->log = opts->log;
	job->state = HVD_JOB_STARTING;
	job->grace = hvd_timer_new(opts->base, on_grace_over, job);
	job->last = hvd_timer_new(opts->base, on_last, job);
	for (unsigned w = 0; w < HVD_MAX_WORLDS; w++)
		job->failures[w].world = w;
	hvd_rank_exits_init(job);
	return begin(job, err);
}

void hvd_job_destroy(struct hvd_job *job)
{
	if (!job)
		return;
	hvd_metrics_close(job->opts.driver->metrics);
	hvd_job_watch_destroy(job->watch);
	hvd_job_status_destroy(job->status);
	hvd_agent_registry_destroy(job->agents);
	for (unsigned w = 0; w < job->n_worlds; w++)
		hvd_world_destroy(job->worlds[w]);
	hvd_job_store_destroy(job->store);
	hvd_rank_exits_clear(job);
	hvd_timer_free(job->grace);
	hvd_timer_free(job->last);
	for (unsigned w = 0; w < HVD_MAX_WORLDS; w++)
		hvd_failures_clear(&job->failures[w]);
	free(job);
}
