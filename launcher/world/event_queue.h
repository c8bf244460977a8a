/* SPDX-License-Identifier: Apache-2.0 */
/*
 * event_queue.h - passes the events of an elastic job's parts to the state machine, and is its clock.
 *
 * Events are not passed on at once, but from the event loop, in the order of their arrival. The parts that carry out
 * the machine's decisions may have new events at once, and the machine must not be called while it is at work.
 */
#ifndef HVD_EVENT_QUEUE_H
#define HVD_EVENT_QUEUE_H

#include "lib/host/alloc.h"
#include "machine.h"

#include <event2/event.h>

enum hvd_event_kind {         /* id                  value */
	HVD_EVENT_HOSTS,      /* only by hvd_event_queue_add_hosts() */
	HVD_EVENT_HOST_HERE,  /* host */
	HVD_EVENT_HOST_LOST,  /* host */
	HVD_EVENT_HOST_UNFIT, /* host */
	HVD_EVENT_ARRIVED,    /* worker */
	HVD_EVENT_CONNECTED,
	HVD_EVENT_READY,      /* worker */
	HVD_EVENT_EXITED,     /* worker              as from waitpid(2) */
	HVD_EVENT_UNKILLABLE, /* worker */
	HVD_EVENT_CHECKED,    /* host */
	HVD_EVENT_NOTIFIED,   /* worker              1: it was notified, 0: not */
	HVD_EVENT_KILL_FAILED,
	HVD_EVENT_RELEASED,
};

struct hvd_event_queue;

/* Neither is owned. */
struct hvd_event_queue *hvd_event_queue_create(struct event_base *base, struct hvd_machine *machine);
void hvd_event_queue_destroy(struct hvd_event_queue *events); /* NULL is fine */

void hvd_event_queue_add(struct hvd_event_queue *events, enum hvd_event_kind kind, uint32_t id, int value);
/* The current hosts, each once. Copied. */
void hvd_event_queue_add_hosts(struct hvd_event_queue *events, const struct hvd_alloc *hosts);

/* Pass no more events to the machine. */
void hvd_event_queue_stop(struct hvd_event_queue *events);

#endif
