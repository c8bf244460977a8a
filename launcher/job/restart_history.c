/* SPDX-License-Identifier: Apache-2.0 */
#include "restart_history.h"

/* Older generations are counted, but not listed. */
#define MOST_LISTED 1000

static double seconds(hvd_time from, hvd_time to)
{
	return to > from ? (double)((to - from) / 1000000) / 1000 : 0;
}

/* The generation has ended, and another one, or the end of the job, follows now. */
static void close_current(struct hvd_restart_history *history, hvd_time now)
{
	const hvd_time over = history->now.over ? history->now.over : now;
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
	history->now.began = history->now.init = history->now.failed = history->now.over = 0;
}

static void begin(struct hvd_restart_history *history, const struct hvd_event *event)
{
	if (event->generation <= 1)
		history->start = seconds(history->began, event->at);
	close_current(history, event->at);
	history->now.began = event->at;
	history->now.entry = json_pack("{s:I, s:f, s:f, s:s}", "generation", (json_int_t)event->generation, "time",
				       (double)hvd_wall_at(event->at) / 1e9, "began",
				       seconds(history->began, event->at), "hosts", event->hosts);
	json_array_append_new(history->list, history->now.entry);
	if (json_array_size(history->list) > MOST_LISTED)
		json_array_remove(history->list, 0);
}

static void init_done(struct hvd_restart_history *history, hvd_time now)
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

/* Why the generation ends. Only the first reason counts. */
static void ends(struct hvd_restart_history *history, const struct hvd_event *event)
{
	bool failed = event->name == HVD_EV_GENERATION_FAILED;

	if (!history->now.began || history->now.failed)
		return;
	history->now.failed = event->at;
	json_object_set_new(history->now.entry, "cause", json_string(failed ? event->how : event->why));
	if (event->host)
		json_object_set_new(history->now.entry, "host", json_string(event->host));
	if (failed)
		json_object_set_new(history->now.entry, "rank", json_integer(event->rank));
	if (failed && event->error)
		json_object_set_new(history->now.entry, "error", json_string(event->error));
}

static void on_event(const struct hvd_event *event, void *arg)
{
	struct hvd_restart_history *history = arg;

	if (event->name == HVD_EV_GENERATION_BEGAN)
		begin(history, event);
	else if (event->name == HVD_EV_INIT_DONE)
		init_done(history, event->at);
	else if (event->name == HVD_EV_GENERATION_FAILED || event->name == HVD_EV_GENERATION_ENDING)
		ends(history, event);
	else if (event->name == HVD_EV_GENERATION_ENDED)
		history->now.over = event->at;
}

void hvd_restart_history_init(struct hvd_restart_history *history, struct hvd_event_log *events, hvd_time began)
{
	*history = (struct hvd_restart_history){.events = events, .began = began, .list = json_array()};
	hvd_event_log_listen(events, on_event, history);
}

void hvd_restart_history_clear(struct hvd_restart_history *history)
{
	hvd_event_log_unlisten(history->events, history);
	json_decref(history->list);
	*history = (struct hvd_restart_history){0};
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

	close_current(history, now);
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
