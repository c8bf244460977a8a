/* SPDX-License-Identifier: Apache-2.0 */
#include "restart_history.h"

/* Older generations are counted, but not listed. */
#define MOST_LISTED 1000

/* The generation has ended, and another one, or the end of the job, follows now. */
static void close_current(const struct hvd_restart_history *history, hvd_time now)
{
	const struct hvd_phases phases = hvd_goodput_current(&history->goodput, now);

	if (!history->entry)
		return;
	json_object_set_new(history->entry, "init", json_real(phases.init));
	json_object_set_new(history->entry, "training", json_real(phases.training));
	json_object_set_new(history->entry, "ending", json_real(phases.ending));
}

static void begin(struct hvd_restart_history *history, const struct hvd_event *event)
{
	close_current(history, event->at);
	history->entry = json_pack("{s:I, s:f, s:f, s:s}", "generation", (json_int_t)event->generation, "time",
				   (double)hvd_wall_at(event->at) / 1e9, "began",
				   hvd_goodput_seconds(history->goodput.began, event->at), "hosts", event->hosts);
	json_array_append_new(history->list, history->entry);
	if (json_array_size(history->list) > MOST_LISTED)
		json_array_remove(history->list, 0);
}

/* Now it is known that the generations before have not trained. */
static void first_init(struct hvd_restart_history *history)
{
	json_t *entry;
	size_t i;

	json_array_foreach(history->list, i, entry)
	{
		if (entry == history->entry)
			continue;
		json_object_set(entry, "init", json_object_get(entry, "training"));
		json_object_set_new(entry, "training", json_real(0));
	}
}

/* Why the generation ends. Only the first reason counts. */
static void ends(struct hvd_restart_history *history, const struct hvd_event *event)
{
	bool failed = event->name == HVD_EV_GENERATION_FAILED;

	if (!history->entry || history->goodput.now.failed)
		return;
	json_object_set_new(history->entry, "cause", json_string(failed ? event->how : event->why));
	if (event->host)
		json_object_set_new(history->entry, "host", json_string(event->host));
	if (failed)
		json_object_set_new(history->entry, "rank", json_integer(event->rank));
	if (failed && event->error)
		json_object_set_new(history->entry, "error", json_string(event->error));
}

static void on_event(const struct hvd_event *event, void *arg)
{
	struct hvd_restart_history *history = arg;
	const bool inits = history->goodput.inits;

	if (event->world != history->world)
		return;
	if (event->name == HVD_EV_GENERATION_BEGAN)
		begin(history, event);
	else if (event->name == HVD_EV_GENERATION_FAILED || event->name == HVD_EV_GENERATION_ENDING)
		ends(history, event);
	hvd_goodput_event(&history->goodput, event);
	if (!inits && history->goodput.inits)
		first_init(history);
}

void hvd_restart_history_init(struct hvd_restart_history *history, struct hvd_event_log *events, unsigned world,
			      hvd_time began)
{
	*history = (struct hvd_restart_history){
		.events = events, .world = world, .goodput = {.began = began}, .list = json_array()};
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
	const json_t *last = history->entry, *before;
	size_t n = json_array_size(history->list);

	if (!history->goodput.now.failed || !json_object_get(last, "error"))
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
	const double total = hvd_goodput_seconds(history->goodput.began, now);
	const double share = hvd_goodput_share(&history->goodput, now);
	const struct hvd_phases phases = hvd_goodput_phases(&history->goodput, now);

	close_current(history, now);
	if (json_array_size(history->list) == 0)
		return;
	result->history = json_incref(history->list);
	result->goodput = json_pack("{s:f, s:f, s:f, s:f, s:f, s:f, s:f}", "total", total, "start", phases.start,
				    "init", phases.init, "training", phases.training, "ending", phases.ending,
				    "waiting", phases.waiting, "goodput", share);
	if (json_array_size(history->list) <= 1)
		return;
	if (history->goodput.inits)
		hvd_info(log,
			 "%.1f %% of %.1f s were training; starting took %.1f s, ranks until init_process_group() %.1f "
			 "s, ending ranks %.1f s, waiting for ranks to start again %.1f s",
			 share * 100, total, phases.start, phases.init, phases.ending, phases.waiting);
	else
		hvd_info(log,
			 "ranks ran in %.1f %% of %.1f s; starting took %.1f s, ending ranks %.1f s, waiting for ranks "
			 "to start again %.1f s",
			 share * 100, total, phases.start, phases.ending, phases.waiting);
}
