/* SPDX-License-Identifier: Apache-2.0 */
/*
 * timer.h - libevent's timers and signals, with callbacks that take what they need and nothing else; and its events of
 * descriptors.
 *
 * All functions belong to the thread of the event loop. A callback may stop, start or free its own timer.
 */
#ifndef HVD_TIMER_H
#define HVD_TIMER_H

#include "deadline.h"

#include <event2/event.h>
#include <stdbool.h>

struct hvd_timer;

/* A timer that does not run yet. `arg` is not owned. Never NULL: without memory the process ends. */
struct hvd_timer *hvd_timer_new(struct event_base *base, void (*fn)(void *arg), void *arg);
void hvd_timer_free(struct hvd_timer *timer); /* NULL is fine; before the event base ends */

/* Call fn once at this time, soon if it has passed. A timer that runs gets the new time. */
void hvd_timer_at(struct hvd_timer *timer, hvd_time at);
void hvd_timer_in_ms(struct hvd_timer *timer, int64_t ms);
/* Call fn once, after the callbacks that the event loop has before it already. */
void hvd_timer_soon(struct hvd_timer *timer);
/* Call fn again and again, the first time after so many milliseconds. */
void hvd_timer_every_ms(struct hvd_timer *timer, int64_t ms);
void hvd_timer_stop(struct hvd_timer *timer);       /* a timer that does not run is fine */
bool hvd_timer_runs(const struct hvd_timer *timer); /* will fn be called? */

/* Calls fn for each signal of this number that reaches the process. */
struct hvd_signal_watch;
struct hvd_signal_watch *hvd_signal_watch(struct event_base *base, int sig, void (*fn)(int sig, void *arg), void *arg);
/* Call fn once, soon, as if a signal had come. */
void hvd_signal_soon(struct hvd_signal_watch *watch);
void hvd_signal_unwatch(struct hvd_signal_watch *watch); /* NULL is fine; before the event base ends */

/* A pending event of a descriptor: event_new(3) and event_add(3). Never NULL. */
struct event *hvd_event_watch(struct event_base *base, int fd, short what, event_callback_fn fn, void *arg);
/* Free the event, and leave NULL in its place. NULL is fine. */
void hvd_event_unwatch(struct event **event);

#endif
