/* SPDX-License-Identifier: Apache-2.0 */
/* event_queue.c - a queue of events, and a timer for when the machine's next tick is due. */
#include "event_queue.h"

#include "lib/base/timer.h"
#include "lib/base/xalloc.h"

#include <stdlib.h>

struct item {
	enum hvd_event_kind kind;
	uint32_t id;
	int value;
	struct hvd_alloc hosts; /* HVD_EVENT_HOSTS */
	struct item *next;
};

struct hvd_event_queue {
	struct hvd_machine *machine;
	struct hvd_timer *read, *tick;
	struct item *first, **last;
	bool stopped;
};

static void set_tick(struct hvd_event_queue *events)
{
	hvd_time due = hvd_machine_due(events->machine);

	hvd_timer_stop(events->tick);
	if (due && !events->stopped) {

		hvd_timer_at(events->tick, due);
	}
}

static void tell(struct hvd_event_queue *events, const struct item *it, hvd_time now)
{
	struct hvd_machine *m = events->machine;

	switch (it->kind) {
	case HVD_EVENT_HOSTS:
		hvd_machine_hosts(m, &it->hosts, now);
		break;
	case HVD_EVENT_HOST_HERE:
		hvd_machine_host_here(m, it->id, now);
		break;
	case HVD_EVENT_HOST_LOST:
		hvd_machine_host_gone(m, it->id, HVD_HOST_LOST, now);
		break;
	case HVD_EVENT_HOST_UNFIT:
		hvd_machine_host_gone(m, it->id, HVD_HOST_UNFIT, now);
		break;
	case HVD_EVENT_ARRIVED:
		hvd_machine_arrived(m, it->id, now);
		break;
	case HVD_EVENT_CONNECTED:
		hvd_machine_connected(m, now);
		break;
	case HVD_EVENT_READY:
		hvd_machine_ready(m, it->id, now);
		break;
	case HVD_EVENT_EXITED:
		hvd_machine_exited(m, it->id, it->value, now);
		break;
	case HVD_EVENT_UNKILLABLE:
		hvd_machine_unkillable(m, it->id, now);
		break;
	case HVD_EVENT_CHECKED:
		hvd_machine_checked(m, it->id, now);
		break;
	case HVD_EVENT_NOTIFIED:
		hvd_machine_notified(m, it->value != 0, now);
		break;
	case HVD_EVENT_KILL_FAILED:
		hvd_machine_kill_failed(m, now);
		break;
	case HVD_EVENT_RELEASED:
		hvd_machine_release(m, now);
		break;
	}
}

static void drop(struct item *it)
{
	hvd_alloc_clear(&it->hosts);
	free(it);
}

static struct item *take(struct hvd_event_queue *events)
{
	struct item *it = events->first;

	events->first = it->next;
	if (!events->first)
		events->last = &events->first;
	return it;
}

static void on_read(void *arg)
{
	struct hvd_event_queue *events = arg;

	while (events->first) {
		struct item *it = take(events);

		if (!events->stopped)
			tell(events, it, hvd_now());
		drop(it);
	}
	set_tick(events);
}

static void on_tick(void *arg)
{
	struct hvd_event_queue *events = arg;

	hvd_machine_tick(events->machine, hvd_now());
	set_tick(events);
}

static struct item *add(struct hvd_event_queue *events, enum hvd_event_kind kind)
{
	struct item *it = hvd_xcalloc(1, sizeof(*it));

	it->kind = kind;
	*events->last = it;
	events->last = &it->next;
	hvd_timer_soon(events->read);
	return it;
}

void hvd_event_queue_add(struct hvd_event_queue *events, enum hvd_event_kind kind, uint32_t id, int value)
{
	struct item *it = add(events, kind);

	it->id = id;
	it->value = value;
}

void hvd_event_queue_add_hosts(struct hvd_event_queue *events, const struct hvd_alloc *hosts)
{
	hvd_alloc_copy(hosts, &add(events, HVD_EVENT_HOSTS)->hosts);
}

void hvd_event_queue_stop(struct hvd_event_queue *events)
{
	events->stopped = true;
	hvd_timer_stop(events->tick);
}

struct hvd_event_queue *hvd_event_queue_create(struct event_base *base, struct hvd_machine *machine)
{
	struct hvd_event_queue *events = hvd_xcalloc(1, sizeof(*events));

	events->machine = machine;
	events->last = &events->first;
	events->read = hvd_timer_new(base, on_read, events);
	events->tick = hvd_timer_new(base, on_tick, events);
	return events;
}

void hvd_event_queue_destroy(struct hvd_event_queue *events)
{
	if (!events)
		return;
	while (events->first)
		drop(take(events));
	hvd_timer_free(events->read);
	hvd_timer_free(events->tick);
	free(events);
}
