/* SPDX-License-Identifier: Apache-2.0 */
#include "event_log.h"

#include "lib/base/printable.h"
#include "lib/base/xalloc.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/* Bytes of a text in a line. A line must fit into a pipe at once, and JSON writes some characters as two. */
#define TEXT_SIZE 320

enum field {
#define ID(field) FIELD_##field,
	HVD_EVENT_FIELDS(ID, ID)
#undef ID
	N_FIELDS
};

static const struct {
	const char *name;
	bool number;
	size_t at;
} fields[N_FIELDS] = {
#define TEXT(field)   {#field, false, offsetof(struct hvd_event, field)},
#define NUMBER(field) {#field, true, offsetof(struct hvd_event, field)},
	HVD_EVENT_FIELDS(TEXT, NUMBER)
#undef TEXT
#undef NUMBER
};

static const struct {
	const char *name;
	unsigned fields;
} rows[HVD_N_EVENTS] = {
#define F(field)              (1U << FIELD_##field)
#define ROW(id, name, fields) {name, fields},
	HVD_EVENT_ROWS(ROW)
#undef F
#undef ROW
};

const char *hvd_event_name(enum hvd_event_name name)
{
	return rows[name].name;
}

char *hvd_event_fields(enum hvd_event_name name)
{
	char *list = hvd_xstrdup("");

	for (size_t f = 0; f < N_FIELDS; f++)
		if (rows[name].fields & 1U << f)
			hvd_xappendf(&list, "%s%s", *list ? "," : "", fields[f].name);
	return list;
}

static void set_text(json_t *context, const char *key, const char *text)
{
	char shown[TEXT_SIZE];

	if (!text || !*text)
		return;
	hvd_printable(text, shown, sizeof(shown));
	json_object_set_new(context, key, json_string(shown));
}

static void set_field(json_t *context, enum field f, const struct hvd_event *event)
{
	const void *value = (const char *)event + fields[f].at;
	int64_t number;

	if (!fields[f].number) {
		set_text(context, fields[f].name, *(const char *const *)value);
		return;
	}
	number = *(const int64_t *)value;
	if (number != 0 || (f != FIELD_job && f != FIELD_generation))
		json_object_set_new(context, fields[f].name, json_integer(number));
}

size_t hvd_event_line(const char *launch, const struct hvd_event *event, char line[HVD_EVENT_LINE + 1])
{
	const int64_t wall = hvd_wall_at(event->at);
	json_t *context = json_object();
	size_t len;

	set_text(context, "launch", launch);
	for (size_t f = 0; f < N_FIELDS; f++)
		if (rows[event->name].fields & 1U << f)
			set_field(context, (enum field)f, event);
	/* A number of seconds with six digits; as a double it would have others behind them. */
	len = (size_t)snprintf(line, HVD_EVENT_LINE, "{\"timestamp\":%lld.%06lld,\"name\":\"%s\",\"context\":",
			       (long long)(wall / 1000000000), (long long)(wall / 1000 % 1000000),
			       rows[event->name].name);
	len += json_dumpb(context, line + len, HVD_EVENT_LINE - 2 - len, JSON_COMPACT);
	json_decref(context);
	memcpy(line + len, "}\n", 3);
	return len + 2;
}
