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

int hvd_trace_write(const char *path, const struct hvd_host_table *table, hvd_time began, struct hvd_err *err)
{
	json_t *events = json_array(), *trace;
	char buf[32], *text;
	int rc;

	for (uint32_t h = 0; h < table->n; h++) {
		const struct hvd_host_entry *state = &table->hosts[h];

		json_array_append_new(events,
				      json_pack("{s:s, s:s, s:I, s:{s:s}}", "ph", "M", "name", "process_name", "pid",
						(json_int_t)h, "args", "name", hvd_host_table_name(table, h, buf)));
		phase(events, h, "wait for the host", began, state->registered_at, began);
		phase(events, h, "wait for the other hosts", state->registered_at, state->probed_at, began);
		phase(events, h, "probe", state->probed_at, state->reported_at, began);
		phase(events, h, "wait for the plan", state->reported_at ? state->reported_at : state->registered_at,
		      state->planned_at, began);
	}
	trace = json_pack("{s:s, s:o}", "displayTimeUnit", "ms", "traceEvents", events);
	text = json_dumps(trace, JSON_COMPACT);
	rc = hvd_write_file(path, "the launch trace", text ? text : "", text ? strlen(text) : 0, 0, 0666, err);
	free(text);
	json_decref(trace);
	return rc;
}
