/* SPDX-License-Identifier: Apache-2.0 */
/* elastic_actions.c - what the state machine of an elastic job wants done. */
#include "elastic_internal.h"

#include "launcher/scheduler/scheduler.h"

static void do_host_begin(uint32_t host, void *arg)
{
	struct elastic *el = arg;
	const char *name = hvd_machine_host(el->machine, host);
	struct hvd_err why = {0};

	hvd_verbose(el->log, "%s: starting its node agent", name);
	hvd_agent_registry_expect(el->policy.job->agents, host, name);
	if (hvd_procs_start_host(el->launcher->procs, host, name, hvd_machine_slots(el->machine, host),
				 hvd_machine_slurm_job(el->machine, host), &why) == 0)
		return;
	hvd_log_err(el->log, &why);
	hvd_agent_registry_forget(el->policy.job->agents, host);
	hvd_event_queue_add(el->events, HVD_EVENT_HOST_UNFIT, host, 0);
}

static void do_host_end(uint32_t host, void *arg)
{
	struct elastic *el = arg;

	hvd_verbose(el->log, "%s: ending its node agent", hvd_machine_host(el->machine, host));
	hvd_agent_registry_forget(el->policy.job->agents, host);
	hvd_procs_release(el->launcher->procs, host, false);
}

static void do_host_give_up(uint32_t host, void *arg)
{
	struct elastic *el = arg;

	hvd_agent_registry_forget(el->policy.job->agents, host);
	hvd_procs_release(el->launcher->procs, host, true);
	hvd_discovery_nudge(el->discovery);
}

/* If the job is requeued, hosts of other jobs are no matter of it. */
void hvd_elastic_host_bad(uint32_t host, const char *why, void *elastic)
{
	struct elastic *el = elastic;
	const uint32_t job = hvd_machine_slurm_job(el->machine, host);

	if (!job || job == hvd_batch_job_of(el->launcher->launch->spec, 0).number)
		hvd_requeue_avoid(&el->launcher->result->requeue, hvd_machine_host(el->machine, host), why);
}

/* Too few hosts are left. */
static void want_other_hosts(struct elastic *el)
{
	for (uint32_t h = 0; h < hvd_machine_n_hosts(el->machine); h++)
		if (hvd_machine_lost(el->machine, h))
			hvd_elastic_host_bad(h, "it was lost", el);
	hvd_requeue_want(&el->launcher->result->requeue, el->launcher->launch->spec, HVD_REQUEUE_NODE, NULL);
}

static void do_finish(const struct hvd_err *why, int status, void *arg)
{
	struct elastic *el = arg;

	if (!el->policy.job->ending && hvd_machine_too_few(el->machine))
		want_other_hosts(el);
	hvd_job_end(el->policy.job, why, status);
}

static void do_prepare(void *arg)
{
	struct elastic *el = arg;
	struct hvd_layout layout;
	struct hvd_err why = {0};

	if (hvd_machine_layout(el->machine, true, &layout, &why) == 0)
		hvd_world_prepare(el->world, &layout);
	else
		do_finish(&why, 1, el);
}

static void log_begin(struct elastic *el)
{
	hvd_verbose(el->log, "generation %d begins, %.3f s after the start", hvd_machine_generation(el->machine),
		    hvd_result_seconds(el->launcher->result));
	hvd_job_handle(el->policy.job, HVD_JOB_STARTED);
	hvd_world_progress(el->world);
}

static void do_generation(bool prepared, void *arg)
{
	struct elastic *el = arg;
	struct hvd_layout layout;
	struct hvd_err why = {0};

	hvd_runfunc_generation(el->launcher->func);
	hvd_elastic_rv_cancel_notify(el->erv);
	hvd_gloo_peers_begin(el->peers);
	if (hvd_machine_layout(el->machine, false, &layout, &why) == 0) {
		hvd_job_generation(el->policy.job, hvd_machine_generation(el->machine),
				   hvd_machine_restarts(el->machine), &layout);
		hvd_world_generation(el->world, &layout, prepared);
	} else {
		do_finish(&why, 1, el);
	}
	if (el->restart && !why.code) {
		hvd_world_renew(el->world, hvd_machine_restarts(el->machine));
		log_begin(el);
	}
}

static void do_worker_start(const struct hvd_worker *w, void *arg)
{
	struct elastic *el = arg;

	hvd_verbose(el->log, "%s: starting rank %d, local rank %d", hvd_machine_host(el->machine, w->host), w->rank,
		    w->slot);
	hvd_world_start(el->world, w->id, w->rank, hvd_machine_slots(el->machine, w->host));
}

static void do_worker_end(const struct hvd_worker *w, bool at_once, void *arg)
{
	struct elastic *el = arg;

	/* Then all of them end. */
	if (el->restart) {
		hvd_failure_report_ending(hvd_failures_now(&el->policy.job->failures), hvd_now());
		hvd_event(el->policy.job->events, GENERATION_ENDING, .why = "hosts have changed");
	}
	hvd_verbose(el->log, "%s: ending local rank %d%s", hvd_machine_host(el->machine, w->host), w->slot,
		    w->removed ? ", which is no longer part of the job" : "");
	if (w->silent)
		hvd_unresponsive_ranks_end(el->silent, w->host, w->id);
	else
		hvd_world_stop(el->world, w->host, w->id, at_once);
}

static void do_answer(void *arg)
{
	struct elastic *el = arg;

	log_begin(el);
	hvd_gloo_peers_answered(el->peers);
	hvd_elastic_rv_answer(el->erv, hvd_world_layout(el->world));
}

static void do_notify(uint32_t worker, void *arg)
{
	struct elastic *el = arg;

	hvd_verbose(el->log, "telling rank 0 that hosts have changed");
	hvd_event(el->policy.job->events, GENERATION_ENDING, .why = "hosts have changed");
	hvd_elastic_rv_notify(el->erv, worker);
}

static void do_kill_connections(void *arg)
{
	struct elastic *el = arg;

	hvd_verbose(el->log, "breaking the connections of generation %d's ranks", hvd_machine_generation(el->machine));
	if (hvd_world_kill_connections(el->world, el->peers) == 0) {
		hvd_verbose(el->log, "it is not known where they are connected");
		hvd_event_queue_add(el->events, HVD_EVENT_KILL_FAILED, 0, 0);
	}
}

static void do_restart(const char *why, void *arg)
{
	const struct elastic *el = arg;

	hvd_event(el->policy.job->events, RESTART, .restarts = hvd_machine_restarts(el->machine), .why = why);
}

static void do_over(void *arg)
{
	hvd_event(((const struct elastic *)arg)->policy.job->events, GENERATION_ENDED, .index = 0);
}

static void do_check(uint32_t host, void *arg)
{
	hvd_agent_registry_check(((struct elastic *)arg)->policy.job->agents, host);
}

const struct hvd_machine_ops hvd_elastic_machine_ops = {
	.host_begin = do_host_begin,
	.host_end = do_host_end,
	.host_give_up = do_host_give_up,
	.prepare = do_prepare,
	.generation = do_generation,
	.worker_start = do_worker_start,
	.worker_end = do_worker_end,
	.answer = do_answer,
	.notify = do_notify,
	.kill_connections = do_kill_connections,
	.check = do_check,
	.host_bad = hvd_elastic_host_bad,
	.finish = do_finish,
	.restart = do_restart,
	.over = do_over,
};
