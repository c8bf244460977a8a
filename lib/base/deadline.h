/* SPDX-License-Identifier: Apache-2.0 */
/*
 * deadline.h - absolute points in time on CLOCK_MONOTONIC, in nanoseconds.
 *
 * Every wait takes a deadline and not a duration, so that a chain of waits cannot last longer than was asked for. The
 * clock's zero is arbitrary and differs between machines. To pass a deadline to another process, send how much time is
 * left.
 */
#ifndef HVD_DEADLINE_H
#define HVD_DEADLINE_H

#include <stdint.h>
#include <sys/time.h>

typedef int64_t hvd_time; /* nanoseconds, CLOCK_MONOTONIC */

hvd_time hvd_now(void);

/* The point in time for people: ns since the epoch, by CLOCK_REALTIME as it is set now. That clock may be set at any
 * moment, so nothing that is compared or waited for uses it. */
int64_t hvd_wall_at(hvd_time at);

/* The longest wait: 31 years. A longer one is cut to it, so that sums stay within the type. */
#define HVD_MOST_SECONDS 1e9

/* The point in time `seconds` from now; zero, negative and NaN mean now. */
hvd_time hvd_deadline_in(double seconds);

/* How many seconds are left; 0 when the deadline has passed. */
double hvd_left(hvd_time deadline);
/* The same for poll(2): milliseconds, rounded up, at most INT_MAX. */
int hvd_left_ms(hvd_time deadline);
/* The same for libevent timers. */
struct timeval hvd_left_tv(hvd_time deadline);

/* The earlier of the two. */
hvd_time hvd_earlier(hvd_time a, hvd_time b);

#endif
