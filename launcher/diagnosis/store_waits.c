/* SPDX-License-Identifier: Apache-2.0 */
/*
 * store_waits.c - which ranks wait for which keys of the store, and which do not.
 *
 * Pure. The answers are launcher/world/stacks.h's. A waiting process is known by its pid, which gives its rank if one
 * rank has it; otherwise it is shown by its address.
 */
#include "stack_groups_internal.h"

#include "lib/base/size.h"
#include "lib/protocol/worlds.h"
#include "lib/rendezvous/wait_line.h"

#include <string.h>

#define MAX_KEYS 4096

/* The rank that has this pid among its processes; -1: none, or several on several hosts. */
static json_int_t rank_of(const json_t *answers, json_int_t pid)
{
	json_int_t found = -1;
	json_t *host, *rank, *other;
	size_t h, r, o;

	json_array_foreach(json_object_get(answers, "hosts"), h, host)
	{
		json_array_foreach(json_object_get(host, "ranks"), r, rank)
		{
			json_int_t number = json_integer_value(json_object_get(rank, "rank"));
			bool has = json_integer_value(json_object_get(rank, "pid")) == pid;

			json_array_foreach(json_object_get(rank, "others"), o, other)
			{
				has |= json_integer_value(json_object_get(other, "pid")) == pid;
			}
			if (has && found >= 0 && found != number)
				return -1;
			if (has)
				found = number;
		}
	}
	return found;
}

static json_t *entry_of(json_t *keys, const char *key, size_t len)
{
	json_t *entry, *text;
	size_t i;

	json_array_foreach(keys, i, entry)
	{
		const char *known = json_string_value(json_object_get(entry, "key"));

		if (known && strlen(known) == len && memcmp(known, key, len) == 0)
			return entry;
	}
	text = json_stringn(key, len);
	if (!text || json_array_size(keys) == MAX_KEYS) {
		json_decref(text);
		return NULL;
	}
	entry = json_pack("{s:o, s:[], s:[], s:[]}", "key", text, "ranks", "others", "missing");
	json_array_append_new(keys, entry);
	return entry;
}

static bool has_rank(const json_t *list, json_int_t rank)
{
	size_t i;
	json_t *one;

	json_array_foreach(list, i, one)
	{
		if (json_integer_value(one) == rank)
			return true;
	}
	return false;
}

static void add_line(const json_t *answers, json_t *keys, json_t *waiting, const struct hvd_wait_line *line)
{
	const json_int_t rank = line->pid ? rank_of(answers, line->pid) : -1;
	json_t *entry = line->who.n ? entry_of(keys, line->key.p, line->key.n) : NULL;

	if (!entry)
		return;
	if (rank < 0)
		json_array_append_new(json_object_get(entry, "others"), json_stringn(line->who.p, line->who.n));
	else if (!has_rank(json_object_get(entry, "ranks"), rank))
		json_array_append_new(json_object_get(entry, "ranks"), json_integer(rank));
	if (rank >= 0 && !has_rank(waiting, rank))
		json_array_append_new(waiting, json_integer(rank));
}

static void add_missing(const json_t *answers, const json_t *waiting, json_t *keys)
{
	json_auto_t *missing = json_array();
	json_t *host, *rank, *entry;
	size_t h, r, i;

	json_array_foreach(json_object_get(answers, "hosts"), h, host)
	{
		json_array_foreach(json_object_get(host, "ranks"), r, rank)
		{
			json_int_t number = json_integer_value(json_object_get(rank, "rank"));

			if (!has_rank(waiting, number) && !has_rank(missing, number))
				json_array_append_new(missing, json_integer(number));
		}
	}
	json_array_foreach(keys, i, entry)
	{
		if (json_array_size(json_object_get(entry, "ranks")))
			json_object_set(entry, "missing", missing);
	}
}

static size_t waiters(const json_t *entry)
{
	return json_array_size(json_object_get(entry, "ranks")) + json_array_size(json_object_get(entry, "others"));
}

/* Of the ranks of one world. */
static json_t *waits_of(const json_t *answers)
{
	const char *text = json_string_value(json_object_get(answers, "store"));
	json_auto_t *keys = json_array(), *waiting = json_array();
	json_t *most = json_array();
	struct hvd_wait_line line;

	while (hvd_wait_line_next(&text, &line))
		add_line(answers, keys, waiting, &line);
	while (json_array_size(keys) && json_array_size(most) < HVD_STORE_WAITS_KEYS) {
		size_t best = 0;

		for (size_t i = 1; i < json_array_size(keys); i++)
			if (waiters(json_array_get(keys, i)) > waiters(json_array_get(keys, best)))
				best = i;
		json_array_append(most, json_array_get(keys, best));
		json_array_remove(keys, best);
	}
	add_missing(answers, waiting, most);
	return most;
}

/* The answers about the ranks of one world, with the store's text of its part. */
static json_t *answers_of(const json_t *answers, const json_t *part, unsigned world)
{
	json_t *of = json_pack("{s:[]}", "hosts"), *host;
	unsigned number;
	size_t i;

	json_object_set(of, "store", json_object_get(part, "store"));
	json_array_foreach(json_object_get(answers, "hosts"), i, host)
	{
		if (hvd_world_of(host, &number, NULL) == 0 && number == world)
			json_array_append(json_object_get(of, "hosts"), host);
	}
	return of;
}

json_t *hvd_store_waits(const json_t *answers)
{
	json_t *all = json_array();

	for (unsigned w = 0; w < HVD_MAX_WORLDS; w++) {
		const json_t *part = hvd_world_part(answers, w);
		json_auto_t *own = part ? answers_of(answers, part, w) : NULL, *waits = part ? waits_of(own) : NULL;
		json_t *const role = json_object_get(json_array_get(json_object_get(own, "hosts"), 0), "role");
		json_t *entry;
		size_t i;

		json_array_foreach(waits, i, entry)
		{
			if (json_is_string(role))
				json_object_set(entry, "role", role);
			json_array_append(all, entry);
		}
	}
	return all;
}
