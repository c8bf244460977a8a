/* SPDX-License-Identifier: Apache-2.0 */
#include "clocks.h"

/* Times from messages: none of them is so far off that a difference of two overflows. */
#define FARTHEST (INT64_MAX / 4)

static bool plausible(int64_t a, int64_t b)
{
	return a > 0 && b > 0 && a < FARTHEST && b < FARTHEST;
}

void hvd_clock_came(struct hvd_clock *clock, int64_t there, int64_t here)
{
	if (!plausible(there, here) || (clock->below && there - here <= clock->least))
		return;
	clock->below = true;
	clock->least = there - here;
}

void hvd_clock_went(struct hvd_clock *clock, int64_t here, int64_t there)
{
	if (!plausible(there, here) || (clock->above && there - here >= clock->most))
		return;
	clock->above = true;
	clock->most = there - here;
}

int64_t hvd_clock_offset(const struct hvd_clock *clock)
{
	/* A clock that was set during the job has bounds that contradict each other. */
	if (clock->above && clock->below && clock->least > clock->most)
		return clock->least / 2 + clock->most / 2;
	if (clock->below && clock->least > 0)
		return clock->least;
	return clock->above && clock->most < 0 ? clock->most : 0;
}

int64_t hvd_clock_here(const struct hvd_clock *clock, int64_t there)
{
	return there && there < FARTHEST ? there - hvd_clock_offset(clock) : there;
}

void hvd_clock_end(struct hvd_clock *clock, struct hvd_rank_end *end, int64_t here)
{
	if (end->ended_at >= FARTHEST)
		end->ended_at = 0;
	hvd_clock_came(clock, end->ended_at, here);
	end->ended_at = end->ended_at ? hvd_clock_here(clock, end->ended_at) : here;
	end->failed_at = hvd_clock_here(clock, end->failed_at);
	if (end->failed_at > end->ended_at)
		end->failed_at = end->ended_at;
}
