/* SPDX-License-Identifier: Apache-2.0 */
#include "trace.h"

#include "lib/base/writefile.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

static void phase(json_t *events, uint32_t host, const char *name, hvd_time from, hvd_time to, hvd_time began)
{
	if (from && to)
		json_array_append_new(events,
				      json_pack("{s:s, s:s, s:I, s:i, s:I, s:I}", "ph", "X", "name", name, "pid",
						(json_int_t)host, "tid", 0, "ts", (json_int_t)((from - began) / 1000),
						"dur", (json_int_t)((to - from) / 1000)));
}

static void name_row(json_t *events, uint32_t row, const char *name)
{
	json_array_append_new(events, json_pack("{s:s, s:s, s:I, s:{s:s}}", "ph", "M", "name", "process_name", "pid",
						(json_int_t)row, "args", "name", name));
}

/* A row below those of the hosts. Where srun makes the job, the driver waits while the job is in the queue. */
static void add_launch(json_t *events, const struct hvd_host_table *table, const struct hvd_trace_launch *launch)
{
	hvd_time registered = 0, planned = 0, began = launch->began;
	uint32_t row = table->n;

	for (uint32_t h = 0; h < table->n; h++) {
		const struct hvd_host_entry *host = &table->hosts[h];

		if (host->registered_at && (!registered || host->registered_at < registered))
			registered = host->registered_at;
		if (host->planned_at > planned)
			planned = host->planned_at;
	}
	name_row(events, row, "launch");
	phase(events, row, "queue, and start of the agents", began, registered, began);
	phase(events, row, "start", registered, planned, began);
	phase(events, row, "ranks start, until the first init_process_group()", planned, launch->first_init, began);
	phase(events, row, "init_process_group(), from the first rank to the last", launch->first_init,
	      launch->last_init, began);
	phase(events, row, "ranks run", launch->last_init ? launch->last_init : planned, launch->ended, began);
}

int hvd_trace_write(const char *path, const struct hvd_host_table *table, const struct hvd_trace_launch *launch,
		    struct hvd_err *err)
{
	const hvd_time began = launch->began;
	json_t *events = json_array(), *trace;
	char buf[32], *text;
	int rc;

	for (uint32_t h = 0; h < table->n; h++) {
		const struct hvd_host_entry *state = &table->hosts[h];

		name_row(events, h, hvd_host_table_name(table, h, buf));
		phase(events, h, "wait for the host", began, state->registered_at, began);
		phase(events, h, "wait for the other hosts", state->registered_at, state->probed_at, began);
		phase(events, h, "probe", state->probed_at, state->reported_at, began);
		phase(events, h, "wait for the plan", state->reported_at ? state->reported_at : state->registered_at,
		      state->planned_at, began);
	}
	add_launch(events, table, launch);
	trace = json_pack("{s:s, s:o}", "displayTimeUnit", "ms", "traceEvents", events);
	text = json_dumps(trace, JSON_COMPACT);
	rc = hvd_write_file(path, "the launch trace", text ? text : "", text ? strlen(text) : 0, 0, 0666, err);
	free(text);
	json_decref(trace);
	return rc;
}
