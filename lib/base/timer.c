/* SPDX-License-Identifier: Apache-2.0 */
#include "timer.h"

#include "xalloc.h"

#include <stdlib.h>

struct hvd_timer {
	struct event *event;
	int64_t period_ms; /* 0: fn is called once */
	void (*fn)(void *arg);
	void *arg;
};

struct hvd_signal_watch {
	struct event *event;
	void (*fn)(int sig, void *arg);
	void *arg;
};

/* ---- timers ---- */

static void run(struct hvd_timer *timer, const struct timeval *tv)
{
	if (evtimer_add(timer->event, tv) != 0)
		abort();
}

static void run_ms(struct hvd_timer *timer, int64_t ms)
{
	run(timer, &(struct timeval){.tv_sec = (time_t)(ms / 1000), .tv_usec = (suseconds_t)(ms % 1000 * 1000)});
}

/* Nothing of the timer is used after the call, for fn may free it. */
static void on_time(evutil_socket_t fd, short what, void *arg)
{
	struct hvd_timer *timer = arg;

	(void)fd;
	(void)what;
	if (timer->period_ms)
		run_ms(timer, timer->period_ms);
	timer->fn(timer->arg);
}

struct hvd_timer *hvd_timer_new(struct event_base *base, void (*fn)(void *arg), void *arg)
{
	struct hvd_timer *timer = hvd_xcalloc(1, sizeof(*timer));

	*timer = (struct hvd_timer){.event = evtimer_new(base, on_time, timer), .fn = fn, .arg = arg};
	if (!timer->event)
		abort();
	return timer;
}

void hvd_timer_free(struct hvd_timer *timer)
{
	if (!timer)
		return;
	event_free(timer->event);
	free(timer);
}

void hvd_timer_at(struct hvd_timer *timer, hvd_time at)
{
	struct timeval tv = hvd_left_tv(at);

	timer->period_ms = 0;
	run(timer, &tv);
}

void hvd_timer_in_ms(struct hvd_timer *timer, int64_t ms)
{
	timer->period_ms = 0;
	run_ms(timer, ms > 0 ? ms : 0);
}

void hvd_timer_soon(struct hvd_timer *timer)
{
	hvd_timer_stop(timer);
	timer->period_ms = 0;
	event_active(timer->event, EV_TIMEOUT, 0);
}

void hvd_timer_every_ms(struct hvd_timer *timer, int64_t ms)
{
	timer->period_ms = ms > 0 ? ms : 1;
	run_ms(timer, timer->period_ms);
}

void hvd_timer_stop(struct hvd_timer *timer)
{
	evtimer_del(timer->event);
}

bool hvd_timer_runs(const struct hvd_timer *timer)
{
	return evtimer_pending(timer->event, NULL) != 0;
}

/* ---- signals ---- */

static void on_signal(evutil_socket_t sig, short what, void *arg)
{
	struct hvd_signal_watch *watch = arg;

	(void)what;
	watch->fn((int)sig, watch->arg);
}

struct hvd_signal_watch *hvd_signal_watch(struct event_base *base, int sig, void (*fn)(int sig, void *arg), void *arg)
{
	struct hvd_signal_watch *watch = hvd_xcalloc(1, sizeof(*watch));

	*watch = (struct hvd_signal_watch){.event = evsignal_new(base, sig, on_signal, watch), .fn = fn, .arg = arg};
	if (!watch->event || event_add(watch->event, NULL) != 0)
		abort();
	return watch;
}

void hvd_signal_soon(struct hvd_signal_watch *watch)
{
	event_active(watch->event, EV_SIGNAL, 1);
}

void hvd_signal_unwatch(struct hvd_signal_watch *watch)
{
	if (!watch)
		return;
	event_free(watch->event);
	free(watch);
}

/* ---- descriptors ---- */

struct event *hvd_event_watch(struct event_base *base, int fd, short what, event_callback_fn fn, void *arg)
{
	struct event *event = event_new(base, fd, what, fn, arg);

	if (!event)
		abort();
	event_add(event, NULL);
	return event;
}

void hvd_event_unwatch(struct event **event)
{
	if (*event)
		event_free(*event);
	*event = NULL;
}
