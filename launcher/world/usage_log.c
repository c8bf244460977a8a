/* SPDX-License-Identifier: Apache-2.0 */
#include "usage_log.h"

#include "lib/base/timer.h"
#include "lib/base/xalloc.h"

#include <stdlib.h>
#include <string.h>

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

/* The hosts that have known ranks. */
struct hosts {
	const struct hvd_usage_rank **v; /* one rank of each */
	size_t n, room;
	bool *seen; /* by the host's number */
	uint32_t n_seen;
};

static void add(struct hosts *hosts, const struct hvd_usage_rank *rank)
{
	if (rank->host >= hosts->n_seen) {
		hosts->seen = hvd_xrealloc(hosts->seen, (size_t)rank->host + 1, sizeof(*hosts->seen));
		memset(hosts->seen + hosts->n_seen, 0, (rank->host + 1 - hosts->n_seen) * sizeof(*hosts->seen));
		hosts->n_seen = rank->host + 1;
	}
	if (hosts->seen[rank->host] || !rank->host_name)
		return;
	hosts->seen[rank->host] = true;
	hosts->v = hvd_xgrow(hosts->v, hosts->n, &hosts->room, sizeof(*hosts->v));
	hosts->v[hosts->n++] = rank;
}

size_t hvd_usage_log_look(const struct hvd_usage *usage, unsigned number, struct hvd_event_log *events)
{
	const struct hvd_usage_rank *rank = NULL;
	struct hosts hosts = {0};
	size_t every, logged = 0;

	while ((rank = hvd_usage_next(usage, rank)))
		add(&hosts, rank);
	every = (hosts.n + HVD_USAGE_LOG_HOSTS - 1) / HVD_USAGE_LOG_HOSTS;
	for (size_t i = every ? number % every : 0; i < hosts.n; i += every) {
		const struct hvd_usage_host host = hvd_usage_host(usage, hosts.v[i]->host);

		hvd_event(events, HOST_USAGE, .index = hosts.v[i]->host, .host = hosts.v[i]->host_name,
			  .ranks = host.ranks, .cpu = host.uses.cpu, .memory = host.uses.memory, .gpu = host.uses.gpu);
		logged++;
	}
	free(hosts.v);
	free(hosts.seen);
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
