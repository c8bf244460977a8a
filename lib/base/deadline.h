/* SPDX-License-Identifier: Apache-2.0 */
/*
 * deadline.h - absolute points in time on CLOCK_MONOTONIC.
 *
 * Waits take a deadline, not a duration, so that a chain of waits cannot add
 * up to more than was asked for. The unit is nanoseconds since an arbitrary
 * point; values of two machines must never be compared: send what is left.
 */
#ifndef HVD_DEADLINE_H
#define HVD_DEADLINE_H

#include <stdint.h>
#include <sys/time.h>

typedef int64_t hvd_time; /* nanoseconds, CLOCK_MONOTONIC */

hvd_time hvd_now(void);

/* Longer waits are as long as this: 31 years, so that sums stay in range. */
#define HVD_MOST_SECONDS 1e9

/* The point `seconds` from now; negative means "now". */
hvd_time hvd_deadline_in(double seconds);

/* What is left: 0 when the deadline has passed, never negative. */
double hvd_left(hvd_time deadline);
/* The same for poll(2): milliseconds, rounded up, at most INT_MAX. */
int hvd_left_ms(hvd_time deadline);
/* The same for libevent timers. */
struct timeval hvd_left_tv(hvd_time deadline);

/* The earlier of the two. */
hvd_time hvd_earlier(hvd_time a, hvd_time b);

#endif
