/* SPDX-License-Identifier: Apache-2.0 */
#include "init_watch.h"

#include "lib/base/cleanup.h"
#include "lib/base/timer.h"
#include "lib/base/xalloc.h"
#include "lib/host/rank_list.h"
#include "lib/protocol/wire.h"

#include <stdlib.h>
#include <string.h>

#define REFUSED_MOST 16   /* ports that are told of */
#define RANKS_MOST   1024 /* that wait there */

/* Ranks that will come at all have begun to by then. */
#define FIRST_SECONDS 600

struct hvd_init_watch {
	struct hvd_init_barrier barrier;
	hvd_time began; /* to watch for these ranks */
	double patience;
	struct hvd_rv_service *service;
	void (*failed)(const struct hvd_err *why, void *arg);
	void *arg;
	const struct hvd_log *log;
	char *refused[REFUSED_MOST]; /* "HOST PORT" */
	struct hvd_timer *timer;
	hvd_time timer_at; /* INT64_MAX = it does not run */
};

static void set_timer(struct hvd_init_watch *watch)
{
	hvd_time next = hvd_init_barrier_next(&watch->barrier, watch->patience);

	if (next == watch->timer_at)
		return;
	watch->timer_at = next;
	if (next == INT64_MAX)
		hvd_timer_stop(watch->timer);
	else
		hvd_timer_at(watch->timer, next);
}

static void on_waits(char *text, void *arg)
{
	const struct hvd_init_watch *watch = arg;

	if (text)
		hvd_verbose(watch->log, "waiting in init_process_group or after it:\n%s", text);
	free(text);
}

static void fail(struct hvd_init_watch *watch, const struct hvd_init_round *epoch)
{
	char *missing = hvd_init_barrier_missing(&watch->barrier, epoch);
	struct hvd_err why = {0};

	hvd_err_set(&why, HVD_E_TIMEOUT, "%s within %g s of the first rank that did; ending the launch", missing,
		    watch->patience);
	hvd_err_hint(&why, "what do these ranks do instead? --init-timeout allows more time");
	free(missing);
	hvd_rv_service_ask_waits(watch->service, HVD_RV_WAITS_FEW, on_waits, watch);
	hvd_init_watch_stop(watch);
	watch->failed(&why, watch->arg);
}

static void warn(struct hvd_init_watch *watch, const struct hvd_init_round *epoch)
{
	char *missing = hvd_init_barrier_missing(&watch->barrier, epoch);

	hvd_warn(watch->log, "%s; the first of the other %u did %.0f s ago", missing, (unsigned)epoch->arrived,
		 (double)(hvd_now() - epoch->first) / 1e9);
	free(missing);
	if (watch->log->level >= HVD_LOG_VERBOSE)
		hvd_rv_service_ask_waits(watch->service, HVD_RV_WAITS_FEW, on_waits, watch);
}

static void on_timer(void *arg)
{
	struct hvd_init_watch *watch = arg;
	const struct hvd_init_round *epoch;
	hvd_time now = hvd_now();

	watch->timer_at = INT64_MAX;
	epoch = hvd_init_barrier_overdue(&watch->barrier, now, watch->patience);
	if (epoch) {
		fail(watch, epoch);
		return;
	}
	while ((epoch = hvd_init_barrier_late(&watch->barrier, now)))
		warn(watch, epoch);
	set_timer(watch);
}

struct hvd_init_watch *hvd_init_watch_create(struct event_base *base, double patience, struct hvd_rv_service *service,
					     void (*failed)(const struct hvd_err *why, void *arg), void *arg,
					     const struct hvd_log *log)
{
	struct hvd_init_watch *watch = hvd_xcalloc(1, sizeof(*watch));

	*watch = (struct hvd_init_watch){.patience = patience,
					 .service = service,
					 .failed = failed,
					 .arg = arg,
					 .log = log,
					 .timer_at = INT64_MAX};
	watch->timer = hvd_timer_new(base, on_timer, watch);
	return watch;
}

void hvd_init_watch_begin(struct hvd_init_watch *watch, const struct hvd_layout *layout,
			  const struct hvd_host_table *table)
{
	hvd_init_watch_stop(watch);
	watch->began = hvd_now();
	hvd_init_barrier_begin(&watch->barrier, layout, table);
}

void hvd_init_watch_stop(struct hvd_init_watch *watch)
{
	hvd_init_barrier_clear(&watch->barrier);
	set_timer(watch);
}

char *hvd_init_watch_expected(const struct hvd_init_watch *watch, int32_t host)
{
	bool any;
	char *text = hvd_init_barrier_absent(&watch->barrier, host, &any);

	if (any || hvd_now() - watch->began < (hvd_time)FIRST_SECONDS * 1000000000)
		return text;
	free(text);
	return NULL;
}

bool hvd_init_watch_joined(struct hvd_init_watch *watch, const struct hvd_rv_init_event *join)
{
	const struct hvd_init_round *all = hvd_init_barrier_add(&watch->barrier, join, hvd_now());

	if (all && all->number == 0)
		hvd_verbose(watch->log, "all %u ranks have called init_process_group, the last %.3f s after the first",
			    (unsigned)all->arrived, (double)(all->last - all->first) / 1e9);
	else if (all)
		hvd_debug(watch->log, "all %u ranks have called init_process_group %u times", (unsigned)all->arrived,
			  (unsigned)all->number + 1);
	set_timer(watch);
	return all && all->number == 0;
}

/* The caller frees it. */
static char *list_ranks(const json_t *ranks)
{
	size_t n = json_array_size(ranks) < RANKS_MOST ? json_array_size(ranks) : RANKS_MOST;
	hvd_cleanup_free int *numbers = hvd_xcalloc(n + 1, sizeof(*numbers));

	for (size_t i = 0; i < n; i++)
		numbers[i] = (int)json_integer_value(json_array_get(ranks, i));
	return n ? hvd_rank_list(numbers, n) : hvd_xstrdup("ranks");
}

void hvd_init_watch_refused(struct hvd_init_watch *watch, const char *host, const json_t *msg)
{
	struct hvd_addr addr;
	char text[HVD_ADDR_TEXT], *name;
	hvd_cleanup_free char *ranks = NULL;
	bool clients = json_is_true(json_object_get(msg, "clients"));
	const char *at, *waits;
	int64_t port;
	size_t i = 0;

	if (hvd_get_str(msg, "at", HVD_ADDR_TEXT, &at, NULL) != 0 || hvd_addr_parse(at, &addr) != 0 ||
	    hvd_get_int(msg, "port", 1, UINT16_MAX, &port, NULL) != 0)
		return;
	name = hvd_xasprintf("%s %d", host, (int)port);
	while (i < REFUSED_MOST && watch->refused[i] && strcmp(watch->refused[i], name) != 0)
		i++;
	if (i == REFUSED_MOST || watch->refused[i]) {
		free(name);
		return;
	}
	watch->refused[i] = name;
	ranks = list_ranks(json_object_get(msg, "ranks"));
	waits = strncmp(ranks, "rank ", 5) == 0 ? "waits" : "wait";
	hvd_addr_text(&addr, text);
	if (clients) {
		hvd_warn(watch->log,
			 "%s on %s %s for a server at %s port %d, where nobody listens: PyTorch before 2.7 starts none "
			 "where the program sets MASTER_ADDR or MASTER_PORT or calls init_process_group(init_method="
			 "\"tcp://...\")",
			 ranks, host, waits, text, (int)port);
		hvd_info(watch->log,
			 "--store=rank0 (srun: --hvd-store=rank0) makes rank 0 start one; or leave the address out of "
			 "the program, so that it uses the launch's store");
		return;
	}
	/* The server may be about to start. */
	hvd_info(watch->log, "%s on %s %s for a server at %s port %d, where nobody listens yet: %s", ranks, host, waits,
		 text, (int)port,
		 hvd_addr_loopback(&addr)
			 ? "rank 0 of a world of this host's processes, as of mp.spawn, starts one when it calls "
			   "init_process_group(); no process of another host can reach it there"
			 : "rank 0, if it runs on that host, starts one when it calls init_process_group() with this "
			   "address");
}

void hvd_init_watch_destroy(struct hvd_init_watch *watch)
{
	if (!watch)
		return;
	hvd_init_barrier_clear(&watch->barrier);
	hvd_timer_free(watch->timer);
	for (size_t i = 0; i < REFUSED_MOST; i++)
		free(watch->refused[i]);
	free(watch);
}
