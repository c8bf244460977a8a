/* SPDX-License-Identifier: Apache-2.0 */
/*
 * clocks.h - by how much a host's clock differs from this process's.
 *
 * Times are ns since the epoch. Each message that tells when it was sent bounds the difference, since it cannot have
 * come before it went: what the host has sent from below, what it was sent from above. Without both bounds nothing is
 * known on that side. The difference that is assumed is the one within the bounds that is nearest to 0, for hosts whose
 * clocks are kept right differ by less than a message takes.
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

/* The host sent a message when its clock was `there`, which came when this one was `here`. */
void hvd_clock_came(struct hvd_clock *clock, int64_t there, int64_t here);
/* A message went to the host when this clock was `here`, which came when the host's was `there`. */
void hvd_clock_went(struct hvd_clock *clock, int64_t here, int64_t there);

/* The difference: what the host's clock shows, minus what this one shows at the same moment. */
int64_t hvd_clock_offset(const struct hvd_clock *clock);
/* A time by the host's clock, by this one. 0, which is no time, stays. */
int64_t hvd_clock_here(const struct hvd_clock *clock, int64_t there);
/* An end that the host has told of, which came at `here`: its times become those of this clock, ended_at is known, and
 * failed_at is not later. */
void hvd_clock_end(struct hvd_clock *clock, struct hvd_rank_end *end, int64_t here);

#endif
