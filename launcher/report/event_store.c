/* SPDX-License-Identifier: Apache-2.0 */
#include "event_store.h"

#include "lib/base/cleanup.h"
#include "lib/base/xalloc.h"

#include <jansson.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST_LAUNCHES 64
/* Bytes of all launches, above which the oldest ones go. */
#define MOST_BYTES  (48 << 20)
#define MOST_FIELDS 64
#define MOST_NAME   64
#define MOST_LAUNCH 1024
#define MOST_COUNT  (INT64_C(1) << 40)
#define MINUTE      60
/* Seconds since 1970 until the year 2286. */
#define LAST_TIME 1e10
/* More than there are until then. */
#define MOST_MINUTES (INT64_C(1) << 28)
/* Digits of a time in microseconds. */
#define TIME_DIGITS 16

/* What an event is about decides how many of its kind are kept. */
enum kind {
	OF_LAUNCH,
	OF_PARTS, /* a host or a rank */
	OF_USAGE,
	N_KINDS
};

static const size_t most[N_KINDS] = {[OF_LAUNCH] = 8192, [OF_PARTS] = 32768, [OF_USAGE] = 32768};

struct item {
	uint64_t number; /* in the order of all events */
	int64_t minute;
	char *text; /* owned */
};

/* The first most / 2 items, and behind them a ring. Of OF_USAGE: those of each minute that `stride` divides. */
struct items {
	struct item *v;
	size_t n, room;
	size_t added; /* those that a ring has overwritten included */
	int64_t stride;
};

struct launch {
	char *name;
	struct items kinds[N_KINDS];
	uint64_t left_out;
	size_t bytes;
};

struct hvd_event_store {
	struct launch *launches;
	size_t n, room;
	size_t bytes;
	uint64_t count, older, malformed;
};

struct hvd_event_store *hvd_event_store_create(void)
{
	return hvd_xcalloc(1, sizeof(struct hvd_event_store));
}

static void clear_launch(struct hvd_event_store *store, struct launch *launch)
{
	for (int k = 0; k < N_KINDS; k++) {
		for (size_t i = 0; i < launch->kinds[k].n; i++)
			free(launch->kinds[k].v[i].text);
		free(launch->kinds[k].v);
	}
	free(launch->name);
	store->bytes -= launch->bytes;
}

void hvd_event_store_destroy(struct hvd_event_store *store)
{
	if (!store)
		return;
	for (size_t i = 0; i < store->n; i++)
		clear_launch(store, &store->launches[i]);
	free(store->launches);
	free(store);
}

/* ---- what is kept ---- */

static void drop(struct hvd_event_store *store, struct launch *launch, struct item *item)
{
	const size_t len = strlen(item->text);

	launch->bytes -= len;
	store->bytes -= len;
	launch->left_out++;
	free(item->text);
	item->text = NULL;
}

/* Keep every second minute of those that are kept. */
static void thin(struct hvd_event_store *store, struct launch *launch, struct items *items)
{
	size_t n = 0;

	items->stride *= 2;
	for (size_t i = 0; i < items->n; i++)
		if (items->v[i].minute % items->stride == 0)
			items->v[n++] = items->v[i];
		else
			drop(store, launch, &items->v[i]);
	items->n = n;
}

static void keep_usage(struct hvd_event_store *store, struct launch *launch, struct item item)
{
	struct items *items = &launch->kinds[OF_USAGE];

	if (!items->stride)
		items->stride = 1;
	/* All may be of one minute. */
	while (items->n == most[OF_USAGE] && items->stride < MOST_MINUTES)
		thin(store, launch, items);
	if (items->n == most[OF_USAGE] || item.minute % items->stride != 0) {
		drop(store, launch, &item);
		return;
	}
	items->v = hvd_xgrow(items->v, items->n, &items->room, sizeof(*items->v));
	items->v[items->n++] = item;
}

static void keep(struct hvd_event_store *store, struct launch *launch, enum kind kind, struct item item)
{
	struct items *items = &launch->kinds[kind];
	const size_t half = most[kind] / 2;

	if (items->added < most[kind]) {
		items->v = hvd_xgrow(items->v, items->n, &items->room, sizeof(*items->v));
		items->v[items->n++] = item;
	} else {
		struct item *oldest = &items->v[half + items->added % half];

		drop(store, launch, oldest);
		*oldest = item;
	}
	items->added++;
}

static void forget(struct hvd_event_store *store, size_t i)
{
	clear_launch(store, &store->launches[i]);
	memmove(&store->launches[i], &store->launches[i + 1], (--store->n - i) * sizeof(*store->launches));
}

static void forget_oldest(struct hvd_event_store *store)
{
	forget(store, 0);
	store->older++;
}

static void bound_bytes(struct hvd_event_store *store)
{
	while (store->bytes > MOST_BYTES && store->n > 1)
		forget_oldest(store);
}

/* The launch is the last one from now on, whatever others are called. */
static struct launch *add_launch(struct hvd_event_store *store, struct launch launch)
{
	if (store->n == MOST_LAUNCHES)
		forget_oldest(store);
	store->launches = hvd_xgrow(store->launches, store->n, &store->room, sizeof(*store->launches));
	store->launches[store->n] = launch;
	store->bytes += launch.bytes;
	return &store->launches[store->n++];
}

static struct launch *launch_of(struct hvd_event_store *store, const char *name)
{
	for (size_t i = store->n; i-- > 0;)
		if (strcmp(store->launches[i].name, name) == 0)
			return &store->launches[i];
	return add_launch(store, (struct launch){.name = hvd_xstrdup(name)});
}

/* ---- a line ---- */

/* Texts, numbers, truths: a later release may have others, which are left out. */
static bool is_plain(const json_t *value)
{
	return json_is_string(value) || json_is_number(value) || json_is_boolean(value);
}

/* An element of "events"; NULL: it is no event. The caller frees it. */
static char *element(double at, const char *name, const json_t *context)
{
	json_auto_t *fields = json_object(), *event = NULL;
	const char *key;
	json_t *value;

	json_object_foreach((json_t *)context, key, value)
	{
		if (is_plain(value) && strcmp(key, "launch") != 0 && strcmp(key, "__proto__") != 0)
			json_object_set(fields, key, value);
	}
	event = json_pack("[f,s,O]", at, name, fields);
	return event ? json_dumps(event, JSON_COMPACT | JSON_ENSURE_ASCII | JSON_REAL_PRECISION(TIME_DIGITS)) : NULL;
}

/* JSON has these characters in strings only. */
static void append_escaped(char **out, const char *json)
{
	for (; *json; json++)
		if (*json == '<' || *json == '>' || *json == '&' || *json == 0x7f)
			*out += sprintf(*out, "\\u%04x", (unsigned)*json);
		else
			*(*out)++ = *json;
	**out = '\0';
}

static char *escaped(const char *json)
{
	char *text = hvd_xcalloc(6 * strlen(json) + 1, 1), *end = text;

	append_escaped(&end, json);
	return hvd_xrealloc(text, (size_t)(end - text) + 1, 1);
}

static enum kind kind_of(const char *name)
{
	if (strcmp(name, "host-usage") == 0)
		return OF_USAGE;
	return strncmp(name, "host-", 5) == 0 || strncmp(name, "rank-", 5) == 0 ? OF_PARTS : OF_LAUNCH;
}

/* An event of the launch with this name, or of the last one if it is NULL. */
static bool add(struct hvd_event_store *store, const char *launch_name, const json_t *timestamp, const char *name,
		const json_t *context)
{
	const double at = json_number_value(timestamp);
	hvd_cleanup_free char *json = NULL;
	struct launch *launch;
	struct item item;
	size_t len;

	if (!json_is_number(timestamp) || !(at >= 0 && at < LAST_TIME) || !name || strlen(name) > MOST_NAME ||
	    !json_is_object(context) || json_object_size(context) > MOST_FIELDS)
		return false;
	json = element(at, name, context);
	if (!json)
		return false;
	launch = launch_name ? launch_of(store, launch_name) : &store->launches[store->n - 1];
	item = (struct item){.number = store->count++, .minute = (int64_t)at / MINUTE, .text = escaped(json)};
	len = strlen(item.text);
	launch->bytes += len;
	store->bytes += len;
	if (kind_of(name) == OF_USAGE)
		keep_usage(store, launch, item);
	else
		keep(store, launch, kind_of(name), item);
	bound_bytes(store);
	return true;
}

static bool add_line(struct hvd_event_store *store, const json_t *line)
{
	const json_t *context = json_object_get(line, "context");
	const char *launch_name = json_string_value(json_object_get(context, "launch"));

	if (!launch_name)
		launch_name = "";
	return strlen(launch_name) <= MOST_LAUNCH && add(store, launch_name, json_object_get(line, "timestamp"),
							 json_string_value(json_object_get(line, "name")), context);
}

bool hvd_event_store_add(struct hvd_event_store *store, const char *line, size_t len)
{
	json_auto_t *json = json_loadb(line, len, JSON_REJECT_DUPLICATES, NULL);

	if (json_is_object(json) && add_line(store, json))
		return true;
	store->malformed++;
	return false;
}

void hvd_event_store_skip(struct hvd_event_store *store)
{
	store->malformed++;
}

size_t hvd_event_store_count(const struct hvd_event_store *store)
{
	return store->count;
}

/* ---- the page's text ---- */

/* Each of these, and each event, is a line of the text. */
#define LAUNCH_BEGIN "{\"launch\":"
#define LAUNCH_END   "]}"
#define TEXT_END     "],\"older\":"

static int by_number(const void *a, const void *b)
{
	const struct item *const *x = a, *const *y = b;

	return ((*x)->number > (*y)->number) - ((*x)->number < (*y)->number);
}

static void put_events(FILE *out, const struct launch *launch)
{
	size_t n = 0, room = 0;
	hvd_cleanup_free const struct item **all = NULL;

	for (int k = 0; k < N_KINDS; k++)
		room += launch->kinds[k].n;
	all = hvd_xcalloc(room + 1, sizeof(struct item *));
	for (int k = 0; k < N_KINDS; k++)
		for (size_t i = 0; i < launch->kinds[k].n; i++)
			all[n++] = &launch->kinds[k].v[i];
	qsort(all, n, sizeof(struct item *), by_number);
	for (size_t i = 0; i < n; i++)
		fprintf(out, "%s%s\n", i ? "," : "", all[i]->text);
}

static void put_launch(FILE *out, const struct launch *launch)
{
	json_auto_t *name = json_string(launch->name);
	hvd_cleanup_free char *json = json_dumps(name, JSON_ENCODE_ANY | JSON_ENSURE_ASCII);
	hvd_cleanup_free char *safe = escaped(json ? json : "\"\"");

	fprintf(out, LAUNCH_BEGIN "%s,\"left_out\":%llu,\"events\":[\n", safe, (unsigned long long)launch->left_out);
	put_events(out, launch);
	fputs(LAUNCH_END "\n", out);
}

char *hvd_event_store_json(const struct hvd_event_store *store, size_t *len)
{
	char *text = NULL;
	FILE *out = open_memstream(&text, len);

	if (!out)
		return hvd_xstrdup("");
	fputs("{\"launches\":[\n", out);
	for (size_t i = 0; i < store->n; i++) {
		fputs(i ? "," : "", out);
		put_launch(out, &store->launches[i]);
	}
	fprintf(out, TEXT_END "%llu,\"malformed\":%llu}", (unsigned long long)store->older,
		(unsigned long long)store->malformed);
	fclose(out);
	return text;
}

static uint64_t count_in(const json_t *object, const char *key)
{
	const json_int_t n = json_integer_value(json_object_get(object, key));

	return n > 0 && n < MOST_COUNT ? (uint64_t)n : 0;
}

static bool begins(const char *line, size_t len, const char *with)
{
	return len >= strlen(with) && memcmp(line, with, strlen(with)) == 0;
}

/* `line` begins and ends as an object does, with `front` and `end` around it. */
static json_t *object_of(const char *front, const char *line, size_t len, const char *end)
{
	hvd_cleanup_free char *text = hvd_xasprintf("%s%.*s%s", front, (int)len, line, end);

	return json_loads(text, JSON_REJECT_DUPLICATES, NULL);
}

static void add_text_line(struct hvd_event_store *store, const char *line, size_t len)
{
	json_auto_t *json = NULL;
	const char *name;

	if (begins(line, len, ",")) {
		line++;
		len--;
	}
	if (begins(line, len, LAUNCH_BEGIN)) {
		json = object_of("", line, len, LAUNCH_END);
		name = json_string_value(json_object_get(json, "launch"));
		if (name && strlen(name) <= MOST_LAUNCH)
			add_launch(store,
				   (struct launch){.name = hvd_xstrdup(name), .left_out = count_in(json, "left_out")});
	} else if (begins(line, len, TEXT_END)) {
		json = object_of("{", line + 2, len - 2, "");
		store->older += count_in(json, "older");
		store->malformed += count_in(json, "malformed");
	} else if (begins(line, len, "[") && store->n > 0) {
		json = json_loadb(line, len, JSON_REJECT_DUPLICATES, NULL);
		add(store, NULL, json_array_get(json, 0), json_string_value(json_array_get(json, 1)),
		    json_array_get(json, 2));
	}
}

void hvd_event_store_add_text(struct hvd_event_store *store, const char *text, size_t len)
{
	for (const char *end, *line = text; line < text + len; line = end + 1) {
		end = memchr(line, '\n', (size_t)(text + len - line));
		if (!end)
			end = text + len;
		add_text_line(store, line, (size_t)(end - line));
	}
}

/* Processes of a host may have had one number, and so launches one name, but they have not begun at one time. */
static bool same_launch(const struct launch *a, const struct launch *b)
{
	const struct items *x = &a->kinds[OF_LAUNCH], *y = &b->kinds[OF_LAUNCH];

	return strcmp(a->name, b->name) == 0 && x->n && y->n && strcmp(x->v[0].text, y->v[0].text) == 0;
}

void hvd_event_store_append(struct hvd_event_store *store, struct hvd_event_store *later)
{
	for (size_t i = 0; i < later->n; i++) {
		for (size_t j = store->n; j-- > 0;)
			if (same_launch(&store->launches[j], &later->launches[i]))
				forget(store, j);
		add_launch(store, later->launches[i]);
	}
	store->count += later->count;
	store->older += later->older;
	store->malformed += later->malformed;
	bound_bytes(store);
	free(later->launches);
	*later = (struct hvd_event_store){0};
}
