/* SPDX-License-Identifier: Apache-2.0 */
#include "restart_history.h"

#include "lib/base/hostlist.h"
#include "lib/base/strv.h"
#include "lib/base/xalloc.h"

#include <stdlib.h>
#include <string.h>

/* Older generations are counted, but not listed. */
#define MOST_LISTED 1000

static double seconds(hvd_time from, hvd_time to)
{
	return to > from ? (double)((to - from) / 1000000) / 1000 : 0;
}

void hvd_restart_history_init(struct hvd_restart_history *history, hvd_time began)
{
	*history = (struct hvd_restart_history){.began = began, .list = json_array()};
}

void hvd_restart_history_clear(struct hvd_restart_history *history)
{
	json_decref(history->list);
	*history = (struct hvd_restart_history){0};
}

/* "hvdn[1-3]": the hosts of the machine's generation. */
static json_t *hosts_of(const struct hvd_machine *machine)
{
	uint32_t n = hvd_machine_n_hosts(machine);
	bool *used = hvd_xcalloc((size_t)n + 1, sizeof(*used));
	const struct hvd_worker *w;
	struct hvd_strv names = {0};
	char *text;
	json_t *json;

	for (int rank = 0; (w = hvd_machine_member(machine, rank)); rank++)
		used[w->host] = true;
	for (uint32_t k = 0; k < n; k++)
		if (used[k])
			hvd_strv_add(&names, hvd_machine_host(machine, k));
	free(used);
	text = hvd_hostlist_compress(names.v, names.n);
	json = json_string(text);
	free(text);
	hvd_strv_free(&names);
	return json;
}

/* The generation has ended; its last rank had gone at `over`. */
static void close_current(struct hvd_restart_history *history, hvd_time over, hvd_time now)
{
	const hvd_time failed = history->now.failed ? history->now.failed : over;
	const hvd_time init = history->now.init ? history->now.init : history->inits ? failed : history->now.began;

	if (!history->now.began)
		return;
	history->init += seconds(history->now.began, init);
	history->training += seconds(init, failed);
	history->ending += seconds(failed, over);
	history->waiting += seconds(over, now);
	json_object_set_new(history->now.entry, "init", json_real(seconds(history->now.began, init)));
	json_object_set_new(history->now.entry, "training", json_real(seconds(init, failed)));
	json_object_set_new(history->now.entry, "ending", json_real(seconds(failed, over)));
	history->now.began = history->now.init = history->now.failed = 0;
}

void hvd_restart_history_begin(struct hvd_restart_history *history, const struct hvd_machine *machine, hvd_time now)
{
	if (hvd_machine_generation(machine) <= 1)
		history->start = seconds(history->began, now);
	close_current(history, hvd_machine_over_at(machine), now);
	history->now.began = now;
	history->now.entry = json_pack("{s:i, s:f, s:f, s:o}", "generation", hvd_machine_generation(machine), "time",
				       (double)hvd_wall_at(now) / 1e9, "began", seconds(history->began, now), "hosts",
				       hosts_of(machine));
	json_array_append_new(history->list, history->now.entry);
	if (json_array_size(history->list) > MOST_LISTED)
		json_array_remove(history->list, 0);
}

void hvd_restart_history_init_done(struct hvd_restart_history *history, hvd_time now)
{
	json_t *entry;
	size_t i;

	if (!history->now.began || history->now.init || history->now.failed)
		return;
	history->now.init = now;
	if (history->inits)
		return;
	/* Now it is known that the generations before have not trained. */
	history->inits = true;
	history->init += history->training;
	history->training = 0;
	json_array_foreach(history->list, i, entry)
	{
		if (entry == history->now.entry)
			continue;
		json_object_set(entry, "init", json_object_get(entry, "training"));
		json_object_set_new(entry, "training", json_real(0));
	}
}

void hvd_restart_history_ends(struct hvd_restart_history *history, const char *cause, const char *host, hvd_time now)
{
	if (!history->now.began || history->now.failed)
		return;
	history->now.failed = now;
	json_object_set_new(history->now.entry, "cause", json_string(cause));
	if (host)
		json_object_set_new(history->now.entry, "host", json_string(host));
}

void hvd_restart_history_failed(struct hvd_restart_history *history, const char *cause, const char *error,
				const char *host, int rank, hvd_time now)
{
	if (!history->now.began || history->now.failed)
		return;
	hvd_restart_history_ends(history, cause, host, now);
	json_object_set_new(history->now.entry, "rank", json_integer(rank));
	if (error)
		json_object_set_new(history->now.entry, "error", json_string(error));
}

static bool same(const json_t *a, const json_t *b, const char *key)
{
	return json_equal(json_object_get(a, key), json_object_get(b, key));
}

bool hvd_restart_history_repeats(const struct hvd_restart_history *history)
{
	const json_t *last = history->now.entry, *before;
	size_t n = json_array_size(history->list);

	if (!history->now.failed || !json_object_get(last, "error"))
		return false;
	for (size_t i = n - 1; i-- > 0;) {
		before = json_array_get(history->list, i);
		if (json_object_get(before, "rank"))
			return same(last, before, "rank") && same(last, before, "error") && !same(last, before, "host");
	}
	return false;
}

void hvd_restart_history_end(struct hvd_restart_history *history, struct hvd_result *result, hvd_time now,
			     const struct hvd_log *log)
{
	double total = seconds(history->began, now), share;

	close_current(history, now, now);
	if (json_array_size(history->list) == 0)
		return;
	share = total > 0 ? history->training / total : 0;
	result->history = json_incref(history->list);
	result->goodput = json_pack("{s:f, s:f, s:f, s:f, s:f, s:f, s:f}", "total", total, "start", history->start,
				    "init", history->init, "training", history->training, "ending", history->ending,
				    "waiting", history->waiting, "goodput", share);
	if (json_array_size(history->list) <= 1)
		return;
	if (history->inits)
		hvd_info(log,
			 "%.1f %% of %.1f s were training; starting took %.1f s, ranks until init_process_group() %.1f "
			 "s, ending ranks %.1f s, waiting for ranks to start again %.1f s",
			 share * 100, total, history->start, history->init, history->ending, history->waiting);
	else
		hvd_info(log,
			 "ranks ran in %.1f %% of %.1f s; starting took %.1f s, ending ranks %.1f s, waiting for ranks "
			 "to start again %.1f s",
			 share * 100, total, history->start, history->ending, history->waiting);
}
