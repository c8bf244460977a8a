/* SPDX-License-Identifier: Apache-2.0 */
#include "event_log.h"

#include "event_file.h"
#include "lib/base/size.h"
#include "lib/base/xalloc.h"
#include "lib/process/spawn.h"

#include <stdlib.h>

/* A generation has each of these once. */
#define BIT(id) ((uint64_t)1 << HVD_EV_##id)
#define ONCE                                                                                                           \
	(BIT(INIT_BEGAN) | BIT(INIT_DONE) | BIT(GENERATION_ENDING) | BIT(GENERATION_FAILED) | BIT(GENERATION_ENDED) |  \
	 BIT(LAUNCH_ENDING))
_Static_assert(HVD_N_EVENTS <= 64, "a set of them is bits of 64");

struct hvd_event_log {
	char *launch;
	struct hvd_event_file *file;
	struct generation {
		int64_t number;
		uint64_t seen; /* bits of enum hvd_event_name: what it has had of ONCE */
		char *role;    /* of the world; NULL = it has none */
	} now[HVD_MAX_WORLDS]; /* of each world */
	struct listener {
		hvd_event_fn *fn;
		void *arg;
	} * listeners;
	size_t n_listeners;
};

void hvd_event_log_listen(struct hvd_event_log *events, hvd_event_fn *fn, void *arg)
{
	if (!events)
		return;
	events->listeners = hvd_xrealloc(events->listeners, events->n_listeners + 1, sizeof(*events->listeners));
	events->listeners[events->n_listeners++] = (struct listener){fn, arg};
}

void hvd_event_log_unlisten(struct hvd_event_log *events, const void *arg)
{
	for (size_t i = 0; events && i < events->n_listeners; i++)
		if (events->listeners[i].arg == arg)
			events->listeners[i--] = events->listeners[--events->n_listeners];
}

void hvd_event_log_world(struct hvd_event_log *events, unsigned world, const char *role)
{
	if (!events)
		return;
	free(events->now[world].role);
	events->now[world].role = role ? hvd_xstrdup(role) : NULL;
}

/* The ranks of a generation that has failed are ended for no other reason. */
static bool logged(const struct generation *now, enum hvd_event_name name)
{
	uint64_t bits = (uint64_t)1 << name;

	if (name == HVD_EV_GENERATION_ENDING)
		bits |= BIT(GENERATION_FAILED);
	return now->seen & ONCE & bits;
}

void hvd_event_log_add(struct hvd_event_log *events, struct hvd_event *event)
{
	char line[HVD_EVENT_LINE + 1];
	struct generation *now;

	if (!events)
		return;
	now = &events->now[event->world];
	if (event->name == HVD_EV_GENERATION_BEGAN) {
		now->number = event->generation;
		now->seen = 0;
	} else if (logged(now, event->name)) {
		return;
	}
	now->seen |= (uint64_t)1 << event->name;
	event->generation = now->number;
	event->role = now->role;
	if (!event->at)
		event->at = hvd_now();
	event->wall = hvd_wall_at(event->at); /* once, for clocks are not read twice at the same moment */
	if (events->file)
		hvd_event_file_add(events->file, line, hvd_event_line(events->launch, event, line));
	for (size_t i = 0; i < events->n_listeners; i++)
		events->listeners[i].fn(event, events->listeners[i].arg);
}

void hvd_event_log_rank_ended(struct hvd_event_log *events, unsigned world, const struct hvd_rank_end *end,
			      int64_t rank, const char *host)
{
	char how[64];

	hvd_event(events, RANK_ENDED, .world = world, .rank = rank, .host = host,
		  .status = hvd_status_exit(end->status), .how = hvd_status_text(end->status, how, sizeof(how)),
		  .cause = end->cause == HVD_END_NONE ? NULL : hvd_end_cause_name(end->cause), .error = end->error);
}

struct hvd_event_log *hvd_event_log_create(const char *launch, const char *file, const struct hvd_log *log,
					   struct hvd_err *err)
{
	struct hvd_event_log *events = hvd_xcalloc(1, sizeof(*events));

	events->launch = hvd_xstrdup(launch);
	events->file = file ? hvd_event_file_open(file, launch, log, err) : NULL;
	if (!file || events->file)
		return events;
	hvd_event_log_destroy(events);
	return NULL;
}

const char *hvd_event_log_launch(const struct hvd_event_log *events)
{
	return events->launch;
}

void hvd_event_log_destroy(struct hvd_event_log *events)
{
	if (!events)
		return;
	hvd_event_file_close(events->file);
	for (unsigned w = 0; w < HVD_MAX_WORLDS; w++)
		free(events->now[w].role);
	free(events->launch);
	free(events->listeners);
	free(events);
}
