/* SPDX-License-Identifier: Apache-2.0 */
#include "stack_groups.h"

#include "lib/base/cleanup.h"
#include "lib/base/printable.h"
#include "lib/base/strv.h"
#include "lib/base/xalloc.h"
#include "store_waits.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SHOWN_FRAMES 24
#define TEXT         512

/* A process of a rank. */
struct entry {
	const char *host;
	json_int_t rank, step;
	bool child;
	const json_t *process;
	char *key; /* of its group */
};

struct entries {
	struct entry *v;
	size_t n, room;
};

struct group {
	const struct entry *first; /* the entries of the group follow each other */
	size_t n;
};

struct groups {
	struct entries entries;
	struct group *v;
	size_t n;
	bool several_hosts, several_steps;
};

static const char *text_of(const json_t *object, const char *key)
{
	const char *text = json_string_value(json_object_get(object, key));

	return text ? text : "";
}

/* ---- where a process is ---- */

static const char *frame_text(const json_t *frame, size_t i)
{
	const char *text = json_string_value(json_array_get(frame, i));

	return text ? text : "";
}

static bool is_users(const char *file)
{
	static const char *const installed[] = {"/site-packages/", "/dist-packages/", "/lib/python", "/lib64/python",
						"<frozen"};

	if (!*file)
		return false;
	for (size_t i = 0; i < sizeof(installed) / sizeof(installed[0]); i++)
		if (strstr(file, installed[i]))
			return false;
	return true;
}

/* Is this only the way into what was called? */
static bool is_wrapper(const char *name)
{
	static const char *const names[] = {"wrapper",    "wrapped",          "inner",
					    "_fn",        "decorate_context", "_wrapped_call_impl",
					    "_call_impl", "__call__",         "<lambda>"};
	const char *dot = strrchr(name, '.');

	name = dot ? dot + 1 : name;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (strcmp(name, names[i]) == 0)
			return true;
	return false;
}

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

static void kernel_place(const json_t *process, char out[TEXT])
{
	const char *wchan = text_of(process, "wchan");

	snprintf(out, TEXT, "%s%s%s", text_of(process, "state"), *wchan ? " in the kernel's " : "", wchan);
}

/* "all_reduce (train.py:41)"; without Python's lines the innermost function; without a stack what the kernel says. */
static void place(const json_t *process, char out[TEXT])
{
	const json_t *frames = json_object_get(process, "frames");
	size_t n = json_array_size(frames), user = 0;
	const char *name;

	if (!n) {
		kernel_place(process, out);
		return;
	}
	while (user < n && !is_users(frame_text(json_array_get(frames, user), 1)))
		user++;
	if (strcmp(text_of(process, "how"), "py-spy") != 0)
		user = 0;
	if (user == n)
		user = 0;
	name = frame_text(json_array_get(frames, user), 0);
	for (size_t i = user; i-- > 0;)
		if (!is_wrapper(frame_text(json_array_get(frames, i), 0))) {
			name = frame_text(json_array_get(frames, i), 0);
			break;
		}
	if (*frame_text(json_array_get(frames, user), 1))
		snprintf(out, TEXT, "%s (%s:%lld)", name, base_name(frame_text(json_array_get(frames, user), 1)),
			 (long long)json_integer_value(json_array_get(json_array_get(frames, user), 2)));
	else
		snprintf(out, TEXT, "%s", name);
}

/* ---- groups ---- */

static void add_entry(struct entries *all, const char *host, const json_t *rank, const json_t *process, bool child)
{
	const json_t *frames = json_object_get(process, "frames");
	bool stopped = json_is_true(json_object_get(process, "stopped"));
	hvd_cleanup_free char *where = json_array_size(frames) ? json_dumps(frames, JSON_COMPACT) : NULL;
	struct entry *one;
	char kernel[TEXT];

	if (!json_is_object(process) || !json_is_integer(json_object_get(rank, "rank")))
		return;
	kernel_place(process, kernel);
	if (all->n == all->room) {
		all->room = all->room ? 2 * all->room : 64;
		all->v = hvd_xrealloc(all->v, all->room, sizeof(*all->v));
	}
	one = &all->v[all->n++];
	*one = (struct entry){.host = host,
			      .rank = json_integer_value(json_object_get(rank, "rank")),
			      .step = json_integer_value(json_object_get(rank, "step")),
			      .child = child,
			      .process = process};
	one->key = hvd_xasprintf("%lld %d %d %s", (long long)one->step, child, stopped, where ? where : kernel);
}

static int by_key(const void *a, const void *b)
{
	const struct entry *x = a, *y = b;
	int rc = strcmp(x->key, y->key);

	return rc ? rc : x->rank < y->rank ? -1 : x->rank > y->rank;
}

/* The ranks themselves before their further processes, and the odd ones first. */
static int by_size(const void *a, const void *b)
{
	const struct group *x = a, *y = b;

	if (x->first->step != y->first->step)
		return x->first->step < y->first->step ? -1 : 1;
	if (x->first->child != y->first->child)
		return x->first->child ? 1 : -1;
	if (x->n != y->n)
		return x->n < y->n ? -1 : 1;
	return x->first->rank < y->first->rank ? -1 : 1;
}

static void make_groups(const json_t *said, struct groups *groups)
{
	struct entries *all = &groups->entries;
	json_t *host, *rank, *other;
	size_t h, r, o;

	*groups = (struct groups){0};
	json_array_foreach(json_object_get(said, "hosts"), h, host)
	{
		const char *name = text_of(host, "host");

		json_array_foreach(json_object_get(host, "ranks"), r, rank)
		{
			add_entry(all, name, rank, rank, false);
			json_array_foreach(json_object_get(rank, "others"), o, other)
			{
				add_entry(all, name, rank, other, true);
			}
		}
	}
	if (!all->n)
		return;
	qsort(all->v, all->n, sizeof(*all->v), by_key);
	groups->v = hvd_xcalloc(all->n, sizeof(*groups->v));
	for (size_t i = 0; i < all->n; i++) {
		if (i == 0 || strcmp(all->v[i].key, all->v[i - 1].key) != 0)
			groups->v[groups->n++].first = &all->v[i];
		groups->v[groups->n - 1].n++;
		groups->several_hosts |= strcmp(all->v[i].host, all->v[0].host) != 0;
		groups->several_steps |= all->v[i].step != all->v[0].step;
	}
	qsort(groups->v, groups->n, sizeof(*groups->v), by_size);
}

static void clear_groups(struct groups *groups)
{
	for (size_t i = 0; i < groups->entries.n; i++)
		free(groups->entries.v[i].key);
	free(groups->entries.v);
	free(groups->v);
}

/* ---- text ---- */

/* Write escaped text that stays on its line. */
static void put(FILE *out, const char *text)
{
	hvd_cleanup_free char *line = hvd_xstrdup(text), *safe = hvd_xcalloc(4 * strlen(text) + 1, 1);

	for (char *p = line; *p; p++)
		if (*p == '\n' || *p == '\t')
			*p = ' ';
	hvd_printable(line, safe, 4 * strlen(text) + 1);
	fputs(safe, out);
}

/* "0-2, 4-7". */
static void put_ranks(FILE *out, const struct group *group)
{
	for (size_t i = 0, k; i < group->n; i = k) {
		json_int_t last = group->first[i].rank;

		for (k = i + 1; k < group->n && group->first[k].rank <= last + 1; k++)
			last = group->first[k].rank;
		fprintf(out, "%s%lld", i ? ", " : "", (long long)group->first[i].rank);
		if (last > group->first[i].rank)
			fprintf(out, "-%lld", (long long)last);
	}
}

static bool one_host(const struct group *group)
{
	for (size_t i = 1; i < group->n; i++)
		if (strcmp(group->first[i].host, group->first[0].host) != 0)
			return false;
	return true;
}

static void put_head(FILE *out, const struct groups *groups, const struct group *group)
{
	const struct entry *first = group->first;
	char where[TEXT], kernel[TEXT];

	if (group->n == 1)
		fprintf(out, "%srank %lld", first->child ? "a further process of " : "", (long long)first->rank);
	else {
		fprintf(out, "%zu %s (", group->n, first->child ? "further processes of ranks" : "ranks");
		put_ranks(out, group);
		fputs(")", out);
	}
	if (groups->several_steps)
		fprintf(out, " of step %lld", (long long)first->step);
	if (one_host(group) && (groups->several_hosts || group->n == 1)) {
		fputs(" on ", out);
		put(out, first->host);
	}
	fputs(": ", out);
	place(first->process, where);
	put(out, where);
	kernel_place(first->process, kernel);
	if (json_is_true(json_object_get(first->process, "stopped")) && strcmp(where, kernel) != 0) {
		fputs(", ", out);
		put(out, text_of(first->process, "state"));
	}
	fputs("\n", out);
}

static void put_stack(FILE *out, const struct group *group)
{
	const json_t *frames = json_object_get(group->first->process, "frames");
	size_t i;
	json_t *frame;

	json_array_foreach(frames, i, frame)
	{
		if (i == SHOWN_FRAMES) {
			fprintf(out, "    … and %zu more\n", json_array_size(frames) - i);
			break;
		}
		fputs("    ", out);
		put(out, frame_text(frame, 0));
		if (*frame_text(frame, 1)) {
			fputs(" (", out);
			put(out, frame_text(frame, 1));
			fprintf(out, ":%lld)", (long long)json_integer_value(json_array_get(frame, 2)));
		}
		fputs("\n", out);
	}
}

/* Each reason why something is not known, once. */
static void put_reasons(FILE *out, const struct entries *all)
{
	HVD_CLEANUP(hvd_strv_free) struct hvd_strv told = {0};

	for (size_t i = 0; i < all->n && told.n < 4; i++) {
		const char *why = text_of(all->v[i].process, "why");
		bool known = !*why;

		for (size_t k = 0; k < told.n && !known; k++)
			known = strcmp(told.v[k], why) == 0;
		if (known)
			continue;
		hvd_strv_add(&told, why);
		fprintf(out, "note: rank %lld on ", (long long)all->v[i].rank);
		put(out, all->v[i].host);
		fputs(": ", out);
		put(out, why);
		fputs("\n", out);
	}
}

static void put_silent(FILE *out, const json_t *said)
{
	const json_t *silent = json_object_get(said, "silent");
	size_t i;
	json_t *name;

	if (!json_array_size(silent))
		return;
	fputs("no answer from ", out);
	json_array_foreach(silent, i, name)
	{
		fputs(i ? ", " : "", out);
		put(out, json_string_value(name) ? json_string_value(name) : "?");
	}
	fputs(": does the host still run? (frozen, overloaded, or cut off)\n", out);
}

static void put_numbers(FILE *out, const json_t *ranks)
{
	size_t i, n = json_array_size(ranks);
	json_t *one;

	fputs(n == 1 ? "rank " : "ranks ", out);
	json_array_foreach(ranks, i, one)
	{
		fprintf(out, "%s%lld", i ? ", " : "", (long long)json_integer_value(one));
	}
}

static void put_store(FILE *out, const json_t *said, const char *indent)
{
	json_auto_t *waits = hvd_store_waits(said);
	json_t *entry, *other;
	size_t i, o;

	json_array_foreach(waits, i, entry)
	{
		const json_t *ranks = json_object_get(entry, "ranks"), *missing = json_object_get(entry, "missing");
		bool several = json_array_size(ranks) + json_array_size(json_object_get(entry, "others")) > 1;

		fprintf(out, "%sstore: ", indent);
		if (json_array_size(ranks))
			put_numbers(out, ranks);
		json_array_foreach(json_object_get(entry, "others"), o, other)
		{
			fputs(o || json_array_size(ranks) ? ", " : "", out);
			put(out, json_string_value(other));
		}
		fprintf(out, " wait%s for ", several ? "" : "s");
		put(out, text_of(entry, "key"));
		if (json_array_size(missing)) {
			fputs("; ", out);
			put_numbers(out, missing);
			fprintf(out, " wait%s for no key", json_array_size(missing) == 1 ? "s" : "");
		}
		fputs("\n", out);
	}
}

static char *write_text(const json_t *said, const char *title)
{
	char *text = NULL;
	size_t len, ranks = 0;
	FILE *out = open_memstream(&text, &len);
	struct groups groups;

	make_groups(said, &groups);
	for (size_t i = 0; i < groups.entries.n; i++)
		ranks += !groups.entries.v[i].child;
	if (title)
		fprintf(out, "%zu rank%s of %s, by what the main thread does:\n", ranks, ranks == 1 ? "" : "s", title);
	for (size_t i = 0; i < groups.n; i++) {
		fputs(title ? "" : "  ", out);
		put_head(out, &groups, &groups.v[i]);
		if (title)
			put_stack(out, &groups.v[i]);
	}
	if (json_array_size(json_object_get(said, "silent")))
		fputs(title ? "" : "  ", out);
	put_silent(out, said);
	put_store(out, said, title ? "" : "  ");
	if (title)
		put_reasons(out, &groups.entries);
	clear_groups(&groups);
	fclose(out);
	return text;
}

char *hvd_stack_groups_text(const json_t *said, const char *title)
{
	return write_text(said, title);
}

char *hvd_stack_groups_short(const json_t *said)
{
	return write_text(said, NULL);
}

/* ---- JSON ---- */

static json_t *group_json(const struct group *group)
{
	json_t *ranks = json_array(), *hosts = json_array();
	const json_t *process = group->first->process;
	json_t *frames = json_object_get(process, "frames");
	char where[TEXT], safe[4 * TEXT];

	for (size_t i = 0; i < group->n; i++) {
		bool known = false;

		json_array_append_new(ranks, json_integer(group->first[i].rank));
		for (size_t k = 0; k < json_array_size(hosts) && !known; k++)
			known = strcmp(json_string_value(json_array_get(hosts, k)), group->first[i].host) == 0;
		if (!known)
			json_array_append_new(hosts, json_string(group->first[i].host));
	}
	place(process, where);
	hvd_printable(where, safe, sizeof(safe)); /* a name that was cut may end within a character */
	return json_pack("{s:o, s:o, s:s, s:b, s:b, s:s, s:O}", "ranks", ranks, "hosts", hosts, "where", safe, "child",
			 group->first->child, "stopped", json_is_true(json_object_get(process, "stopped")), "state",
			 text_of(process, "state"), "frames", frames ? frames : json_null());
}

json_t *hvd_stack_groups_json(const json_t *said)
{
	json_t *silent = json_object_get(said, "silent"), *hosts = json_object_get(said, "hosts");
	json_t *list = json_array();
	struct groups groups;

	make_groups(said, &groups);
	for (size_t i = 0; i < groups.n; i++)
		json_array_append_new(list, group_json(&groups.v[i]));
	clear_groups(&groups);
	return json_pack("{s:o, s:O, s:o, s:O}", "groups", list, "silent", silent ? silent : json_null(), "store",
			 hvd_store_waits(said), "hosts", hosts ? hosts : json_null());
}
