/* SPDX-License-Identifier: Apache-2.0 */
#include "event_log.h"

#include "lib/base/printable.h"
#include "lib/base/xalloc.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/* Bytes of a text in a line, and of one that has several lines of its own. A line must fit into a pipe at once, and JSON
 * writes some characters as two: if they do not fit, all texts of the event are shorter. */
#define TEXT_SIZE 320
#define LONG_SIZE 960

enum field {
#define ID(field) FIELD_##field,
	HVD_EVENT_FIELDS(ID, ID)
#undef ID
	N_FIELDS
};
_Static_assert(N_FIELDS <= 32, "a set of them is bits of 32");

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

static void set_text(json_t *context, const char *key, const char *text, size_t size)
{
	char shown[LONG_SIZE];

	if (!text || !*text)
		return;
	hvd_printable(text, shown, size);
	json_object_set_new(context, key, json_string(shown));
}

static void set_field(json_t *context, enum field f, const struct hvd_event *event, bool shorter)
{
	const bool is_long = f == FIELD_command || f == FIELD_lines || f == FIELD_stack;
	const void *value = (const char *)event + fields[f].at;
	int64_t number;

	if (!fields[f].number) {
		set_text(context, fields[f].name, *(const char *const *)value,
			 (is_long ? LONG_SIZE : TEXT_SIZE) / (shorter ? 2 : 1));
		return;
	}
	number = *(const int64_t *)value;
	if (number > 0 || (number == 0 && f != FIELD_job && f != FIELD_generation) || (number < 0 && f != FIELD_gpu))
		json_object_set_new(context, fields[f].name, json_integer(number));
}

/* Writes the context into at most `room` bytes. 0: it does not fit. */
static size_t put_context(const char *launch, const struct hvd_event *event, bool shorter, char *out, size_t room)
{
	json_auto_t *context = json_object();
	size_t len;

	set_text(context, "launch", launch, TEXT_SIZE);
	for (size_t f = 0; f < N_FIELDS; f++)
		if (rows[event->name].fields & 1U << f)
			set_field(context, (enum field)f, event, shorter);
	len = json_dumpb(context, out, room, JSON_COMPACT);
	return len <= room ? len : 0;
}

size_t hvd_event_line(const char *launch, const struct hvd_event *event, char line[HVD_EVENT_LINE + 1])
{
	const int64_t wall = event->wall ? event->wall : hvd_wall_at(event->at);
	size_t len, n;

	/* A number of seconds with six digits; as a double it would have others behind them. */
	len = (size_t)snprintf(line, HVD_EVENT_LINE, "{\"timestamp\":%lld.%06lld,\"name\":\"%s\",\"context\":",
			       (long long)(wall / 1000000000), (long long)(wall / 1000 % 1000000),
			       rows[event->name].name);
	n = put_context(launch, event, false, line + len, HVD_EVENT_LINE - 2 - len);
	len += n ? n : put_context(launch, event, true, line + len, HVD_EVENT_LINE - 2 - len);
	memcpy(line + len, "}\n", 3);
	return len + 2;
}
