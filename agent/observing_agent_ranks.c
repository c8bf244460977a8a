/* SPDX-License-Identifier: Apache-2.0 */
#include "observing_agent_internal.h"

#include "lib/base/timer.h"

#include <stdlib.h>
#include <sys/eventfd.h>

/* Notes in a turn of the event loop. */
#define TURN_NOTES 64

void hvd_host_ranks_delivered(struct host *host)
{
	if (host->ranks)
		hvd_observed_ranks_delivered(host->ranks);
	if (host->output_lost)
		hvd_shims_tell(host->shims, HVD_STEP_SEEN, 0);
	host->output_lost = false;
}

/* A connection that ends without this message looks to the driver like the loss of the process. The driver also needs
 * to know whether munged is there: without it slurmstepd cannot tell srun that ranks have ended. */
void hvd_host_done(struct host *host)
{
	bool asks = host->opts->kind == HVD_OBSERVING_AGENT_SRUN;

	if (!host->done && host->planned)
		hvd_driver_client_send(host->agent,
				       json_pack("{s:s, s:b}", "t", "done", "munge",
						 !asks || hvd_driver_client_munge_answers(host->opts->boot)));
	host->done = true;
}

static bool all_ended(const struct host *host)
{
	return host->ended == host->opts->info->local_size;
}

static void count_end(struct host *host)
{
	host->ended++;
	if (all_ended(host) && !host->unreachable)
		hvd_host_done(host);
}

static bool on_over(void *arg)
{
	return hvd_detached_tasks_over(((struct host *)arg)->detached);
}

static void on_began(uint32_t rank, pid_t pid, void *arg)
{
	hvd_rank_watch_add(((struct host *)arg)->watch, rank, pid);
}

static void on_output(size_t bytes, void *arg)
{
	hvd_rank_watch_output(((struct host *)arg)->watch, bytes);
}

static bool on_ended(const struct hvd_rank_end *end, void *arg)
{
	struct host *host = arg;
	json_t *msg;

	hvd_rank_watch_remove(host->watch, end->rank);
	if (host->unreachable) {
		count_end(host);
		return true;
	}
	msg = hvd_rank_end_json(end);
	json_object_set_new(msg, "t", json_string("exit"));
	json_object_set_new(msg, "id", json_integer((json_int_t)end->rank));
	hvd_driver_client_send(host->agent, msg);
	count_end(host);
	return !hvd_driver_client_sending(host->agent);
}

/* slurmstepd goes on when it learns of the last end. It then kills the rest of the step, and if it tracks by control
 * groups it sleeps for a second before it looks again. So it learns of the last end by the end of this process, which
 * closes the socket of the events. */
static void on_seen(uint32_t local_id, void *arg)
{
	struct host *host = arg;

	if (hvd_host_has_shims(host))
		hvd_shims_seen(host->shims, local_id);
	else if (all_ended(host))
		event_base_loopbreak(host->base);
	else
		eventfd_write(HVD_STEP_SEEN_FD, 1);
}

/* slurmstepd's events. */
static void on_events(evutil_socket_t fd, short what, void *arg)
{
	struct host *host = arg;
	struct hvd_step_event event;
	int fds[2], rc = 1;

	(void)what;
	for (int i = 0; rc > 0 && i < TURN_NOTES; i++) {
		rc = hvd_step_event_take(fd, &event, fds);
		if (rc > 0)
			hvd_observed_ranks_event(host->ranks, &event, fds);
	}
	if (rc >= 0)
		return;
	event_del(host->events);
	hvd_observed_ranks_no_more_events(host->ranks);
	if (hvd_timer_runs(host->late))
		event_base_loopbreak(host->base);
}

/* ---- shims ---- */

/* Without slurmstepd output of the ranks gets lost, and srun waits for ever. */
void hvd_host_tell_orphaned(struct host *host)
{
	if (host->orphaned || !host->planned || !hvd_detached_orphaned(host->detached))
		return;
	host->orphaned = true;
	hvd_driver_client_send(host->agent, json_pack("{s:s, s:s}", "t", "orphan", "parent", host->parent));
}

/* The ranks of a slurmstepd that was killed end with it, perhaps before this process notices that it has ended. Their
 * ends must not look like the cause, so look for slurmstepd before they are reported. */
static void look_for_starter(struct host *host)
{
	if (hvd_detached_tasks_over(host->detached))
		hvd_host_tell_orphaned(host);
}

/* The watchdog gets a copy of what it would need, first. */
void hvd_host_shim_event(const struct hvd_step_event *event, int fds[2], void *arg)
{
	struct host *host = arg;

	if (event->kind == HVD_STEP_OUTPUT_LOST && host->agent) {
		hvd_driver_client_send(host->agent, json_pack("{s:s}", "t", "output-lost"));
		host->output_lost = true;
		if (!hvd_driver_client_sending(host->agent))
			hvd_host_ranks_delivered(host);
	} else if (host->ranks) {
		if (event->kind == HVD_STEP_EXIT || event->kind == HVD_STEP_EXIT_WITH_ALL)
			look_for_starter(host);
		if (host->spare && event->kind == HVD_STEP_TASK && fds[0] >= 0)
			hvd_step_event_send(host->spare, event, fds);
		hvd_observed_ranks_event(host->ranks, event, fds);
		return;
	}
	hvd_step_event_close(fds);
}

void hvd_host_shim_left(uint32_t local_id, void *arg)
{
	struct host *host = arg;
	uint32_t rank;

	host->detached->task = hvd_shims_first(host->shims);
	/* A shim of an MPI or of jsrun may have failed before it asked: nothing else tells that none will come. */
	if (host->planned && host->opts->kind >= HVD_OBSERVING_AGENT_MPI && hvd_shims_connected(host->shims) == 0)
		hvd_timer_in_ms(host->late, 2 * 1000);
	if (!host->ranks || !hvd_host_has_shims(host) || !hvd_observed_ranks_lose(host->ranks, local_id, &rank))
		return;
	look_for_starter(host);
	hvd_rank_watch_remove(host->watch, rank);
	hvd_driver_client_send(host->agent, json_pack("{s:s, s:I}", "t", "lost", "id", (json_int_t)rank));
	count_end(host);
}

void hvd_host_ranks_begin(struct host *host)
{
	struct hvd_observed_ranks_opts opts = {.info = host->opts->info,
					       .lines = host->opts->boot->stderr_lines,
					       .over = hvd_host_has_shims(host) ? NULL : on_over,
					       .began = on_began,
					       .ended = on_ended,
					       .output = on_output,
					       .seen = on_seen,
					       .arg = host};

	if (!hvd_host_has_shims(host) && !host->opts->events)
		return;
	host->ranks = hvd_observed_ranks_create(host->base, &opts);
	if (hvd_host_has_shims(host))
		return;
	host->events = event_new(host->base, HVD_STEP_EVENTS_FD, EV_READ | EV_PERSIST, on_events, host);
	if (!host->events)
		abort();
	event_add(host->events, NULL);
}
