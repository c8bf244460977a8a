/* SPDX-License-Identifier: Apache-2.0 */
/* elastic_agents.c - what node agents of an elastic job report. */
#include "elastic_internal.h"

#include "lib/base/cleanup.h"
#include "lib/base/xalloc.h"
#include "lib/process/spawn.h"

#include <signal.h>

/* How long a new worker may wait at the rendezvous for the others: as good as for ever, for it is ended if they do not
 * come. */
#define RANK_WAIT_SECONDS (30 * 86400.0)

static int on_opened(struct hvd_rv *rv, void *arg, struct hvd_err *err)
{
	struct elastic *el = arg;

	if (el->job.func && hvd_runfunc_serve(el->job.func, rv, &el->job.secret.session.key, err) != 0)
		return -1;
	if (el->restart)
		return 0;
	/* New workers wait for the members of the last generation, who come after their current batch. */
	hvd_rv_set_rank_wait(rv, RANK_WAIT_SECONDS);
	hvd_elastic_rv_open(el->erv, rv);
	hvd_gloo_peers_watch(el->peers, rv);
	return 0;
}

static void on_registered(uint32_t host, void *arg)
{
	hvd_procs_registered(((struct elastic *)arg)->job.procs, host);
}

static void on_admitted(uint32_t host, void *arg)
{
	struct elastic *el = arg;

	hvd_verbose(el->job.log, "%s can be used", hvd_machine_host(el->machine, host));
	hvd_requeue_allow(&el->job.result->requeue, hvd_machine_host(el->machine, host));
	hvd_machine_network(el->machine, host, hvd_agent_registry_switch_path(el->agents, host),
			    hvd_agent_registry_rate(el->agents, host));
	hvd_event_queue_add(el->events, HVD_EVENT_HOST_HERE, host, 0);
}

static void on_gone(uint32_t host, const struct hvd_err *why, bool unfit, void *arg)
{
	struct elastic *el = arg;
	struct hvd_loss loss = {.of = HVD_LOSS_HOST,
				.host = hvd_machine_host(el->machine, host),
				.status = -1,
				.at = hvd_now() - hvd_agent_registry_silent_ms(el->agents) * INT64_C(1000000)};

	if (hvd_procs_ending(el->job.procs))
		return; /* it was told to leave */
	hvd_warn(el->job.log, "%s is left out: %s", hvd_machine_host(el->machine, host), why->msg);
	if (*why->hint)
		hvd_info(el->job.log, "%s", why->hint);
	if (hvd_machine_has_rank(el->machine, host)) {
		hvd_failure_report_lost(hvd_failures_now(&el->failures), &loss);
		hvd_event(el->job.opts->events, GENERATION_ENDING, .host = hvd_machine_host(el->machine, host),
			  .why = why->msg);
	}
	/* The end of a connection may be that of the agent alone, or of the job. */
	if (why->code != HVD_E_NET)
		hvd_elastic_host_bad(host, why->msg, el);
	hvd_job_watch_ask(el->watch);
	hvd_discovery_nudge(el->discovery);
	hvd_procs_release(el->job.procs, host, true);
	hvd_event_queue_add(el->events, unfit ? HVD_EVENT_HOST_UNFIT : HVD_EVENT_HOST_LOST, host, 0);
}

static void on_left(uint32_t host, bool lost, void *arg)
{
	struct elastic *el = arg;

	if (lost)
		hvd_stuck_procs_lost(&el->stuck, host);
	hvd_procs_agent_left(el->job.procs, host);
}

/* The caller of a function wants to know which of its ranks have failed by themselves. */
static void tell_func(struct elastic *el, uint32_t worker, const struct hvd_rank_end *end)
{
	const struct hvd_worker *w = hvd_machine_worker(el->machine, worker);

	if (el->job.func && w && end->status != 0 && (w->state != HVD_WORKER_ENDING || end->error))
		hvd_runfunc_failed(el->job.func, (uint32_t)w->rank, hvd_machine_host(el->machine, w->host),
				   end->status);
}

/* The first rank of a generation that was not told to end has failed. With restarts: what has the generation achieved? */
static void note_failure(struct elastic *el, uint32_t worker, const struct hvd_rank_end *end)
{
	const struct hvd_worker *w = hvd_machine_worker(el->machine, worker);
	char text[64];

	if (end->status == 0 || !w || w->state == HVD_WORKER_ENDING ||
	    el->failed_generation == hvd_machine_generation(el->machine))
		return;
	el->failed_generation = hvd_machine_generation(el->machine);
	hvd_status_text(end->status, text, sizeof(text));
	hvd_event(el->job.opts->events, GENERATION_FAILED, .rank = w->rank,
		  .host = hvd_machine_host(el->machine, w->host), .how = text, .error = end->error);
	if (!el->restart)
		return;
	if (hvd_progress_file_changed(&el->progress))
		hvd_machine_progress(el->machine);
	if (hvd_restart_history_repeats(&el->history))
		hvd_machine_repeats(el->machine);
}

static bool is_ending(const struct elastic *el, uint32_t worker)
{
	const struct hvd_worker *w = hvd_machine_worker(el->machine, worker);

	return !w || w->state == HVD_WORKER_ENDING;
}

void hvd_elastic_rank_ended(struct elastic *el, uint32_t worker, int status)
{
	if (el->asking && !is_ending(el, worker)) {
		el->held = hvd_xrealloc(el->held, el->n_held + 1, sizeof(*el->held));
		el->held[el->n_held++] = (struct hvd_held_end){.worker = worker, .status = status};
	} else if (!hvd_draining_exited(&el->leaving, el->machine, status)) {
		hvd_event_queue_add(el->events, HVD_EVENT_EXITED, worker, status);
	}
}

/* If the machine had it ended, and it reports no error, it has not failed; it may have failed by itself before that. */
static void add_failure(struct elastic *el, const struct hvd_worker *w, const struct hvd_rank_end *end)
{
	struct hvd_rank_end known = *end; /* the caller keeps its texts */

	known.rank = (uint32_t)w->rank;
	known.local_rank = (uint32_t)w->slot;
	if (w->state == HVD_WORKER_ENDING && !end->error)
		known.cause = HVD_END_WITH_ALL;
	hvd_failure_report_add(hvd_failures_now(&el->failures), &known, hvd_machine_host(el->machine, w->host));
}

static void on_ended(uint32_t host, const struct hvd_rank_end *end, void *arg)
{
	struct elastic *el = arg;
	const uint32_t worker = end->rank;
	const struct hvd_worker *w = hvd_machine_worker(el->machine, worker);

	if (w) {
		hvd_event_log_rank_ended(el->job.opts->events, end, w->rank, hvd_machine_host(el->machine, host));
		add_failure(el, w, end);
	}
	tell_func(el, worker, end);
	note_failure(el, worker, end);
	if (hvd_status_exit(end->status) == 128 + SIGTERM && !is_ending(el, worker) && !el->asking &&
	    !hvd_requeue_leaving(&el->job.result->requeue))
		hvd_elastic_terminated(el);
	hvd_elastic_rank_ended(el, worker, end->status);
}

static void on_unkillable(uint32_t host, uint32_t worker, uint32_t rank, const struct hvd_unkillable *what, void *arg)
{
	struct elastic *el = arg;

	hvd_job_watch_unkillable(el->watch, what, (int)rank, hvd_machine_host(el->machine, host));
	hvd_event_queue_add(el->events, HVD_EVENT_UNKILLABLE, worker, 0);
}

static bool on_checked(uint32_t host, const char *bad, void *arg)
{
	struct elastic *el = arg;
	const char *name = hvd_machine_host(el->machine, host);

	if (!bad) {
		hvd_verbose(el->job.log, "%s was checked again, and is good", name);
		hvd_event_queue_add(el->events, HVD_EVENT_CHECKED, host, 0);
		return false;
	}
	if (hvd_machine_needs(el->machine, host, hvd_now())) {
		hvd_warn(el->job.log, "%s: %s; the host is used all the same, because the job needs it", name, bad);
		hvd_event_queue_add(el->events, HVD_EVENT_CHECKED, host, 0);
		return false;
	}
	if (hvd_machine_checking(el->machine, host) || !hvd_machine_has_rank(el->machine, host))
		return true;
	hvd_warn(el->job.log, "%s: its ranks have been started before its check was over: %s", name, bad);
	return false;
}

static void on_stalled(const struct hvd_stall *stall, void *arg)
{
	hvd_job_watch_stalled(((struct elastic *)arg)->watch, stall);
}

static void on_notified(uint32_t worker, const char *why, void *arg)
{
	struct elastic *el = arg;

	if (*why)
		hvd_verbose(el->job.log, "rank 0 could not be told that hosts have changed: %s", why);
	hvd_event_queue_add(el->events, HVD_EVENT_NOTIFIED, worker, *why == '\0');
}

static void on_connections_killed(uint32_t host, int broken, const char *why, void *arg)
{
	struct elastic *el = arg;

	hvd_verbose(el->job.log, "%s: %d connections of its ranks broken%s%s", hvd_machine_host(el->machine, host),
		    broken, *why ? ": " : "", why);
	if (*why)
		hvd_event_queue_add(el->events, HVD_EVENT_KILL_FAILED, 0, 0);
}

/* The user was told why. */
static void on_output_lost(void *arg)
{
	((struct elastic *)arg)->output_lost = true;
}

static void on_done(uint32_t host, bool munge, bool told, void *arg)
{
	if (told && !munge)
		hvd_stuck_procs_without_munge(&((struct elastic *)arg)->stuck, host);
}

const struct hvd_agent_registry_ops hvd_elastic_agent_registry_ops = {
	.registered = on_registered,
	.admitted = on_admitted,
	.gone = on_gone,
	.left = on_left,
	.done = on_done,
	.checked = on_checked,
	.failed = hvd_elastic_failed,
	.told_to_end = hvd_elastic_terminated,
};

const struct hvd_world_ops hvd_elastic_world_ops = {
	.opened = on_opened,
	.ranks = {.ended = on_ended, .unkillable = on_unkillable, .output_lost = on_output_lost},
	.notified = on_notified,
	.connections_killed = on_connections_killed,
	.stalled = on_stalled,
};
