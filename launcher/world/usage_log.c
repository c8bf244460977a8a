/* SPDX-License-Identifier: Apache-2.0 */
#include "usage_log.h"

#include "lib/base/cleanup.h"
#include "lib/base/timer.h"
#include "lib/base/xalloc.h"

#include <stdlib.h>

#define LOOK_MS 60000
/* The first look, in samples: GPUs and processors are known from the second one on. */
#define FIRST_SAMPLES 3

struct hvd_usage_log {
	const struct hvd_usage *usage;
	struct hvd_event_log *events;
	struct hvd_timer *timer;
	int64_t first_ms;
	unsigned looks;
};

/* Log the host, of whose ranks some are known. */
static void log_host(const struct hvd_usage *usage, uint32_t h, struct hvd_event_log *events)
{
	const struct hvd_usage_host host = hvd_usage_host(usage, h);

	hvd_event(events, HOST_USAGE, .world = hvd_usage_world(usage), .index = h, .host = host.name,
		  .ranks = host.ranks, .cpu = host.uses.cpu, .memory = host.uses.memory, .gpu = host.uses.gpu);
}

size_t hvd_usage_log_look(const struct hvd_usage *usage, unsigned number, struct hvd_event_log *events)
{
	const uint32_t n = hvd_usage_hosts(usage);
	hvd_cleanup_free uint32_t *known = hvd_xcalloc((size_t)n + 1, sizeof(*known));
	size_t n_known = 0, every, logged = 0;

	for (uint32_t h = 0; h < n; h++)
		if (hvd_usage_host(usage, h).name)
			known[n_known++] = h;
	every = (n_known + HVD_USAGE_LOG_HOSTS - 1) / HVD_USAGE_LOG_HOSTS;
	for (size_t i = every ? number % every : 0; i < n_known; i += every, logged++)
		log_host(usage, known[i], events);
	return logged;
}

static void on_timer(void *arg)
{
	struct hvd_usage_log *log = arg;
	const size_t logged = hvd_usage_log_look(log->usage, log->looks, log->events);

	/* The generation may have begun a moment ago. */
	log->looks += logged > 0;
	hvd_timer_in_ms(log->timer, logged ? LOOK_MS : log->first_ms);
}

void hvd_usage_log_begin(struct hvd_usage_log *log)
{
	if (log && !hvd_timer_runs(log->timer))
		hvd_timer_in_ms(log->timer, log->first_ms);
}

void hvd_usage_log_stop(struct hvd_usage_log *log)
{
	if (log)
		hvd_timer_stop(log->timer);
}

struct hvd_usage_log *hvd_usage_log_create(struct event_base *base, double sample, const struct hvd_usage *usage,
					   struct hvd_event_log *events)
{
	struct hvd_usage_log *log = hvd_xcalloc(1, sizeof(*log));
	const double first = 1000 * FIRST_SAMPLES * sample;

	*log = (struct hvd_usage_log){.usage = usage, .events = events};
	log->first_ms = first < LOOK_MS ? (int64_t)first : LOOK_MS;
	log->timer = hvd_timer_new(base, on_timer, log);
	return log;
}

void hvd_usage_log_destroy(struct hvd_usage_log *log)
{
	if (!log)
		return;
	hvd_timer_free(log->timer);
	free(log);
}
