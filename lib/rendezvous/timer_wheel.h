/* SPDX-License-Identifier: Apache-2.0 */
/*
 * timer_wheel.h - many deadlines with one timer.
 *
 * The wheel is a ring of lists, one for each tick of 50 ms. Setting and removing a deadline take constant time. A
 * deadline is reported in the tick after it has passed, never before. One thread.
 */
#ifndef HVD_RENDEZVOUS_TIMER_WHEEL_H
#define HVD_RENDEZVOUS_TIMER_WHEEL_H

#include "lib/base/deadline.h"

#include <stdbool.h>
#include <stddef.h>

#define HVD_RV_TIMER_WHEEL_SLOTS 128
#define HVD_RV_TIMER_WHEEL_TICK  INT64_C(50000000) /* nanoseconds */

/* A timer with a deadline: a member of the caller's struct. Zeroed: on no wheel. */
struct hvd_rv_timer {
	struct hvd_rv_timer *prev, *next;
	hvd_time deadline;
	void (*due)(struct hvd_rv_timer *s); /* for the caller to use */
};

struct hvd_rv_timer_wheel {
	struct hvd_rv_timer slots[HVD_RV_TIMER_WHEEL_SLOTS]; /* heads of the lists */
	int64_t tick;                                        /* the last one whose deadlines were checked */
	size_t n;
};

void hvd_rv_timer_wheel_init(struct hvd_rv_timer_wheel *w);
/* Set or change the deadline. */
void hvd_rv_timer_wheel_set(struct hvd_rv_timer_wheel *w, struct hvd_rv_timer *s, hvd_time deadline);
void hvd_rv_timer_wheel_remove(struct hvd_rv_timer_wheel *w, struct hvd_rv_timer *s); /* a timer on no wheel is fine */
/* Remove and return a timer whose deadline has passed at `now`. Call it until it returns NULL. */
struct hvd_rv_timer *hvd_rv_timer_wheel_due(struct hvd_rv_timer_wheel *w, hvd_time now);

#endif
