/* SPDX-License-Identifier: Apache-2.0 */
#include "trace.h"

#include "lib/base/cleanup.h"
#include "lib/base/file.h"
#include "lib/base/printable.h"
#include "lib/base/xalloc.h"
#include "lib/host/stage.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

/* Of the phases that are over so many are kept: the first half of them, and the last ones. */
#define MOST 32768
/* Bytes of a reason, which may be an agent's text. */
#define WHY_SIZE 256
/* The row below those of the hosts. */
#define LAUNCH UINT32_MAX

/* One phase. It has begun if `from` is not 0, and is over if `to` is not. */
struct span {
	uint32_t row;
	uint32_t generation; /* 0 = of none */
	const char *name;
	hvd_time from, to;
	char *why; /* owned; or NULL */
};

/* Of a host: when it reached each stage; 0 = it has not. The events have the order of the stages. */
struct row {
	char *name;
	hvd_time at[HVD_N_STAGES];
};
_Static_assert(HVD_EV_HOST_HERE - HVD_EV_HOST_COMING == HVD_STAGE_HERE - HVD_STAGE_COMING, "an event for each");

struct hvd_trace {
	const char *path;
	const struct hvd_log *log;
	hvd_time began, registered;
	struct row *rows;
	uint32_t n_rows;
	struct {
		uint32_t number; /* 0 = none has begun */
		hvd_time began, first_init, last_init, ends;
		char *why;
	} now;
	struct span *over; /* the first MOST / 2, and behind them a ring */
	size_t n;          /* all that there were */
};

static size_t n_kept(const struct hvd_trace *trace)
{
	return trace->n < MOST ? trace->n : MOST;
}

static char *reason(const char *why)
{
	char text[WHY_SIZE];

	hvd_printable(why, text, sizeof(text));
	return hvd_xstrdup(text);
}

/* Takes over the span's reason. */
static void keep(struct hvd_trace *trace, struct span *span)
{
	size_t at = trace->n < MOST ? trace->n : MOST / 2 + trace->n % (MOST / 2);

	if (!span->from || !span->to) {
		free(span->why);
		return;
	}
	if (trace->n >= MOST)
		free(trace->over[at].why);
	else if ((trace->n & (trace->n - 1)) == 0) /* room for the next power of two */
		trace->over = hvd_xrealloc(trace->over, trace->n ? 2 * trace->n : 1, sizeof(*trace->over));
	trace->over[at] = *span;
	trace->n++;
}

/* ---- what happens ---- */

static struct span queue_span(const struct hvd_trace *trace)
{
	return (struct span){
		.row = LAUNCH, .name = "queue, and start of the agents", .from = trace->began, .to = trace->registered};
}

#define GENERATION_SPANS 4

/* The phases of the current generation, which is over at `ended` (0 = it is not). No reason is copied. */
static void generation_spans(const struct hvd_trace *trace, hvd_time ended, struct span spans[GENERATION_SPANS])
{
	const hvd_time first = trace->now.first_init, last = trace->now.last_init;
	const hvd_time ran = trace->now.ends ? trace->now.ends : ended;
	const struct span all[GENERATION_SPANS] = {
		{.name = "ranks start, until the first init", .from = trace->now.began, .to = first},
		{.name = "init, from the first rank to the last", .from = first, .to = last},
		{.name = "ranks run", .from = last ? last : trace->now.began, .to = ran},
		{.name = "ranks end, or wait for the next generation",
		 .from = trace->now.ends,
		 .to = ended,
		 .why = trace->now.why},
	};

	for (size_t i = 0; i < GENERATION_SPANS; i++) {
		spans[i] = all[i];
		spans[i].row = LAUNCH;
		spans[i].generation = trace->now.number;
	}
}

static void begin_generation(struct hvd_trace *trace, const struct hvd_event *event)
{
	struct span spans[GENERATION_SPANS], span = queue_span(trace);

	if (!trace->now.number) {
		keep(trace, &span);
		keep(trace, &(struct span){.row = LAUNCH, .name = "start", .from = trace->registered, .to = event->at});
	} else {
		generation_spans(trace, event->at, spans);
		for (size_t i = 0; i < GENERATION_SPANS; i++)
			keep(trace, &spans[i]);
	}
	memset(&trace->now, 0, sizeof(trace->now));
	trace->now.number = (uint32_t)event->generation;
	trace->now.began = event->at;
}

static void init(struct hvd_trace *trace, hvd_time at, bool all)
{
	if (trace->now.ends)
		return;
	if (!trace->now.first_init)
		trace->now.first_init = at;
	if (all)
		trace->now.last_init = at;
}

/* Ranks have failed or are being ended. Only the first reason counts. */
static void ends(struct hvd_trace *trace, const struct hvd_event *event)
{
	hvd_cleanup_free char *why = NULL;

	if (!trace->now.number || trace->now.ends)
		return;
	trace->now.ends = event->at;
	if (event->name == HVD_EV_GENERATION_FAILED)
		why = hvd_xasprintf("rank %d on %s: %s", (int)event->rank, event->host, event->how);
	else if (event->name == HVD_EV_GENERATION_ENDING)
		why = hvd_xasprintf("%s%s%s", event->host ? event->host : "", event->host ? ": " : "", event->why);
	else
		why = hvd_xstrdup("the job ends");
	trace->now.why = reason(why);
}

#define HOST_SPANS 5

static void host_spans(const struct hvd_trace *trace, uint32_t h, hvd_time ended, struct span spans[HOST_SPANS])
{
	const struct row *host = &trace->rows[h];
	const hvd_time *at = host->at,
		       reported = at[HVD_STAGE_REPORTED] ? at[HVD_STAGE_REPORTED] : at[HVD_STAGE_REGISTERED];
	const struct span all[HOST_SPANS] = {
		{.name = "wait for the host",
		 .from = at[HVD_STAGE_COMING] ? at[HVD_STAGE_COMING] : trace->began,
		 .to = at[HVD_STAGE_REGISTERED]},
		{.name = "wait for the other hosts", .from = at[HVD_STAGE_REGISTERED], .to = at[HVD_STAGE_PROBING]},
		{.name = "probe", .from = at[HVD_STAGE_PROBING], .to = at[HVD_STAGE_REPORTED]},
		{.name = "wait for the plan", .from = reported, .to = at[HVD_STAGE_HERE]},
		{.name = "part of the job", .from = at[HVD_STAGE_HERE], .to = ended},
	};

	for (size_t i = 0; i < HOST_SPANS; i++) {
		spans[i] = all[i];
		spans[i].row = h;
	}
}

/* The host leaves, in the phase that goes on. */
static void leave(struct hvd_trace *trace, uint32_t h, const struct hvd_event *event)
{
	struct span spans[HOST_SPANS];
	size_t at = 0;

	host_spans(trace, h, 0, spans);
	while (at < HOST_SPANS - 1 && !(spans[at].from && !spans[at].to))
		at++;
	spans[at].to = event->at;
	spans[at].why = event->why ? reason(event->why) : NULL;
	for (size_t i = 0; i < HOST_SPANS; i++)
		keep(trace, &spans[i]);
	trace->rows[h] = (struct row){.name = trace->rows[h].name, .at = {[HVD_STAGE_COMING] = event->at}};
}

/* The row of the event's host, whose number it may not know. */
static uint32_t row_of(struct hvd_trace *trace, const struct hvd_event *event)
{
	uint32_t h = event->index, had = trace->n_rows;

	if (h == UINT32_MAX)
		for (h = 0; h < had && !(trace->rows[h].name && strcmp(trace->rows[h].name, event->host) == 0); h++)
			;
	if (h >= had) {
		trace->n_rows = h + 1;
		trace->rows = hvd_xrealloc(trace->rows, trace->n_rows, sizeof(*trace->rows));
		memset(&trace->rows[had], 0, (trace->n_rows - had) * sizeof(*trace->rows));
	}
	if (!trace->rows[h].name)
		trace->rows[h].name = hvd_xstrdup(event->host);
	return h;
}

static void host_event(struct hvd_trace *trace, const struct hvd_event *event)
{
	const uint32_t h = row_of(trace, event);

	if (event->name == HVD_EV_HOST_REGISTERED && !trace->registered)
		trace->registered = event->at;
	if (event->name <= HVD_EV_HOST_HERE)
		trace->rows[h].at[HVD_STAGE_COMING + (event->name - HVD_EV_HOST_COMING)] = event->at;
	else
		leave(trace, h, event);
}

/* ---- the file ---- */

static void put(json_t *events, const struct span *span, const struct hvd_trace *trace)
{
	json_auto_t *args = json_object();
	json_t *event;

	if (!span->from || !span->to)
		return;
	event = json_pack("{s:s, s:s, s:I, s:i, s:I, s:I}", "ph", "X", "name", span->name, "pid",
			  (json_int_t)(span->row == LAUNCH ? trace->n_rows : span->row), "tid", 0, "ts",
			  (json_int_t)((span->from - trace->began) / 1000), "dur",
			  (json_int_t)((span->to - span->from) / 1000));
	if (span->generation)
		json_object_set_new(args, "generation", json_integer(span->generation));
	if (span->why)
		json_object_set_new(args, "why", json_string(span->why));
	if (json_object_size(args) > 0)
		json_object_set(event, "args", args);
	json_array_append_new(events, event);
}

static void name_row(json_t *events, uint32_t row, const char *name)
{
	json_array_append_new(events, json_pack("{s:s, s:s, s:I, s:{s:s}}", "ph", "M", "name", "process_name", "pid",
						(json_int_t)row, "args", "name", name));
}

static void put_all(json_t *events, const struct span *spans, size_t n, const struct hvd_trace *trace)
{
	for (size_t i = 0; i < n; i++)
		put(events, &spans[i], trace);
}

static void write_file(const struct hvd_trace *trace, hvd_time ended)
{
	struct span hosts[HOST_SPANS], now[GENERATION_SPANS];
	json_t *events = json_array();
	json_auto_t *file = json_pack("{s:s, s:o}", "displayTimeUnit", "ms", "traceEvents", events);
	hvd_cleanup_free char *text = NULL;
	struct hvd_err err = {0};

	for (uint32_t h = 0; h < trace->n_rows; h++) {
		if (!trace->rows[h].name)
			continue;
		name_row(events, h, trace->rows[h].name);
		host_spans(trace, h, ended, hosts);
		put_all(events, hosts, HOST_SPANS, trace);
	}
	name_row(events, trace->n_rows, "launch");
	put_all(events, trace->over, n_kept(trace), trace);
	if (trace->now.number) {
		generation_spans(trace, ended, now);
		put_all(events, now, GENERATION_SPANS, trace);
	} else {
		now[0] = queue_span(trace);
		put(events, &now[0], trace);
	}
	text = json_dumps(file, JSON_COMPACT);
	if (hvd_write_file(trace->path, "the launch trace", text ? text : "", text ? strlen(text) : 0, 0, 0666, &err) !=
	    0)
		hvd_log_err(trace->log, &err);
}

static void on_event(const struct hvd_event *event, void *arg)
{
	struct hvd_trace *trace = arg;
	bool first = !trace->now.number;

	if (event->world > 0)
		return;
	switch (event->name) {
	case HVD_EV_HOST_COMING:
	case HVD_EV_HOST_REGISTERED:
	case HVD_EV_HOST_PROBING:
	case HVD_EV_HOST_REPORTED:
	case HVD_EV_HOST_HERE:
	case HVD_EV_HOST_SPARE:
	case HVD_EV_HOST_LEFT:
	case HVD_EV_HOST_LOST:
		host_event(trace, event);
		break;
	case HVD_EV_GENERATION_BEGAN:
		begin_generation(trace, event);
		if (first)
			write_file(trace, 0);
		break;
	case HVD_EV_INIT_BEGAN:
	case HVD_EV_INIT_DONE:
		init(trace, event->at, event->name == HVD_EV_INIT_DONE);
		break;
	case HVD_EV_GENERATION_FAILED:
	case HVD_EV_GENERATION_ENDING:
	case HVD_EV_LAUNCH_ENDING:
		ends(trace, event);
		break;
	case HVD_EV_LAUNCH_ENDED:
		write_file(trace, event->at);
		break;
	default:
		break;
	}
}

struct hvd_trace *hvd_trace_create(struct hvd_event_log *events, const char *path, const struct hvd_log *log)
{
	struct hvd_trace *trace = hvd_xcalloc(1, sizeof(*trace));

	*trace = (struct hvd_trace){.path = path, .log = log, .began = hvd_now()};
	hvd_event_log_listen(events, on_event, trace);
	return trace;
}

void hvd_trace_destroy(struct hvd_trace *trace)
{
	if (!trace)
		return;
	for (size_t i = 0; i < n_kept(trace); i++)
		free(trace->over[i].why);
	for (uint32_t h = 0; h < trace->n_rows; h++)
		free(trace->rows[h].name);
	free(trace->rows);
	free(trace->over);
	free(trace->now.why);
	free(trace);
}
