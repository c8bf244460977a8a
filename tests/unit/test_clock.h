/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_clock.h - clocks that the test sets, for rules about time. It takes the place of clock_gettime() in
 * this program and in the libraries that it uses, so that timers of libevent go by it, too. Include it in one file.
 */
#ifndef HVD_TESTS_TEST_CLOCK_H
#define HVD_TESTS_TEST_CLOCK_H

#include "lib/base/deadline.h"

#include <event2/event.h>
#include <stdbool.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static hvd_time test_clock = 1000000000;
/* How much time passes with each look at the clock: for code that waits in a loop of its own. */
static hvd_time test_clock_look;
/* The wall clock, when test_clock was 0; 0: the real one. */
static int64_t test_wall;

__attribute__((visibility("default"))) int clock_gettime(clockid_t id, struct timespec *ts)
{
	const bool wall = id == CLOCK_REALTIME && test_wall;
	int64_t now;

	if (id != CLOCK_MONOTONIC && id != CLOCK_MONOTONIC_COARSE && !wall)
		return (int)syscall(SYS_clock_gettime, id, ts);
	test_clock += test_clock_look;
	now = wall ? test_wall + test_clock : test_clock;
	*ts = (struct timespec){.tv_sec = now / 1000000000, .tv_nsec = now % 1000000000};
	return 0;
}

/* Let the time pass in small steps; in each the loop does what is due. */
static inline void test_clock_pass(struct event_base *base, double seconds)
{
	const hvd_time step = 50000000;

	for (hvd_time end = test_clock + (hvd_time)(seconds * 1e9); test_clock < end;) {
		test_clock += end - test_clock < step ? end - test_clock : step;
		event_base_loop(base, EVLOOP_NONBLOCK);
	}
}

#endif
