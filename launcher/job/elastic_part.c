/* SPDX-License-Identifier: Apache-2.0 */
/*
 * elastic_part.c - the part of an elastic job that one world has: its state machine, with what its ranks tell at the
 * rendezvous, and what node agents report of them.
 */
#include "elastic_internal.h"

#include "lib/base/xalloc.h"

#include <stdlib.h>

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
/* How long a new worker may wait at the rendezvous for the others: as good as for ever, for it is ended if they do not
 * come. */
#define RANK_WAIT_SECONDS (30 * 86400.0)

/* ---- what the ranks tell at the rendezvous ---- */

static void on_connected(void *arg)
{
	struct elastic_part *part = arg;

	hvd_world_init(part->world, true);
	hvd_event_queue_add(part->events, HVD_EVENT_CONNECTED, 0, 0);
}

static void on_arrived(uint32_t worker, void *arg)
{
	struct elastic_part *part = arg;

	hvd_world_init(part->world, false);
	hvd_event_queue_add(part->events, HVD_EVENT_ARRIVED, worker, 0);
}

static void on_ready(uint32_t worker, void *arg)
{
	hvd_event_queue_add(((struct elastic_part *)arg)->events, HVD_EVENT_READY, worker, 0);
}

static void on_notify(const struct hvd_worker *w, const char *to, int64_t when, void *arg)
{
	hvd_world_notify(((struct elastic_part *)arg)->world, w->host, w->id, to, when);
}

/* ---- what agents report ---- */

static int on_opened(struct hvd_rv *rv, void *arg, struct hvd_err *err)
{
	struct elastic_part *part = arg;

	/* A function is run by the ranks of the first world. */
	if (part->number == 0 && hvd_job_serve_func(rv, part->el->policy.job, err) != 0)
		return -1;
	if (part->restart)
		return 0;
	/* New workers wait for the members of the last generation, who come after their current batch. */
	hvd_rv_set_rank_wait(rv, RANK_WAIT_SECONDS);
	hvd_elastic_rv_open(part->erv, rv);
	hvd_gloo_peers_watch(part->peers, rv);
	return 0;
}

/* The first rank of a generation that was not told to end has failed. With restarts: what has the generation achieved? */
static void note_failure(struct elastic_part *part)
{
	if (part->failed_generation == hvd_machine_generation(part->machine))
		return;
	part->failed_generation = hvd_machine_generation(part->machine);
	if (hvd_progress_file_changed(&part->progress))
		hvd_machine_progress(part->machine);
	if (hvd_restart_history_repeats(&part->history))
		hvd_machine_repeats(part->machine);
}

void hvd_elastic_rank_ended(struct hvd_job_policy *policy, const struct hvd_rank_exit *exited)
{
	struct elastic_part *part = elastic_of(policy)->parts[exited->world];

	if (part->restart && exited->status != 0 && !exited->told)
		note_failure(part);
	hvd_event_queue_add(part->events, HVD_EVENT_EXITED, exited->id, exited->status);
}

/* If the machine had it ended, and it reports no error, it has not failed; it may have failed by itself before that. */
static void on_ended(uint32_t host, const struct hvd_rank_end *end, void *arg)
{
	struct elastic_part *part = arg;
	const struct hvd_worker *w = hvd_machine_worker(part->machine, end->rank);
	struct hvd_rank_end known = *end; /* the caller keeps its texts */

	if (!w)
		return;
	known.rank = (uint32_t)w->rank;
	known.local_rank = (uint32_t)w->slot;
	if (w->state == HVD_WORKER_ENDING && !end->error)
		known.cause = HVD_END_WITH_ALL;
	hvd_job_rank_ended(part->el->policy.job, part->number, &known, end->rank, hvd_machine_host(part->machine, host),
			   w->state == HVD_WORKER_ENDING);
}

static void on_unkillable(uint32_t host, uint32_t worker, uint32_t rank, const struct hvd_unkillable *what, void *arg)
{
	struct elastic_part *part = arg;

	hvd_job_watch_unkillable(part->el->policy.job->watch, what, part->opts->role, (int)rank,
				 hvd_machine_host(part->machine, host));
	hvd_event_queue_add(part->events, HVD_EVENT_UNKILLABLE, worker, 0);
}

static void on_notified(uint32_t worker, const char *why, void *arg)
{
	struct elastic_part *part = arg;

	if (*why)
		hvd_verbose(part->log, "rank 0 could not be told that hosts have changed: %s", why);
	hvd_event_queue_add(part->events, HVD_EVENT_NOTIFIED, worker, *why == '\0');
}

static void on_connections_killed(uint32_t host, int broken, const char *why, void *arg)
{
	struct elastic_part *part = arg;

	hvd_verbose(part->log, "%s: %d connections of its ranks broken%s%s", hvd_machine_host(part->machine, host),
		    broken, *why ? ": " : "", why);
	if (*why)
		hvd_event_queue_add(part->events, HVD_EVENT_KILL_FAILED, 0, 0);
}

static void on_output_lost(void *arg)
{
	hvd_job_output_lost(((struct elastic_part *)arg)->el->policy.job);
}

static void on_stalled(const struct hvd_stall *stall, void *arg)
{
	const struct elastic_part *part = arg;

	hvd_job_stalled(part->el->policy.job, part->number, stall);
}

static void on_all_ready(void *arg)
{
	struct elastic_part *part = arg;

	if (part->el->roles)
		hvd_elastic_roles_ready(part);
}

static void on_late(const struct hvd_err *why, void *arg)
{
	hvd_machine_fail(((struct elastic_part *)arg)->machine, why, hvd_err_status(why));
}

static void on_init_failed(const struct hvd_err *why, void *arg)
{
	const struct elastic_part *part = arg;
	const struct hvd_err named = hvd_elastic_named(part, why);

	if (part->ends_all)
		hvd_agent_registry_fail(part->el->policy.job->agents, &named);
	else
		hvd_machine_fail(part->machine, why, hvd_err_status(why));
}

/* ---- life ---- */

static struct hvd_machine_opts machine_opts(const struct elastic *el, const struct hvd_driver_opts *opts)
{
	const struct hvd_launch_spec *spec = opts->spec;
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
		.max_restarts = el->launcher->launch->roles && !spec->max_restarts ? -1 : spec->max_restarts,
		.max_idle = spec->max_idle_restarts,
		.progress_after = spec->progress_file ? -1 : spec->restart_window,
		.grace = opts->kill_wait,
		.elastic_timeout = timeout,
		.patience = timeout > PATIENCE_SECONDS ? timeout : PATIENCE_SECONDS,
		.cooldown_min = spec->elastic.cooldown_min,
		.cooldown_max = spec->elastic.cooldown_max,
		.silent_grace = silent > 0 ? silent : SILENT_SECONDS,
		.kill_grace = silent > 0 ? silent : KILL_SECONDS,
		.check_wait = spec->preflight ? CHECK_SECONDS : 0,
		.settle = SETTLE_SECONDS,
		.held = el->launcher->launch->roles != NULL,
	};
}

void hvd_elastic_part_create(struct elastic *el, struct hvd_driver_opts *opts, bool ends_all)
{
	static const struct hvd_elastic_rv_ops erv_ops = {on_arrived, on_connected, on_ready, on_notify};
	struct elastic_part *part = hvd_xcalloc(1, sizeof(*part));
	const struct hvd_machine_opts machine = machine_opts(el, opts);

	*part = (struct elastic_part){.el = el,
				      .number = el->n_parts,
				      .opts = opts,
				      .log = &part->own_log,
				      .own_log = *el->log,
				      .restart = machine.restart,
				      .ends_all = ends_all,
				      .progress = {.pattern = opts->spec->progress_file}};
	part->own_log.of = opts->role;
	el->parts[el->n_parts++] = part;
	hvd_restart_history_init(&part->history, part->restart ? opts->events : NULL, part->number,
				 el->launcher->result->began);
	hvd_progress_file_changed(&part->progress);
	if (!part->restart)
		hvd_strv_add(&opts->extra_env, "HOROVOD_ELASTIC=1");
	part->machine = hvd_machine_create(&machine, hvd_now(), &hvd_elastic_machine_ops, part, part->log);
	hvd_stuck_procs_add(&el->stuck, part->machine);
	part->events = hvd_event_queue_create(el->launcher->base, part->machine);
	part->peers = hvd_gloo_peers_create();
	part->erv = hvd_elastic_rv_create(part->machine, &erv_ops, part, part->log);
}

int hvd_elastic_part_open(struct elastic_part *part, struct hvd_err *err)
{
	static const struct hvd_world_ops ops = {.opened = on_opened,
						 .ended = on_ended,
						 .unkillable = on_unkillable,
						 .output_lost = on_output_lost,
						 .notified = on_notified,
						 .connections_killed = on_connections_killed,
						 .stalled = on_stalled,
						 .ready = {on_all_ready, on_late},
						 .init_failed = on_init_failed};

	part->world = hvd_job_add_world(part->el->policy.job, part->opts, &ops, part, err);
	if (!part->world)
		return -1;
	part->silent = hvd_unresponsive_ranks_create(part->world, part->log);
	return 0;
}

void hvd_elastic_part_destroy(struct elastic_part *part)
{
	hvd_restart_history_clear(&part->history);
	hvd_elastic_rv_destroy(part->erv);
	hvd_unresponsive_ranks_destroy(part->silent);
	hvd_gloo_peers_destroy(part->peers);
	hvd_event_queue_destroy(part->events);
	hvd_machine_destroy(part->machine);
	free(part);
}
