/* SPDX-License-Identifier: Apache-2.0 */
/* elastic_actions.c - what the state machine of an elastic job wants done. */
#include "elastic_internal.h"

#include "lib/base/cleanup.h"

static void do_host_begin(uint32_t host, void *arg)
{
	struct elastic *el = arg;
	const char *name = hvd_machine_host(el->machine, host);
	struct hvd_err why = {0};

	hvd_verbose(el->job.log, "%s: starting its node agent", name);
	hvd_agent_registry_expect(el->agents, host, name);
	if (hvd_procs_start_host(el->job.procs, host, name, hvd_machine_slots(el->machine, host),
				 hvd_machine_slurm_job(el->machine, host), &why) == 0)
		return;
	hvd_log_err(el->job.log, &why);
	hvd_agent_registry_forget(el->agents, host);
	hvd_event_queue_add(el->events, HVD_EVENT_HOST_UNFIT, host, 0);
}

static void do_host_end(uint32_t host, void *arg)
{
	struct elastic *el = arg;

	hvd_verbose(el->job.log, "%s: ending its node agent", hvd_machine_host(el->machine, host));
	hvd_agent_registry_forget(el->agents, host);
	hvd_procs_release(el->job.procs, host, false);
}

static void do_host_give_up(uint32_t host, void *arg)
{
	struct elastic *el = arg;

	hvd_agent_registry_forget(el->agents, host);
	hvd_procs_release(el->job.procs, host, true);
	hvd_discovery_nudge(el->discovery);
}

static void do_prepare(void *arg)
{
	struct elastic *el = arg;
	struct hvd_layout layout;
	struct hvd_err why = {0};

	if (hvd_machine_layout(el->machine, true, &layout, &why) == 0)
		hvd_world_prepare(el->world, &layout);
	else
		hvd_elastic_finish(&why, 1, el);
}

static void log_begin(struct elastic *el)
{
	hvd_verbose(el->job.log, "generation %d begins, %.3f s after the start", hvd_machine_generation(el->machine),
		    hvd_result_seconds(el->job.result));
	if (!el->job.result->started) {
		el->job.result->start_seconds = hvd_result_seconds(el->job.result);
	}
	el->job.result->started = true;
	hvd_world_progress(el->world);
}

static void log_generation(const struct elastic *el, const struct hvd_layout *layout)
{
	hvd_cleanup_free char *hosts = hvd_layout_hosts_text(layout);

	hvd_event(el->job.opts->events, GENERATION_BEGAN, .generation = hvd_machine_generation(el->machine),
		  .ranks = layout->size, .hosts = hosts, .restarts = hvd_machine_restarts(el->machine));
}

static void do_generation(bool prepared, void *arg)
{
	struct elastic *el = arg;
	struct hvd_layout layout;
	struct hvd_err why = {0};

	hvd_failures_next(&el->failures, hvd_machine_generation(el->machine), el->job.opts->events, el->job.log);
	hvd_runfunc_generation(el->job.func);
	hvd_elastic_rv_cancel_notify(el->erv);
	hvd_gloo_peers_begin(el->peers);
	if (hvd_machine_layout(el->machine, false, &layout, &why) == 0) {
		log_generation(el, &layout);
		hvd_world_generation(el->world, &layout, prepared);
	} else {
		hvd_elastic_finish(&why, 1, el);
	}
	if (el->restart && !why.code) {
		hvd_world_renew(el->world, hvd_machine_restarts(el->machine));
		log_begin(el);
	}
}

static void do_worker_start(const struct hvd_worker *w, void *arg)
{
	struct elastic *el = arg;

	hvd_verbose(el->job.log, "%s: starting rank %d, local rank %d", hvd_machine_host(el->machine, w->host), w->rank,
		    w->slot);
	hvd_world_start(el->world, w->id, w->rank, hvd_machine_slots(el->machine, w->host));
}

static void do_worker_end(const struct hvd_worker *w, bool at_once, void *arg)
{
	struct elastic *el = arg;

	/* Then all of them end. */
	if (el->restart) {
		hvd_failure_report_ending(hvd_failures_now(&el->failures), hvd_now());
		hvd_event(el->job.opts->events, GENERATION_ENDING, .why = "hosts have changed");
	}
	hvd_verbose(el->job.log, "%s: ending local rank %d%s", hvd_machine_host(el->machine, w->host), w->slot,
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

	hvd_verbose(el->job.log, "telling rank 0 that hosts have changed");
	hvd_event(el->job.opts->events, GENERATION_ENDING, .why = "hosts have changed");
	hvd_elastic_rv_notify(el->erv, worker);
}

static void do_kill_connections(void *arg)
{
	struct elastic *el = arg;

	hvd_verbose(el->job.log, "breaking the connections of generation %d's ranks",
		    hvd_machine_generation(el->machine));
	if (hvd_world_kill_connections(el->world, el->peers) == 0) {
		hvd_verbose(el->job.log, "it is not known where they are connected");
		hvd_event_queue_add(el->events, HVD_EVENT_KILL_FAILED, 0, 0);
	}
}

static void do_restart(const char *why, void *arg)
{
	const struct elastic *el = arg;

	hvd_event(el->job.opts->events, RESTART, .restarts = hvd_machine_restarts(el->machine), .why = why);
}

static void do_over(void *arg)
{
	hvd_event(((const struct elastic *)arg)->job.opts->events, GENERATION_ENDED, .index = 0);
}

static void do_check(uint32_t host, void *arg)
{
	hvd_agent_registry_check(((struct elastic *)arg)->agents, host);
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
	.finish = hvd_elastic_finish,
	.restart = do_restart,
	.over = do_over,
};
