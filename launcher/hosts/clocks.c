/* SPDX-License-Identifier: Apache-2.0 */
#include "clocks.h"

/* Times from messages: none of them is so far off that a difference of two overflows. */
#define FARTHEST (INT64_MAX / 4)

static bool plausible(int64_t a, int64_t b)
{
	return a > 0 && b > 0 && a < FARTHEST && b < FARTHEST;
}

/* A clock that stood still for a while, as a suspended machine's does, contradicts what was known before. */
void hvd_clock_came(struct hvd_clock *clock, hvd_time there, hvd_time here)
{
	if (!plausible(there, here) || (clock->below && there - here <= clock->least))
		return;
	clock->below = true;
	clock->least = there - here;
	if (clock->above && clock->least > clock->most)
		clock->above = false;
}

void hvd_clock_went(struct hvd_clock *clock, hvd_time here, hvd_time there)
{
	if (!plausible(there, here) || (clock->above && there - here >= clock->most))
		return;
	clock->above = true;
	clock->most = there - here;
	if (clock->below && clock->least > clock->most)
		clock->below = false;
}

void hvd_clock_registered(struct hvd_clock *clock, hvd_time there, int64_t wall)
{
	const hvd_time here = hvd_now();
	const int64_t wall_here = hvd_wall_at(here);

	*clock = (struct hvd_clock){0}; /* the host may have been started anew */
	hvd_clock_came(clock, there, here);
	if (!clock->below || !plausible(wall, wall_here))
		return;
	clock->registered = true;
	clock->equal = (there - wall) - (here - wall_here);
}

static int64_t difference(const struct hvd_clock *clock)
{
	if (clock->below && (!clock->registered || clock->equal < clock->least))
		return clock->least;
	if (clock->above && (!clock->registered || clock->equal > clock->most))
		return clock->most;
	return clock->registered ? clock->equal : 0;
}

int64_t hvd_clock_skew(const struct hvd_clock *clock)
{
	return clock->registered ? difference(clock) - clock->equal : 0;
}

hvd_time hvd_clock_here(const struct hvd_clock *clock, hvd_time there)
{
	return there && there < FARTHEST ? there - difference(clock) : there;
}

void hvd_clock_end(struct hvd_clock *clock, struct hvd_rank_end *end, hvd_time here)
{
	if (end->ended_at >= FARTHEST)
		end->ended_at = 0;
	hvd_clock_came(clock, end->ended_at, here);
	end->ended_at = end->ended_at ? hvd_clock_here(clock, end->ended_at) : here;
	end->failed_at = hvd_clock_here(clock, end->failed_at);
	if (end->failed_at > end->ended_at)
		end->failed_at = end->ended_at;
}
