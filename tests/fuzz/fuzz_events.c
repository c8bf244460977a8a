/* SPDX-License-Identifier: Apache-2.0 */
/* A file of events, as hvdrun --report-of reads it, line by line, and the text of a page: what is kept is JSON, which no parser of HTML takes for
 * anything but text. */
#include "fuzz.h"
#include "launcher/report/event_store.h"

#include <jansson.h>

/* As the text of a page, too: what is added is kept, as it is, by the text that it makes. */
static void add_as_text(const uint8_t *data, size_t size)
{
	struct hvd_event_store *store = hvd_event_store_create(), *again = hvd_event_store_create();
	char *text, *text_again;
	size_t len;
	json_t *all;

	hvd_event_store_add_text(store, (const char *)data, size);
	text = hvd_event_store_json(store, &len);
	all = json_loads(text, 0, NULL);
	must(all != NULL);
	hvd_event_store_add_text(again, text, len);
	text_again = hvd_event_store_json(again, &len);
	must(strcmp(text, text_again) == 0);
	hvd_event_store_append(store, again);
	json_decref(all);
	free(text);
	free(text_again);
	hvd_event_store_destroy(store);
	hvd_event_store_destroy(again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct hvd_event_store *store = hvd_event_store_create();
	size_t len, added = 0, lines = 0, events = 0, i;
	char *text;
	json_t *all, *launch;

	for (const uint8_t *end, *line = data; line < data + size; line = end + 1) {
		end = memchr(line, '\n', (size_t)(data + size - line));
		if (!end)
			end = data + size;
		added += hvd_event_store_add(store, (const char *)line, (size_t)(end - line));
		lines++;
	}
	must(hvd_event_store_count(store) == added);
	text = hvd_event_store_json(store, &len);
	must(len == strlen(text));
	for (i = 0; i < len; i++)
		must((text[i] == '\n' || (text[i] >= 0x20 && text[i] < 0x7f)) && !strchr("<>&", text[i]));
	all = json_loads(text, 0, NULL);
	must(all != NULL);
	must((size_t)json_integer_value(json_object_get(all, "malformed")) == lines - added);
	json_array_foreach(json_object_get(all, "launches"), i, launch)
	{
		events += json_array_size(json_object_get(launch, "events")) +
			  (size_t)json_integer_value(json_object_get(launch, "left_out"));
	}
	must(json_integer_value(json_object_get(all, "older")) > 0 || events == added);
	json_decref(all);
	free(text);
	hvd_event_store_destroy(store);
	add_as_text(data, size);
	return 0;
}
