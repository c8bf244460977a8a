/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The process ends with the ranks. Under the plugin: when the tasks have ended, slurmstepd has reported them, and the
 * driver knows their ends. This takes some milliseconds, or HVD_STEP_SEEN_MS if one of them does not answer. With
 * shims: when the last of them has ended; or, if slurmstepd ends first, when they have ended since. (An MPI or jsrun
 * may start each shim by a process of its own, so the end of such a process means nothing.) Before the plan: when
 * nobody waits for the plan any longer.
 */
#include "observing_agent_internal.h"

#include "last_report.h"
#include "lib/base/timer.h"
#include "lib/process/rlimits.h"
#include "lib/protocol/step_event.h"
#include "lib/protocol/step_plans.h"
#include "ports.h"
#include "rank_env.h"

#include <malloc.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* How long shims may take to end when what has started them has ended, and after a refused start. */
#define ORPHANS_SECONDS 10
#define REFUSED_SECONDS 2

/* Those that Slurm sends to all processes of a step that is to end. */
static const int ends[HVD_HOST_SIGNALS] = {SIGTERM, SIGINT, SIGHUP};

static void end_soon(struct host *host, double seconds)
{
	hvd_timer_at(host->late, hvd_deadline_in(seconds));
}

static void on_signal(int sig, void *arg)
{
	struct host *host = arg;

	if (sig == SIGTERM && host->agent)
		hvd_driver_client_send(host->agent, json_pack("{s:s}", "t", "term"));
	if (host->ranks)
		hvd_observed_ranks_signalled(host->ranks);
}

/* ---- shims ---- */

static void on_none_left(void *arg)
{
	struct host *host = arg;

	if (hvd_host_has_shims(host) || !host->planned)
		event_base_loopbreak(host->base);
}

/* ---- the relay ---- */

static bool begin_relay(struct host *host, const json_t *plan, struct hvd_err *err)
{
	struct hvd_relay_opts opts = {.sockets = &host->sockets,
				      .plan = json_object_get(plan, "relay"),
				      .boot = host->opts->boot,
				      .info = host->opts->info,
				      .agent = host->agent};

	if (opts.plan)
		host->relay = hvd_relay_create(host->base, &opts, &host->detached->log, err);
	hvd_relay_sockets_close(&host->sockets);
	return !opts.plan || host->relay;
}

/* ---- the driver ---- */

static void on_drained(void *arg)
{
	hvd_host_ranks_delivered(arg);
}

static void on_failed(const struct hvd_err *why, void *arg)
{
	struct host *host = arg;

	if (host->planned) {
		hvd_debug(&host->detached->log, "%s: lost the driver: %s", host->opts->info->name, why->msg);
		host->unreachable = true;
		hvd_relay_lost(host->relay, why);
		hvd_host_ranks_delivered(host);
		if (host->opts->kind == HVD_OBSERVING_AGENT_JSRUN)
			hvd_shims_tell(host->shims, HVD_STEP_END, 0);
		return;
	}
	hvd_driver_client_log_failure(&host->detached->log, host->opts->info, why);
	hvd_shims_refuse(host->shims, hvd_err_status(why));
	end_soon(host, REFUSED_SECONDS);
}

static void on_plan(const json_t *plan, void *arg)
{
	struct host *host = arg;
	struct hvd_err why = {0};

	hvd_host_ranks_begin(host);
	if (!begin_relay(host, plan, &why) ||
	    hvd_rank_key_take(plan, hvd_driver_client_key(host->agent), &host->key_fd, &why) != 0 ||
	    hvd_host_answer(host, plan, &why) != 0) {
		on_failed(&why, host);
		return;
	}
	host->planned = true;
	hvd_detached_detach(host->detached);
	host->detached->task = hvd_shims_first(host->shims);
	malloc_trim(0);
}

/* This host has no ranks. */
static void on_spare(void *arg)
{
	struct host *host = arg;
	struct hvd_err why = {0};

	if (hvd_host_answer(host, NULL, &why) != 0)
		on_failed(&why, host);
	end_soon(host, REFUSED_SECONDS);
}

static void on_message(json_t *msg, void *arg)
{
	struct host *host = arg;
	const char *type;
	int64_t sig;

	if (hvd_rank_watch_message(host->watch, msg) || hvd_get_str(msg, "t", 16, &type, NULL) != 0)
		return;
	if (strcmp(type, "ping") == 0)
		hvd_driver_client_send(host->agent, json_pack("{s:s}", "t", "pong"));
	else if (strcmp(type, "signal") == 0 && hvd_get_int(msg, "sig", 1, 64, &sig, NULL) == 0)
		hvd_shims_tell(host->shims, HVD_STEP_SIGNAL, (int)sig);
	else if (strcmp(type, "relay") == 0)
		hvd_relay_again(host->relay);
	else if (strcmp(type, "owner") == 0)
		hvd_relay_owner(host->relay, msg);
	else if (strcmp(type, "end") == 0 && host->opts->kind == HVD_OBSERVING_AGENT_JSRUN)
		hvd_shims_tell(host->shims, HVD_STEP_END, 0);
}

static void on_bytes(const void *data, size_t len, void *arg)
{
	hvd_relay_bytes(((struct host *)arg)->relay, data, len);
}

static void on_answer(json_t *msg, void *arg)
{
	hvd_driver_client_send(((struct host *)arg)->agent, msg);
}

/* ---- life ---- */

static void on_late(void *arg)
{
	const struct host *host = arg;

	if (host->opts->kind < HVD_OBSERVING_AGENT_MPI || !host->planned || hvd_shims_connected(host->shims) == 0)
		event_base_loopbreak(host->base);
}

/* The tasks have ended, or what has started the shims. */
static void on_starter_gone(void *arg)
{
	struct host *host = arg;

	if (!hvd_host_has_shims(host) && host->planned && hvd_detached_orphaned(host->detached) &&
	    hvd_step_tasks_first(&host->detached->tasks)) {
		/* srun would wait for these tasks for ever, and nobody else ends them. */
		hvd_host_tell_orphaned(host);
		host->done = true;
		hvd_detached_kill_tasks(host->detached);
	}
	if (!hvd_host_has_shims(host)) {
		if (host->ranks && hvd_observed_ranks_left(host->ranks))
			end_soon(host, HVD_STEP_SEEN_MS / 1e3);
		else
			event_base_loopbreak(host->base);
		return;
	}
	if (hvd_shims_connected(host->shims) > 0)
		hvd_host_tell_orphaned(host);
	end_soon(host, ORPHANS_SECONDS);
	hvd_shims_expect_none(host->shims);
}

static void begin_agent(struct host *host)
{
	static const struct hvd_driver_client_ops ops = {.plan = on_plan,
							 .spare = on_spare,
							 .message = on_message,
							 .failed = on_failed,
							 .drained = on_drained,
							 .bytes = on_bytes};
	const struct hvd_observing_agent_opts *opts = host->opts;
	const struct hvd_log *log = &host->detached->log;
	struct hvd_err why = {0};

	host->agent =
		hvd_driver_client_create(host->base, opts->boot, host->session, opts->info, &ops, host, log, &why);
	if (!host->agent) {
		on_failed(&why, host);
		return;
	}
	hvd_ports_reserve(host->agent, opts->boot, opts->info, &host->reserved, log);
	hvd_relay_offer(host->agent, opts->boot, opts->info, &host->sockets);
}

static void begin_shims(struct host *host)
{
	static const struct hvd_shims_ops ops = {hvd_host_shim_event, hvd_host_shim_left, on_none_left};
	const struct hvd_observing_agent_opts *opts = host->opts;

	host->shims = hvd_shims_create(host->base, hvd_host_has_shims(host) ? opts->info->local_size : 1,
				       hvd_host_has_shims(host) ? opts->socket : -1, &ops, host);
	if (!hvd_host_has_shims(host))
		hvd_shims_add(host->shims, opts->socket);
}

static void begin_signals(struct host *host)
{
	for (size_t i = 0; i < HVD_HOST_SIGNALS; i++) {
		host->signals[i] = hvd_signal_watch(host->base, ends[i], on_signal, host);
	}
}

static void end(struct host *host)
{
	if (host->agent)
		hvd_host_done(host);
	hvd_relay_destroy(host->relay);
	hvd_relay_sockets_close(&host->sockets);
	hvd_observed_ranks_destroy(host->ranks);
	hvd_rank_watch_destroy(host->watch);
	for (size_t i = 0; i < HVD_HOST_SIGNALS; i++)
		hvd_signal_unwatch(host->signals[i]);
	if (host->events)
		event_free(host->events);
	hvd_timer_free(host->late);
	hvd_shims_leave_last(host->shims);
	hvd_shims_destroy(host->shims);
	hvd_driver_client_destroy(host->agent);
	event_base_dispatch(host->base); /* until the last messages are out */
	hvd_reserve_clear(&host->reserved);
}

struct start {
	const struct hvd_observing_agent_opts *opts;
	struct hvd_session *session;
	int spare;
	char parent[HVD_COMMAND_PARENT];
	char purpose[300];
};

static void run(struct hvd_detached *self, void *arg)
{
	const struct start *start = arg;
	struct host host = {.opts = start->opts,
			    .session = start->session,
			    .detached = self,
			    .base = event_base_new(),
			    .spare = start->spare,
			    .tasks = start->opts->info->local_size};

	if (!host.base)
		return;
	snprintf(host.parent, sizeof(host.parent), "%s", start->parent);
	host.late = hvd_timer_new(host.base, on_late, &host);
	host.watch = hvd_rank_watch_create(host.base, on_answer, &host, &self->log);
	begin_signals(&host);
	begin_shims(&host);
	begin_agent(&host);
	hvd_detached_watch(self, host.base, on_starter_gone, &host);
	event_base_dispatch(host.base);
	hvd_detached_unwatch(self);
	end(&host);
}

/* In the watchdog: the process has ended before the ranks. If it has ended by itself, it has logged why. */
static void on_lost(pid_t pid, int status, int spare, struct hvd_step_tasks *tasks, void *arg)
{
	const struct start *start = arg;

	if (status != 0)
		hvd_last_report_death(start->opts->boot, start->session, start->opts->info, pid, status);
	if (spare && (status != 0 || start->opts->events))
		hvd_observed_ranks_pass_on(spare, tasks);
}

/* For ps(1). */
static const char *const launchers[] = {[HVD_OBSERVING_AGENT_PLUGIN] = "srun --hvd",
					[HVD_OBSERVING_AGENT_SRUN] = "hvdrun, srun",
					[HVD_OBSERVING_AGENT_MPI] = "hvdrun, mpirun",
					[HVD_OBSERVING_AGENT_JSRUN] = "hvdrun, jsrun"};

pid_t hvd_observing_agent_start(const struct hvd_observing_agent_opts *opts, struct hvd_err *err)
{
	struct hvd_session session = {0};
	bool plugin = opts->kind == HVD_OBSERVING_AGENT_PLUGIN;
	struct start start = {.opts = opts, .session = &session};
	int pair[2] = {0, 0},
	    keep[] = {opts->socket, plugin && opts->events ? HVD_STEP_EVENTS_FD : 0,
		      plugin && opts->events ? HVD_STEP_SEEN_FD : 0, 0, plugin ? HVD_STEP_PLANS_FD : 0};
	struct hvd_detached_opts detached = {.name = "hvd-agent",
					     .purpose = start.purpose,
					     .keep = keep,
					     .n_keep = sizeof(keep) / sizeof(keep[0]),
					     .spare = plugin && opts->events ? HVD_STEP_SPARE_FD : 0,
					     .log = opts->log,
					     .run = run,
					     .arg = &start,
					     .lost = on_lost};
	pid_t pid = -1;

	hvd_raise_nofile();
	snprintf(start.purpose, sizeof(start.purpose), "agent of %s (%s)", opts->info->name, launchers[opts->kind]);
	hvd_child_parent(start.parent);
	if (plugin || opts->kind == HVD_OBSERVING_AGENT_SRUN)
		hvd_step_tasks_init(&detached.tasks, opts->task);
	if (!plugin && hvd_step_events_pair(pair) == 0) {
		start.spare = keep[3] = pair[0];
		detached.spare = pair[1];
	}
	if (hvd_driver_client_session(opts->boot, &session, err) == 0)
		pid = hvd_detached_start(&detached, err);
	close(opts->socket);
	for (int i = 0; i < 2 && pair[0]; i++)
		close(pair[i]);
	for (int fd = HVD_STEP_EVENTS_FD; plugin && opts->events && fd <= HVD_STEP_SEEN_FD; fd++)
		close(fd);
	return pid;
}
