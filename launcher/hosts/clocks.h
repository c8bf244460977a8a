/* SPDX-License-Identifier: Apache-2.0 */
/*
 * clocks.h - which time of a host's monotonic clock is which time here.
 *
 * Hosts send times of their CLOCK_MONOTONIC, in ns. Unlike a wall clock it cannot be set; but it begins when its host is
 * started, so the difference has to be found. Each message with its sending time bounds it, because it cannot arrive
 * before it was sent. A message from the host gives a lower bound, and a message to the host an upper one. A missing
 * bound leaves that side open. Within the bounds, the value is taken at which the wall clocks were nearest to each other
 * when the host registered, because synchronised wall clocks differ by less than a message takes.
 */
#ifndef HVD_CLOCKS_H
#define HVD_CLOCKS_H

#include "lib/base/deadline.h"
#include "lib/host/rank_end.h"

#include <stdbool.h>
#include <stdint.h>

/* Of the host's clock minus this one's. A zeroed one knows nothing. */
struct hvd_clock {
	bool registered, above, below; /* are `equal`, `most` and `least` known? */
	int64_t equal;                 /* the difference, if the wall clocks are equal */
	int64_t least, most;           /* bounds of the difference */
};

/* The host registered when its clock was `there`, and its wall clock `wall`; that came now. */
void hvd_clock_registered(struct hvd_clock *clock, hvd_time there, int64_t wall);
/* The host sent a message when its clock was `there`; it arrived when this clock was `here`. */
void hvd_clock_came(struct hvd_clock *clock, hvd_time there, hvd_time here);
/* This process sent a message when its clock was `here`; it arrived when the host's clock was `there`. */
void hvd_clock_went(struct hvd_clock *clock, hvd_time here, hvd_time there);

/* How far the host's wall clock was ahead of this one's when it registered, in ns, at least. 0 = not known. */
int64_t hvd_clock_skew(const struct hvd_clock *clock);
/* Converts a time of the host's clock to this clock. 0, which is no time, stays 0. */
hvd_time hvd_clock_here(const struct hvd_clock *clock, hvd_time there);
/* Convert the times of an end that arrived from the host at `here` to this clock. Afterwards ended_at is known, and
 * failed_at is not later. */
void hvd_clock_end(struct hvd_clock *clock, struct hvd_rank_end *end, hvd_time here);

#endif
