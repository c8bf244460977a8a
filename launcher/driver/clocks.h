/* SPDX-License-Identifier: Apache-2.0 */
/*
 * clocks.h - the difference between a host's clock and this process's.
 *
 * Times are ns since the epoch. Each message with its sending time bounds the difference, because it cannot arrive
 * before it was sent. A message from the host gives a lower bound, and a message to the host an upper one. A missing
 * bound leaves that side open. Within the bounds, the value nearest to 0 is assumed, because synchronised clocks differ
 * by less than a message takes.
 */
#ifndef HVD_CLOCKS_H
#define HVD_CLOCKS_H

#include "lib/job/rank_end.h"

#include <stdbool.h>
#include <stdint.h>

/* Bounds of the host's clock minus this one's. A zeroed one knows nothing. */
struct hvd_clock {
	bool above, below; /* is there a bound: */
	int64_t least, most;
};

/* The host sent a message when its clock was `there`; it arrived when this clock was `here`. */
void hvd_clock_came(struct hvd_clock *clock, int64_t there, int64_t here);
/* This process sent a message when its clock was `here`; it arrived when the host's clock was `there`. */
void hvd_clock_went(struct hvd_clock *clock, int64_t here, int64_t there);

/* The difference: the host's clock minus this one, at the same moment. */
int64_t hvd_clock_offset(const struct hvd_clock *clock);
/* Converts a time of the host's clock to this clock. 0, which is no time, stays 0. */
int64_t hvd_clock_here(const struct hvd_clock *clock, int64_t there);
/* Convert the times of an end that arrived from the host at `here` to this clock. Afterwards ended_at is known, and
 * failed_at is not later. */
void hvd_clock_end(struct hvd_clock *clock, struct hvd_rank_end *end, int64_t here);

#endif
