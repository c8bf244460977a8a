/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The process ends with the ranks. Without shims: when the tasks have ended, slurmstepd has reported them, and the
 * driver knows their ends. This takes some milliseconds, or HVD_STEP_SEEN_MS if one of them does not answer. With
 * shims: when the last of them has ended; or, if slurmstepd ends first, when they have ended since. (An MPI or jsrun
 * may start each shim by a process of its own, so the end of such a process means nothing.) Before the plan: when
 * nobody waits for the plan any longer.
 */
#include "observed_internal.h"

#include "last_report.h"
#include "lib/process/rlimits.h"
#include "lib/protocol/step_plans.h"
#include "rank_env.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* How long shims may take to end when what has started them has ended, and after a refused start. */
#define ORPHANS_SECONDS 10
#define REFUSED_SECONDS 2
/* How long after the last shim of an MPI or of jsrun another one may come. */
#define ANOTHER_SECONDS 2
/* Events in a turn of the event loop. */
#define TURN_EVENTS 64

const struct hvd_rank_starter hvd_starter_plugin = {.name = "srun --hvd", .step = true},
			      hvd_starter_srun = {.name = "hvdrun, srun", .shims = true, .step = true},
			      hvd_starter_mpi = {.name = "hvdrun, mpirun", .shims = true},
			      hvd_starter_jsrun = {.name = "hvdrun, jsrun", .shims = true, .shims_end = true};

static void end_soon(struct observed *observed, double seconds)
{
	hvd_timer_at(observed->late, hvd_deadline_in(seconds));
}

/* ---- events ---- */

static bool all_ended(const struct observed *observed)
{
	return observed->ended == observed->agent.info->local_size;
}

/* The driver asks for munged, without which slurmstepd cannot tell srun that ranks have ended. */
static void report_done(struct observed *observed)
{
	hvd_agent_done(&observed->agent, observed->starter->step && observed->starter->shims);
}

static void count_end(struct observed *observed)
{
	observed->ended++;
	if (all_ended(observed) && !observed->agent.unreachable)
		report_done(observed);
}

static bool on_over(void *arg)
{
	return hvd_detached_tasks_over(((struct observed *)arg)->detached);
}

static bool on_ended(const struct hvd_rank_end *end, void *arg)
{
	struct observed *observed = arg;
	struct hvd_agent *agent = &observed->agent;

	hvd_agent_rank_ended(agent, 0, (int)end->rank, end);
	count_end(observed);
	return agent->unreachable || !hvd_driver_client_sending(agent->driver);
}

/* slurmstepd goes on when it learns of the last end. It then kills the rest of the step, and if it tracks by control
 * groups it sleeps for a second before it looks again. So it learns of the last end by the end of this process, which
 * closes the socket of the events. */
static void on_seen(uint32_t local_id, void *arg)
{
	struct observed *observed = arg;

	if (observed->starter->shims)
		hvd_shims_seen(observed->shims, local_id);
	else if (all_ended(observed))
		hvd_agent_quit(&observed->agent);
	else
		eventfd_write(HVD_STEP_SEEN_FD, 1);
}

/* slurmstepd's events. */
static void on_events(evutil_socket_t fd, short what, void *arg)
{
	struct observed *observed = arg;
	struct hvd_step_event event;
	int fds[2], rc = 1;

	(void)what;
	for (int i = 0; rc > 0 && i < TURN_EVENTS; i++) {
		rc = hvd_step_event_take(fd, &event, fds);
		if (rc > 0)
			hvd_observed_ranks_event(observed->ranks, &event, fds);
	}
	if (rc >= 0)
		return;
	event_del(observed->events);
	hvd_observed_ranks_no_more_events(observed->ranks);
	if (hvd_timer_runs(observed->late))
		hvd_agent_quit(&observed->agent);
}

/* ---- shims ---- */

/* Without slurmstepd output of the ranks gets lost, and srun waits for ever. */
static void report_orphans(struct observed *observed)
{
	if (observed->agent.planned && observed->detached->tasks.orphaned)
		hvd_agent_orphaned(&observed->agent, observed->parent);
}

/* The ranks of a slurmstepd that was killed end with it, perhaps before this process notices that it has ended. Their
 * ends must not look like the cause, so look for slurmstepd before they are reported. */
static void look_for_starter(struct observed *observed)
{
	if (hvd_detached_tasks_over(observed->detached))
		report_orphans(observed);
}

static void delivered(void *arg)
{
	struct observed *observed = arg;

	if (observed->ranks)
		hvd_observed_ranks_delivered(observed->ranks);
	if (observed->output_lost)
		hvd_shims_tell(observed->shims, HVD_STEP_SEEN, 0);
	observed->output_lost = false;
}

static void on_output_lost(struct observed *observed)
{
	struct hvd_driver_client *driver = observed->agent.driver;

	hvd_driver_client_send(driver, json_pack("{s:s}", "t", "output-lost"));
	observed->output_lost = true;
	if (!hvd_driver_client_sending(driver))
		delivered(observed);
}

/* The watchdog gets a copy of what it would need, first. */
static void on_shim_event(const struct hvd_step_event *event, int fds[2], void *arg)
{
	struct observed *observed = arg;

	if (event->kind == HVD_STEP_OUTPUT_LOST)
		on_output_lost(observed);
	if (event->kind == HVD_STEP_OUTPUT_LOST || !observed->ranks) {
		hvd_step_event_close(fds);
		return;
	}
	if (event->kind == HVD_STEP_EXIT || event->kind == HVD_STEP_EXIT_WITH_ALL)
		look_for_starter(observed);
	if (observed->backup_fd && event->kind == HVD_STEP_TASK && fds[0] >= 0)
		hvd_step_event_send(observed->backup_fd, event, fds);
	hvd_observed_ranks_event(observed->ranks, event, fds);
}

static void on_shim_left(uint32_t local_id, void *arg)
{
	struct observed *observed = arg;
	uint32_t rank;

	observed->detached->task = hvd_shims_first(observed->shims);
	/* It may have failed before it asked: nothing else tells that no other will come. */
	if (observed->agent.planned && !observed->starter->step && hvd_shims_connected(observed->shims) == 0)
		end_soon(observed, ANOTHER_SECONDS);
	if (!observed->ranks || !observed->starter->shims || !hvd_observed_ranks_lose(observed->ranks, local_id, &rank))
		return;
	look_for_starter(observed);
	hvd_agent_rank_lost(&observed->agent, (struct hvd_world_rank){0, rank});
	count_end(observed);
}

static void on_no_shim_left(void *arg)
{
	struct observed *observed = arg;

	if (observed->starter->shims || !observed->agent.planned)
		hvd_agent_quit(&observed->agent);
}

/* ---- what the driver says ---- */

static void observe(struct observed *observed)
{
	const bool shims = observed->starter->shims;
	struct hvd_observed_ranks_opts opts = {
		.agent = &observed->agent, .over = shims ? NULL : on_over, .ended = on_ended, .seen = on_seen};

	if (!shims && !observed->opts->events)
		return;
	observed->ranks = hvd_observed_ranks_create(&opts);
	if (shims)
		return;
	observed->events =
		hvd_event_watch(observed->agent.base, HVD_STEP_EVENTS_FD, EV_READ | EV_PERSIST, on_events, observed);
}

static int take_plan(void *arg, const json_t *plan, struct hvd_err *err)
{
	struct observed *observed = arg;

	observe(observed);
	if (hvd_observed_answer(observed, plan, err) != 0)
		return -1;
	hvd_detached_detach(observed->detached);
	observed->detached->task = hvd_shims_first(observed->shims);
	return 0;
}

static void refuse(struct observed *observed, const struct hvd_err *why)
{
	hvd_shims_refuse(observed->shims, hvd_err_status(why));
	end_soon(observed, REFUSED_SECONDS);
}

static void refused(void *arg, const struct hvd_err *why)
{
	struct observed *observed = arg;

	hvd_driver_client_log_failure(observed->agent.log, observed->agent.info, why);
	refuse(observed, why);
}

static void spare(void *arg)
{
	struct observed *observed = arg;
	struct hvd_err why = {0};

	if (hvd_observed_answer(observed, NULL, &why) != 0)
		refused(observed, &why);
	end_soon(observed, REFUSED_SECONDS);
}

static void end(void *arg)
{
	const struct observed *observed = arg;

	if (observed->starter->shims_end)
		hvd_shims_tell(observed->shims, HVD_STEP_END, 0);
}

static void failed(void *arg, const struct hvd_err *why)
{
	struct observed *observed = arg;
	const struct hvd_agent *agent = &observed->agent;

	if (!agent->planned)
		refuse(observed, why);
	if (!agent->unreachable)
		return;
	hvd_debug(agent->log, "%s: lost the driver: %s", agent->info->name, why->msg);
	delivered(observed);
	end(observed);
}

static void pass_signal(void *arg, int sig)
{
	hvd_shims_tell(((const struct observed *)arg)->shims, HVD_STEP_SIGNAL, sig);
}

static size_t running(const void *arg)
{
	const struct observed *observed = arg;

	return observed->agent.info->local_size - observed->ended;
}

static void lines(const void *arg, struct hvd_world_rank rank, struct hvd_rank_lines *out)
{
	hvd_observed_ranks_lines(((const struct observed *)arg)->ranks, rank.rank, out);
}

/* Slurm sends these to all processes of a step that is to end. */
static void signalled(void *arg, int sig)
{
	struct observed *observed = arg;

	if (sig == SIGTERM)
		hvd_driver_client_send(observed->agent.driver, json_pack("{s:s}", "t", "term"));
	if (observed->ranks && (sig == SIGTERM || sig == SIGINT || sig == SIGHUP))
		hvd_observed_ranks_signalled(observed->ranks);
}

/* ---- life ---- */

static void on_late(void *arg)
{
	struct observed *observed = arg;

	if (observed->starter->step || !observed->agent.planned || hvd_shims_connected(observed->shims) == 0)
		hvd_agent_quit(&observed->agent);
}

/* The tasks have ended, or what has started the shims. */
static void on_starter_gone(void *arg)
{
	struct observed *observed = arg;

	if (observed->starter->shims) {
		if (hvd_shims_connected(observed->shims) > 0)
			report_orphans(observed);
		end_soon(observed, ORPHANS_SECONDS);
		hvd_shims_expect_none(observed->shims);
		return;
	}
	if (observed->agent.planned && observed->detached->tasks.orphaned &&
	    hvd_step_tasks_first(&observed->detached->tasks)) {
		/* srun would wait for these tasks for ever, and nobody else ends them. */
		report_orphans(observed);
		observed->agent.done = true;
		hvd_step_tasks_kill(&observed->detached->tasks);
	}
	if (observed->ranks && hvd_observed_ranks_left(observed->ranks))
		end_soon(observed, HVD_STEP_SEEN_MS / 1e3);
	else
		hvd_agent_quit(&observed->agent);
}

static void close_ranks(void *arg)
{
	struct observed *observed = arg;

	report_done(observed);
	hvd_observed_ranks_destroy(observed->ranks);
	observed->ranks = NULL;
	hvd_event_unwatch(&observed->events);
	hvd_timer_free(observed->late);
	hvd_detached_unwatch(observed->detached);
	hvd_shims_leave_last(observed->shims);
	hvd_shims_destroy(observed->shims);
}

static const struct hvd_rank_source source = {
	.plan = take_plan,
	.refused = refused,
	.spare = spare,
	.failed = failed,
	.signal = pass_signal,
	.end = end,
	.lines = lines,
	.running = running,
	.delivered = delivered,
	.signalled = signalled,
	.close = close_ranks,
};

static void run(struct hvd_detached *self, void *arg)
{
	static const struct hvd_shims_ops ops = {on_shim_event, on_shim_left, on_no_shim_left};
	struct observed *observed = arg;
	const struct hvd_observed_opts *opts = observed->opts;
	struct event_base *base = event_base_new();

	if (!base)
		return;
	observed->agent.base = base;
	observed->agent.log = &self->log;
	observed->detached = self;
	observed->late = hvd_timer_new(base, on_late, observed);
	observed->shims = hvd_shims_create(base, opts->starter->shims ? observed->tasks : 1,
					   opts->starter->shims ? opts->socket : -1, &ops, observed);
	if (!opts->starter->shims)
		hvd_shims_add(observed->shims, opts->socket);
	hvd_detached_watch(self, base, on_starter_gone, observed);
	hvd_agent_run(&observed->agent);
}

/* In the watchdog: the process has ended before the ranks. If it has ended by itself, it has logged why. */
static void on_lost(pid_t pid, int status, int backup_fd, struct hvd_step_tasks *tasks, void *arg)
{
	struct observed *observed = arg;

	if (status != 0)
		hvd_last_report_death(observed->agent.boot, &observed->session, observed->agent.info, pid, status);
	if (backup_fd && (status != 0 || observed->opts->events))
		hvd_observed_ranks_pass_on(backup_fd, tasks);
}

pid_t hvd_observed_start(const struct hvd_observed_opts *opts, struct hvd_err *err)
{
	const bool shims = opts->starter->shims, events = !shims && opts->events;
	struct hvd_bootstrap *start = opts->start;
	struct observed observed = {.agent = {.boot = &start->boot,
					      .session = &observed.session,
					      .info = &start->info,
					      .source = &source,
					      .ranks = &observed},
				    .opts = opts,
				    .starter = opts->starter,
				    .tasks = start->info.local_size};
	char purpose[300];
	int pair[2] = {0, 0}, keep[] = {opts->socket, events ? HVD_STEP_EVENTS_FD : 0, events ? HVD_STEP_SEEN_FD : 0, 0,
					shims ? 0 : HVD_STEP_PLANS_FD};
	struct hvd_detached_opts detached = {.purpose = purpose,
					     .keep = keep,
					     .n_keep = sizeof(keep) / sizeof(keep[0]),
					     .backup_fd = events ? HVD_STEP_BACKUP_FD : 0,
					     .log = &start->log,
					     .run = run,
					     .arg = &observed,
					     .lost = on_lost};
	pid_t pid = -1;

	hvd_raise_nofile();
	snprintf(purpose, sizeof(purpose), "agent of %s (%s)", start->info.name, opts->starter->name);
	hvd_child_parent(observed.parent);
	if (opts->starter->step)
		hvd_step_tasks_init(&detached.tasks, opts->task);
	if (shims && hvd_step_events_pair(pair) == 0) {
		observed.backup_fd = keep[3] = pair[0];
		detached.backup_fd = pair[1];
	}
	if (hvd_driver_client_session(&start->boot, &observed.session, err) == 0)
		pid = hvd_detached_start(&detached, err);
	close(opts->socket);
	for (int i = 0; i < 2 && pair[0]; i++)
		close(pair[i]);
	for (int fd = HVD_STEP_EVENTS_FD; events && fd <= HVD_STEP_SEEN_FD; fd++)
		close(fd);
	return pid;
}
