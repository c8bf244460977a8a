/* SPDX-License-Identifier: Apache-2.0 */
/* elastic_agents.c - what node agents of an elastic job report. */
#include "elastic_internal.h"

#include <string.h>

/* How long a new worker may wait at the rendezvous for the others: as good as for ever, for it is ended if they do not
 * come. */
#define RANK_WAIT_SECONDS (30 * 86400.0)

static int on_opened(struct hvd_rv *rv, void *arg, struct hvd_err *err)
{
	struct elastic *el = elastic_of(((struct hvd_job *)arg)->policy);

	if (hvd_job_serve_func(rv, arg, err) != 0)
		return -1;
	if (el->restart)
		return 0;
	/* New workers wait for the members of the last generation, who come after their current batch. */
	hvd_rv_set_rank_wait(rv, RANK_WAIT_SECONDS);
	hvd_elastic_rv_open(el->erv, rv);
	hvd_gloo_peers_watch(el->peers, rv);
	return 0;
}

static void on_admitted(uint32_t host, void *arg)
{
	struct elastic *el = elastic_of(((struct hvd_job *)arg)->policy);

	hvd_verbose(el->log, "%s can be used", hvd_machine_host(el->machine, host));
	hvd_requeue_allow(&el->launcher->result->requeue, hvd_machine_host(el->machine, host));
	hvd_machine_network(el->machine, host, hvd_agent_registry_switch_path(el->policy.job->agents, host),
			    hvd_agent_registry_rate(el->policy.job->agents, host));
	hvd_event_queue_add(el->events, HVD_EVENT_HOST_HERE, host, 0);
}

/* The host has not answered since then. */
static void host_gone(struct elastic *el, uint32_t host, const struct hvd_err *why, bool unfit, hvd_time since)
{
	const char *name = hvd_machine_host(el->machine, host);
	struct hvd_loss loss = {.of = HVD_LOSS_HOST, .host = name, .status = -1, .at = since};

	hvd_warn(el->log, "%s is left out: %s", name, why->msg);
	if (*why->hint)
		hvd_info(el->log, "%s", why->hint);
	if (hvd_machine_has_rank(el->machine, host)) {
		hvd_failure_report_lost(hvd_failures_now(&el->policy.job->failures), &loss);
		hvd_event(el->policy.job->events, GENERATION_ENDING, .host = name, .why = why->msg);
	}
	/* The end of a connection may be that of the agent alone, or of the job. */
	if (why->code != HVD_E_NET)
		hvd_elastic_host_bad(host, why->msg, el);
	hvd_job_watch_ask(el->policy.job->watch);
	hvd_discovery_nudge(el->discovery);
	hvd_procs_release(el->launcher->procs, host, true);
	hvd_event_queue_add(el->events, unfit ? HVD_EVENT_HOST_UNFIT : HVD_EVENT_HOST_LOST, host, 0);
}

static void on_gone(uint32_t host, const struct hvd_err *why, bool unfit, void *arg)
{
	struct elastic *el = elastic_of(((struct hvd_job *)arg)->policy);
	const hvd_time silent = hvd_agent_registry_silent_ms(el->policy.job->agents) * INT64_C(1000000);

	if (!el->policy.job->ending) /* else it was told to leave */
		host_gone(el, host, why, unfit, hvd_now() - silent);
}

/* Slurm has given up the host. Its kernel may still answer. */
void hvd_elastic_host_lost(struct hvd_job_policy *policy, const char *name, const char *how)
{
	struct elastic *el = elastic_of(policy);
	struct hvd_err why = {0};
	uint32_t host = 0;

	while (host < hvd_machine_n_hosts(el->machine) && strcmp(hvd_machine_host(el->machine, host), name) != 0)
		host++;
	if (policy->job->ending || host == hvd_machine_n_hosts(el->machine))
		return;
	hvd_err_set(&why, HVD_E_TIMEOUT, "%s", how + strspn(how, ": "));
	hvd_event(policy->job->events, HOST_LOST, .index = host, .host = name, .why = why.msg);
	hvd_agent_registry_forget(el->policy.job->agents, host);
	host_gone(el, host, &why, false, hvd_now());
}

static void on_left(uint32_t host, bool lost, void *arg)
{
	struct elastic *el = elastic_of(((struct hvd_job *)arg)->policy);

	if (lost)
		hvd_stuck_procs_lost(&el->stuck, host);
	hvd_procs_agent_left(el->launcher->procs, host);
}

/* The first rank of a generation that was not told to end has failed. With restarts: what has the generation achieved? */
static void note_failure(struct elastic *el)
{
	if (el->failed_generation == hvd_machine_generation(el->machine))
		return;
	el->failed_generation = hvd_machine_generation(el->machine);
	if (hvd_progress_file_changed(&el->progress))
		hvd_machine_progress(el->machine);
	if (hvd_restart_history_repeats(&el->history))
		hvd_machine_repeats(el->machine);
}

void hvd_elastic_rank_ended(struct hvd_job_policy *policy, const struct hvd_rank_exit *exited)
{
	struct elastic *el = elastic_of(policy);

	if (el->restart && exited->status != 0 && !exited->told)
		note_failure(el);
	hvd_event_queue_add(el->events, HVD_EVENT_EXITED, exited->id, exited->status);
}

/* If the machine had it ended, and it reports no error, it has not failed; it may have failed by itself before that. */
static void on_ended(uint32_t host, const struct hvd_rank_end *end, void *arg)
{
	struct elastic *el = elastic_of(((struct hvd_job *)arg)->policy);
	const struct hvd_worker *w = hvd_machine_worker(el->machine, end->rank);
	struct hvd_rank_end known = *end; /* the caller keeps its texts */

	if (!w)
		return;
	known.rank = (uint32_t)w->rank;
	known.local_rank = (uint32_t)w->slot;
	if (w->state == HVD_WORKER_ENDING && !end->error)
		known.cause = HVD_END_WITH_ALL;
	hvd_job_rank_ended(el->policy.job, &known, end->rank, hvd_machine_host(el->machine, host),
			   w->state == HVD_WORKER_ENDING);
}

static void on_unkillable(uint32_t host, uint32_t worker, uint32_t rank, const struct hvd_unkillable *what, void *arg)
{
	struct elastic *el = elastic_of(((struct hvd_job *)arg)->policy);

	hvd_job_watch_unkillable(el->policy.job->watch, what, (int)rank, hvd_machine_host(el->machine, host));
	hvd_event_queue_add(el->events, HVD_EVENT_UNKILLABLE, worker, 0);
}

static bool on_checked(uint32_t host, const char *bad, void *arg)
{
	struct elastic *el = elastic_of(((struct hvd_job *)arg)->policy);
	const char *name = hvd_machine_host(el->machine, host);

	if (!bad) {
		hvd_verbose(el->log, "%s was checked again, and is good", name);
		hvd_event_queue_add(el->events, HVD_EVENT_CHECKED, host, 0);
		return false;
	}
	if (hvd_machine_needs(el->machine, host, hvd_now())) {
		hvd_warn(el->log, "%s: %s; the host is used all the same, because the job needs it", name, bad);
		hvd_event_queue_add(el->events, HVD_EVENT_CHECKED, host, 0);
		return false;
	}
	if (hvd_machine_checking(el->machine, host) || !hvd_machine_has_rank(el->machine, host))
		return true;
	hvd_warn(el->log, "%s: its ranks have been started before its check was over: %s", name, bad);
	return false;
}

static void on_notified(uint32_t worker, const char *why, void *arg)
{
	struct elastic *el = elastic_of(((struct hvd_job *)arg)->policy);

	if (*why)
		hvd_verbose(el->log, "rank 0 could not be told that hosts have changed: %s", why);
	hvd_event_queue_add(el->events, HVD_EVENT_NOTIFIED, worker, *why == '\0');
}

static void on_connections_killed(uint32_t host, int broken, const char *why, void *arg)
{
	struct elastic *el = elastic_of(((struct hvd_job *)arg)->policy);

	hvd_verbose(el->log, "%s: %d connections of its ranks broken%s%s", hvd_machine_host(el->machine, host), broken,
		    *why ? ": " : "", why);
	if (*why)
		hvd_event_queue_add(el->events, HVD_EVENT_KILL_FAILED, 0, 0);
}

static void on_done(uint32_t host, bool munge, bool told, void *arg)
{
	if (told && !munge)
		hvd_stuck_procs_without_munge(&elastic_of(((struct hvd_job *)arg)->policy)->stuck, host);
}

static void on_init_failed(const struct hvd_err *why, void *arg)
{
	hvd_agent_registry_fail(((struct hvd_job *)arg)->agents, why);
}

const struct hvd_agent_registry_ops hvd_elastic_agent_registry_ops = {
	.registered = hvd_job_host_registered,
	.admitted = on_admitted,
	.gone = on_gone,
	.left = on_left,
	.done = on_done,
	.checked = on_checked,
	.failed = hvd_job_start_failed,
	.told_to_end = hvd_job_terminated,
};

const struct hvd_world_ops hvd_elastic_world_ops = {
	.opened = on_opened,
	.ended = on_ended,
	.unkillable = on_unkillable,
	.output_lost = hvd_job_output_lost,
	.notified = on_notified,
	.connections_killed = on_connections_killed,
	.stalled = hvd_job_stalled,
	.init_failed = on_init_failed,
};
