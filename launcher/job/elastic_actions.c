/* SPDX-License-Identifier: Apache-2.0 */
/* elastic_actions.c - what the state machine of a world wants done. */
#include "elastic_internal.h"

static void do_host_begin(uint32_t host, void *arg)
{
	hvd_elastic_host_begin(arg, host);
}

static void do_host_end(uint32_t host, void *arg)
{
	hvd_elastic_host_end(arg, host, false);
}

static void do_host_give_up(uint32_t host, void *arg)
{
	hvd_elastic_host_end(arg, host, true);
}

static void do_host_bad(uint32_t host, const char *why, void *arg)
{
	hvd_elastic_host_bad(((struct elastic_part *)arg)->el, host, why);
}

/* Too few hosts are left. */
static void want_other_hosts(const struct elastic_part *part)
{
	struct elastic *el = part->el;

	for (uint32_t h = 0; h < hvd_machine_n_hosts(part->machine); h++)
		if (hvd_machine_lost(part->machine, h))
			hvd_elastic_host_bad(el, h, "it was lost");
	hvd_requeue_want(&el->launcher->result->requeue, el->launcher->launch->spec, HVD_REQUEUE_NODE, NULL);
}

static void do_finish(const struct hvd_err *why, int status, void *arg)
{
	struct elastic_part *part = arg;

	if (!part->el->policy.job->ending && hvd_machine_too_few(part->machine))
		want_other_hosts(part);
	hvd_elastic_part_over(part, why, status);
}

static void do_prepare(void *arg)
{
	struct elastic_part *part = arg;
	struct hvd_layout layout;
	struct hvd_err why = {0};

	if (hvd_machine_layout(part->machine, true, &layout, &why) == 0)
		hvd_world_prepare(part->world, &layout);
	else
		do_finish(&why, 1, part);
}

static void log_begin(struct elastic_part *part)
{
	hvd_verbose(part->log, "generation %d begins, %.3f s after the start", hvd_machine_generation(part->machine),
		    hvd_result_seconds(part->el->launcher->result));
	hvd_job_handle(part->el->policy.job, HVD_JOB_STARTED);
	hvd_world_progress(part->world);
}

static void do_generation(bool prepared, void *arg)
{
	struct elastic_part *part = arg;
	struct hvd_layout layout;
	struct hvd_err why = {0};

	if (part->number == 0)
		hvd_runfunc_generation(part->el->launcher->func);
	if (part->el->roles)
		hvd_elastic_roles_generation(part);
	hvd_elastic_rv_cancel_notify(part->erv);
	hvd_gloo_peers_begin(part->peers);
	if (hvd_machine_layout(part->machine, false, &layout, &why) == 0) {
		hvd_job_generation(part->el->policy.job, part->number, hvd_machine_generation(part->machine),
				   hvd_machine_restarts(part->machine), &layout);
		hvd_world_generation(part->world, &layout, prepared);
	} else {
		do_finish(&why, 1, part);
	}
	if (part->restart && !why.code) {
		hvd_world_renew(part->world, hvd_machine_restarts(part->machine));
		log_begin(part);
	}
}

static void do_worker_start(const struct hvd_worker *w, void *arg)
{
	struct elastic_part *part = arg;
	const struct hvd_elastic_roles *roles = part->el->roles;
	const char *host = hvd_machine_host(part->machine, w->host);

	hvd_verbose(part->log, "%s: starting rank %d, local rank %d", host, w->rank, w->slot);
	hvd_world_start(part->world, w->id, w->rank, hvd_machine_slots(part->machine, w->host),
			roles ? hvd_elastic_roles_share(roles, part->number, host) : NULL);
}

static void do_worker_end(const struct hvd_worker *w, bool at_once, void *arg)
{
	struct elastic_part *part = arg;

	/* Then all of them end. */
	if (part->restart) {
		hvd_failure_report_ending(hvd_failures_now(&part->el->policy.job->failures[part->number]), hvd_now());
		hvd_event(part->el->policy.job->events, GENERATION_ENDING, .world = part->number,
			  .why = "hosts have changed");
	}
	hvd_verbose(part->log, "%s: ending local rank %d%s", hvd_machine_host(part->machine, w->host), w->slot,
		    w->removed ? ", which is no longer part of the job" : "");
	if (w->silent)
		hvd_unresponsive_ranks_end(part->silent, w->host, w->id);
	else
		hvd_world_stop(part->world, w->host, w->id, at_once);
}

static void do_answer(void *arg)
{
	struct elastic_part *part = arg;

	log_begin(part);
	hvd_gloo_peers_answered(part->peers);
	hvd_elastic_rv_answer(part->erv, hvd_world_layout(part->world));
}

static void do_notify(uint32_t worker, void *arg)
{
	struct elastic_part *part = arg;

	hvd_verbose(part->log, "telling rank 0 that hosts have changed");
	hvd_event(part->el->policy.job->events, GENERATION_ENDING, .world = part->number, .why = "hosts have changed");
	hvd_elastic_rv_notify(part->erv, worker);
}

static void do_kill_connections(void *arg)
{
	struct elastic_part *part = arg;

	hvd_verbose(part->log, "breaking the connections of generation %d's ranks",
		    hvd_machine_generation(part->machine));
	if (hvd_world_kill_connections(part->world, part->peers) == 0) {
		hvd_verbose(part->log, "it is not known where they are connected");
		hvd_event_queue_add(part->events, HVD_EVENT_KILL_FAILED, 0, 0);
	}
}

static void do_restart(const char *why, void *arg)
{
	const struct elastic_part *part = arg;

	hvd_world_ready_stop(part->world);
	hvd_event(part->el->policy.job->events, RESTART, .world = part->number,
		  .restarts = hvd_machine_restarts(part->machine), .why = why);
}

static void do_over(void *arg)
{
	const struct elastic_part *part = arg;

	hvd_world_ready_stop(part->world);
	hvd_event(part->el->policy.job->events, GENERATION_ENDED, .world = part->number);
}

static void do_check(uint32_t host, void *arg)
{
	hvd_agent_registry_check(((struct elastic_part *)arg)->el->policy.job->agents, host);
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
	.host_bad = do_host_bad,
	.finish = do_finish,
	.restart = do_restart,
	.over = do_over,
};
