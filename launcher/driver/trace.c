/* SPDX-License-Identifier: Apache-2.0 */
#include "trace.h"

#include "lib/base/printable.h"
#include "lib/base/writefile.h"
#include "lib/base/xalloc.h"

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

struct hvd_trace {
	hvd_time began, registered;
	struct {
		uint32_t number; /* 0 = none has begun */
		hvd_time began, first_init, last_init, ends;
		char *why;
	} now;
	struct span *over; /* the first MOST / 2, and behind them a ring */
	size_t n;          /* all that there were */
};

struct hvd_trace *hvd_trace_create(void)
{
	struct hvd_trace *trace = hvd_xcalloc(1, sizeof(*trace));

	trace->began = hvd_now();
	return trace;
}

static size_t kept(const struct hvd_trace *trace)
{
	return trace->n < MOST ? trace->n : MOST;
}

void hvd_trace_destroy(struct hvd_trace *trace)
{
	if (!trace)
		return;
	for (size_t i = 0; i < kept(trace); i++)
		free(trace->over[i].why);
	free(trace->over);
	free(trace->now.why);
	free(trace);
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

void hvd_trace_registered(struct hvd_trace *trace)
{
	if (trace && !trace->registered)
		trace->registered = hvd_now();
}

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

void hvd_trace_generation(struct hvd_trace *trace)
{
	struct span spans[GENERATION_SPANS], span;
	const hvd_time now = hvd_now();
	uint32_t number;

	if (!trace)
		return;
	number = trace->now.number + 1;
	if (number == 1) {
		span = queue_span(trace);
		keep(trace, &span);
		keep(trace, &(struct span){.row = LAUNCH, .name = "start", .from = trace->registered, .to = now});
	} else {
		generation_spans(trace, now, spans);
		for (size_t i = 0; i < GENERATION_SPANS; i++)
			keep(trace, &spans[i]);
	}
	memset(&trace->now, 0, sizeof(trace->now));
	trace->now.number = number;
	trace->now.began = now;
}

void hvd_trace_init(struct hvd_trace *trace, bool all)
{
	const hvd_time now = hvd_now();

	if (!trace || trace->now.ends)
		return;
	if (!trace->now.first_init)
		trace->now.first_init = now;
	if (all && !trace->now.last_init)
		trace->now.last_init = now;
}

void hvd_trace_ends(struct hvd_trace *trace, const char *why)
{
	if (!trace || !trace->now.number || trace->now.ends)
		return;
	trace->now.ends = hvd_now();
	trace->now.why = reason(why);
}

#define HOST_SPANS 5

static void host_spans(const struct hvd_trace *trace, const struct hvd_host_table *table, uint32_t h, hvd_time ended,
		       struct span spans[HOST_SPANS])
{
	const struct hvd_host_entry *host = &table->hosts[h];
	const hvd_time reported = host->reported_at ? host->reported_at : host->registered_at;
	const struct span all[HOST_SPANS] = {
		{.name = "wait for the host",
		 .from = host->expected_at ? host->expected_at : trace->began,
		 .to = host->registered_at},
		{.name = "wait for the other hosts", .from = host->registered_at, .to = host->probed_at},
		{.name = "probe", .from = host->probed_at, .to = host->reported_at},
		{.name = "wait for the plan", .from = reported, .to = host->planned_at},
		{.name = "part of the job", .from = host->planned_at, .to = ended},
	};

	for (size_t i = 0; i < HOST_SPANS; i++) {
		spans[i] = all[i];
		spans[i].row = h;
	}
}

void hvd_trace_left(struct hvd_trace *trace, const struct hvd_host_table *table, uint32_t host, const char *why)
{
	struct span spans[HOST_SPANS];
	size_t at = 0; /* the phase that the host leaves in */

	if (!trace)
		return;
	host_spans(trace, table, host, 0, spans);
	while (at < HOST_SPANS - 1 && !(spans[at].from && !spans[at].to))
		at++;
	spans[at].to = hvd_now();
	spans[at].why = why ? reason(why) : NULL;
	for (size_t i = 0; i < HOST_SPANS; i++)
		keep(trace, &spans[i]);
}

/* ---- the file ---- */

static void put(json_t *events, const struct span *span, const struct hvd_trace *trace, uint32_t n_hosts)
{
	json_t *event, *args;

	if (!span->from || !span->to)
		return;
	event = json_pack("{s:s, s:s, s:I, s:i, s:I, s:I}", "ph", "X", "name", span->name, "pid",
			  (json_int_t)(span->row == LAUNCH ? n_hosts : span->row), "tid", 0, "ts",
			  (json_int_t)((span->from - trace->began) / 1000), "dur",
			  (json_int_t)((span->to - span->from) / 1000));
	args = json_object();
	if (span->generation)
		json_object_set_new(args, "generation", json_integer(span->generation));
	if (span->why)
		json_object_set_new(args, "why", json_string(span->why));
	if (json_object_size(args) > 0)
		json_object_set(event, "args", args);
	json_decref(args);
	json_array_append_new(events, event);
}

static void name_row(json_t *events, uint32_t row, const char *name)
{
	json_array_append_new(events, json_pack("{s:s, s:s, s:I, s:{s:s}}", "ph", "M", "name", "process_name", "pid",
						(json_int_t)row, "args", "name", name));
}

static void put_all(json_t *events, const struct span *spans, size_t n, const struct hvd_trace *trace, uint32_t n_hosts)
{
	for (size_t i = 0; i < n; i++)
		put(events, &spans[i], trace, n_hosts);
}

int hvd_trace_write(const struct hvd_trace *trace, const char *path, const struct hvd_host_table *table, hvd_time ended,
		    struct hvd_err *err)
{
	struct span hosts[HOST_SPANS], now[GENERATION_SPANS];
	json_t *events, *file;
	char buf[32], *text;
	int rc;

	if (!trace)
		return 0;
	events = json_array();
	for (uint32_t h = 0; h < table->n; h++) {
		name_row(events, h, hvd_host_table_name(table, h, buf));
		host_spans(trace, table, h, ended, hosts);
		put_all(events, hosts, HOST_SPANS, trace, table->n);
	}
	name_row(events, table->n, "launch");
	put_all(events, trace->over, kept(trace), trace, table->n);
	if (trace->now.number) {
		generation_spans(trace, ended, now);
		put_all(events, now, GENERATION_SPANS, trace, table->n);
	} else {
		now[0] = queue_span(trace);
		put(events, &now[0], trace, table->n);
	}
	file = json_pack("{s:s, s:o}", "displayTimeUnit", "ms", "traceEvents", events);
	text = json_dumps(file, JSON_COMPACT);
	rc = hvd_write_file(path, "the launch trace", text ? text : "", text ? strlen(text) : 0, 0, 0666, err);
	free(text);
	json_decref(file);
	return rc;
}
