/* SPDX-License-Identifier: Apache-2.0 */
#include "deadline.h"

#include <limits.h>
#include <time.h>

#define NS_PER_S INT64_C(1000000000)

hvd_time hvd_now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (hvd_time)ts.tv_sec * NS_PER_S + ts.tv_nsec;
}

int64_t hvd_wall_at(hvd_time at)
{
	struct timespec ts;

	clock_gettime(CLOCK_REALTIME, &ts);
	return (int64_t)ts.tv_sec * NS_PER_S + ts.tv_nsec - (hvd_now() - at);
}

hvd_time hvd_deadline_in(double seconds)
{
	if (!(seconds > 0))
		return hvd_now();
	return hvd_now() + (hvd_time)((seconds < HVD_MOST_SECONDS ? seconds : HVD_MOST_SECONDS) * (double)NS_PER_S);
}

static int64_t left_ns(hvd_time deadline)
{
	int64_t left = deadline - hvd_now();

	return left > 0 ? left : 0;
}

double hvd_left(hvd_time deadline)
{
	return (double)left_ns(deadline) / (double)NS_PER_S;
}

int hvd_left_ms(hvd_time deadline)
{
	int64_t ms = (left_ns(deadline) + 999999) / 1000000;

	return ms < INT_MAX ? (int)ms : INT_MAX;
}

struct timeval hvd_left_tv(hvd_time deadline)
{
	int64_t left = left_ns(deadline);
	struct timeval tv = {.tv_sec = (time_t)(left / NS_PER_S), .tv_usec = (suseconds_t)(left % NS_PER_S / 1000)};

	return tv;
}

hvd_time hvd_earlier(hvd_time a, hvd_time b)
{
	return a < b ? a : b;
}
