/* SPDX-License-Identifier: Apache-2.0 */
#include "straggler_watch.h"

#include "lib/base/timer.h"
#include "lib/base/xalloc.h"

#include <stdlib.h>

struct hvd_straggler_watch {
	const struct hvd_usage *usage;
	struct hvd_event_log *events;
	const struct hvd_log *log;
	struct hvd_stragglers *stragglers;
	struct hvd_timer *timer;
};

static void on_change(const struct hvd_straggler *straggler, bool slow, void *arg)
{
	const struct hvd_straggler_watch *watch = arg;
	const struct hvd_usage_rank *rank = hvd_usage_get(watch->usage, straggler->rank);
	const char *host = rank && rank->host_name ? rank->host_name : "";
	const unsigned world = hvd_usage_world(watch->usage);

	if (slow) {
		hvd_verbose(watch->log, "rank %u on %s is slow: %s", straggler->rank, host, straggler->why);
		hvd_event(watch->events, RANK_SLOW, .world = world, .rank = straggler->rank, .host = host,
			  .why = straggler->why);
	} else {
		hvd_verbose(watch->log, "rank %u on %s is no longer slow", straggler->rank, host);
		hvd_event(watch->events, RANK_EVEN, .world = world, .rank = straggler->rank, .host = host);
	}
}

static void on_timer(void *arg)
{
	struct hvd_straggler_watch *watch = arg;
	struct hvd_rank_usage *ranks = hvd_xcalloc((size_t)hvd_usage_size(watch->usage) + 1, sizeof(*ranks));
	const struct hvd_usage_rank *rank = NULL;
	size_t n = 0;

	while ((rank = hvd_usage_next(watch->usage, rank)))
		ranks[n++] = rank->uses;
	hvd_stragglers_evaluate(watch->stragglers, ranks, n, on_change, watch);
	free(ranks);
}

void hvd_straggler_watch_begin(struct hvd_straggler_watch *watch)
{
	if (!watch)
		return;
	hvd_stragglers_begin(watch->stragglers, hvd_usage_size(watch->usage));
	hvd_timer_every_ms(watch->timer, HVD_STRAGGLERS_SECONDS * 1000);
}

void hvd_straggler_watch_stop(struct hvd_straggler_watch *watch)
{
	if (watch)
		hvd_timer_stop(watch->timer);
}

const struct hvd_straggler *hvd_straggler_watch_get(const struct hvd_straggler_watch *watch, uint32_t rank)
{
	return watch ? hvd_stragglers_get(watch->stragglers, rank) : NULL;
}

struct hvd_straggler_watch *hvd_straggler_watch_create(struct event_base *base, const struct hvd_usage *usage,
						       struct hvd_event_log *events, const struct hvd_log *log)
{
	struct hvd_straggler_watch *watch = hvd_xcalloc(1, sizeof(*watch));

	*watch = (struct hvd_straggler_watch){.usage = usage, .events = events, .log = log};
	watch->stragglers = hvd_stragglers_create();
	watch->timer = hvd_timer_new(base, on_timer, watch);
	return watch;
}

void hvd_straggler_watch_destroy(struct hvd_straggler_watch *watch)
{
	if (!watch)
		return;
	hvd_timer_free(watch->timer);
	hvd_stragglers_destroy(watch->stragglers);
	free(watch);
}
