/* SPDX-License-Identifier: Apache-2.0 */
/* stack_text.c - groups of stacks as lines for people. */
#include "stack_groups_internal.h"

#include "lib/base/cleanup.h"
#include "lib/base/json_text.h"
#include "lib/base/printable.h"
#include "lib/base/strv.h"
#include "lib/base/xalloc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SHOWN_FRAMES 24

void hvd_stack_put(FILE *out, const char *text)
{
	const size_t size = 4 * strlen(text) + 1;
	hvd_cleanup_free char *safe = hvd_xcalloc(1, size);

	hvd_printable_line(text, safe, size);
	fputs(safe, out);
}

void hvd_stack_put_ranks(FILE *out, const struct hvd_stack_group *group)
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

/* " of trainer", " of step 1", if the entry's ranks have a role, or there are several steps. */
static void put_set(FILE *out, const struct hvd_stack_entry *entry, bool several_steps)
{
	if (*entry->role) {
		fputs(" of ", out);
		hvd_stack_put(out, entry->role);
	}
	if (several_steps)
		fprintf(out, " of step %lld", (long long)entry->step);
}

static bool one_host(const struct hvd_stack_group *group)
{
	for (size_t i = 1; i < group->n; i++)
		if (strcmp(group->first[i].host, group->first[0].host) != 0)
			return false;
	return true;
}

static void put_head(FILE *out, const struct hvd_stack_groups *groups, const struct hvd_stack_group *group)
{
	const struct hvd_stack_entry *first = group->first;
	char where[HVD_STACK_TEXT], kernel[HVD_STACK_TEXT];

	if (group->n == 1)
		fprintf(out, "%srank %lld", first->child ? "another process of " : "", (long long)first->rank);
	else {
		fprintf(out, "%zu %s (", group->n, first->child ? "other processes of ranks" : "ranks");
		hvd_stack_put_ranks(out, group);
		fputs(")", out);
	}
	put_set(out, first, groups->several_steps);
	if (one_host(group) && (groups->several_hosts || group->n == 1)) {
		fputs(" on ", out);
		hvd_stack_put(out, first->host);
	}
	fputs(": ", out);
	hvd_stack_place(first->process, where);
	hvd_stack_put(out, where);
	hvd_stack_kernel_place(first->process, kernel);
	if (json_is_true(json_object_get(first->process, "stopped")) && strcmp(where, kernel) != 0) {
		fputs(", ", out);
		hvd_stack_put(out, hvd_json_text(first->process, "state"));
	}
	fputs("\n", out);
}

void hvd_stack_put_frame(FILE *out, const json_t *frame)
{
	hvd_stack_put(out, hvd_stack_frame_text(frame, 0));
	if (*hvd_stack_frame_text(frame, 1)) {
		fputs(" (", out);
		hvd_stack_put(out, hvd_stack_frame_text(frame, 1));
		fprintf(out, ":%lld)", (long long)json_integer_value(json_array_get(frame, 2)));
	}
}

static void put_stack(FILE *out, const struct hvd_stack_group *group)
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
		hvd_stack_put_frame(out, frame);
		fputs("\n", out);
	}
}

/* Each reason why something is not known, once. */
static void put_reasons(FILE *out, const struct hvd_stack_entries *all)
{
	HVD_CLEANUP(hvd_strv_free) struct hvd_strv shown = {0};

	for (size_t i = 0; i < all->n && shown.n < 4; i++) {
		const char *why = hvd_json_text(all->v[i].process, "why");

		if (!*why || hvd_strv_has(&shown, why))
			continue;
		hvd_strv_add(&shown, why);
		fprintf(out, "note: rank %lld", (long long)all->v[i].rank);
		put_set(out, &all->v[i], false);
		fputs(" on ", out);
		hvd_stack_put(out, all->v[i].host);
		fputs(": ", out);
		hvd_stack_put(out, why);
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
		hvd_stack_put(out, json_string_value(name) ? json_string_value(name) : "?");
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

/* "trainer ", in front of its ranks. */
static void put_role(FILE *out, const json_t *of)
{
	hvd_stack_put(out, hvd_json_text(of, "role"));
	fputs(*hvd_json_text(of, "role") ? " " : "", out);
}

static void put_store(FILE *out, const json_t *said)
{
	json_auto_t *waits = hvd_store_waits(said);
	json_t *entry, *other;
	size_t i, o;

	json_array_foreach(waits, i, entry)
	{
		const json_t *ranks = json_object_get(entry, "ranks"), *missing = json_object_get(entry, "missing");
		bool several = json_array_size(ranks) + json_array_size(json_object_get(entry, "others")) > 1;

		fputs("store: ", out);
		put_role(out, entry);
		if (json_array_size(ranks))
			put_numbers(out, ranks);
		json_array_foreach(json_object_get(entry, "others"), o, other)
		{
			fputs(o || json_array_size(ranks) ? ", " : "", out);
			hvd_stack_put(out, json_string_value(other));
		}
		fprintf(out, " wait%s for ", several ? "" : "s");
		hvd_stack_put(out, hvd_json_text(entry, "key"));
		if (json_array_size(missing)) {
			fputs("; ", out);
			put_role(out, entry);
			put_numbers(out, missing);
			fprintf(out, " wait%s for no key", json_array_size(missing) == 1 ? "s" : "");
		}
		fputs("\n", out);
	}
}

static void put_nccl(FILE *out, const json_t *said)
{
	HVD_CLEANUP(hvd_strv_free) struct hvd_strv lines = {0};

	hvd_nccl_lines(said, &lines);
	for (size_t i = 0; i < lines.n; i++) {
		hvd_stack_put(out, lines.v[i]);
		fputs("\n", out);
	}
}

/* What follows the groups. */
static void put_rest(FILE *out, const json_t *said, const struct hvd_stack_entries *all)
{
	put_silent(out, said);
	put_store(out, said);
	put_nccl(out, said);
	put_reasons(out, all);
}

static size_t count_ranks(const struct hvd_stack_groups *groups)
{
	size_t ranks = 0;

	for (size_t i = 0; i < groups->entries.n; i++)
		ranks += !groups->entries.v[i].child;
	return ranks;
}

static void put_groups(FILE *out, const struct hvd_stack_groups *groups, const json_t *said)
{
	for (size_t i = 0; i < groups->n; i++) {
		put_head(out, groups, &groups->v[i]);
		put_stack(out, &groups->v[i]);
	}
	put_rest(out, said, &groups->entries);
}

char *hvd_stack_groups_text(const json_t *said, const char *title)
{
	char *text = NULL;
	size_t len, ranks;
	FILE *out = open_memstream(&text, &len);
	struct hvd_stack_groups groups;

	hvd_stack_groups_make(said, &groups);
	ranks = count_ranks(&groups);
	fprintf(out, "%zu rank%s of %s, by what the main thread does:\n", ranks, ranks == 1 ? "" : "s", title);
	put_groups(out, &groups, said);
	hvd_stack_groups_clear(&groups);
	fclose(out);
	return text;
}

/* ---- several samples ---- */

/* "rank 3 (n2) differs from the other 7 in 5 of 5 samples: load (train.py:41)". */
static void put_outliers(FILE *out, const struct hvd_stack_outliers *found, const struct hvd_stack_group *group)
{
	const struct hvd_stack_entry *first = group->first;
	size_t least = first->differs, most = first->differs;
	char where[HVD_STACK_TEXT];

	for (size_t i = 1; i < group->n; i++) {
		least = first[i].differs < least ? first[i].differs : least;
		most = first[i].differs > most ? first[i].differs : most;
	}
	fputs(group->n == 1 ? "rank " : "ranks ", out);
	hvd_stack_put_ranks(out, group);
	put_set(out, first, found->groups.several_steps);
	if (one_host(group)) {
		fputs(" (", out);
		hvd_stack_put(out, first->host);
		fputs(")", out);
	}
	fprintf(out, " differ%s from the other %zu in ", group->n == 1 ? "s" : "", first->others);
	if (least < most)
		fprintf(out, "%zu to ", least);
	fprintf(out, "%zu of %zu samples: ", most, found->samples);
	hvd_stack_place(first->process, where);
	hvd_stack_put(out, where);
	fputs("\n", out);
	put_stack(out, group);
}

/* The dominant group of a set in the latest sample that has one. */
static void put_dominant(FILE *out, const json_t *samples, json_int_t set)
{
	bool found = false;

	for (size_t i = json_array_size(samples); i-- > 0 && !found;) {
		const struct hvd_stack_group *most;
		struct hvd_stack_groups groups;

		hvd_stack_groups_make(json_array_get(samples, i), &groups);
		most = hvd_stack_dominant(&groups, set);
		found = most != NULL;
		if (found) {
			put_head(out, &groups, most);
			put_stack(out, most);
		}
		hvd_stack_groups_clear(&groups);
	}
}

char *hvd_stack_samples_text(const json_t *samples, const char *title)
{
	const json_t *last = json_array_get(samples, json_array_size(samples) - 1);
	char *text = NULL;
	size_t len, ranks;
	FILE *out = open_memstream(&text, &len);
	struct hvd_stack_outliers found;
	struct hvd_stack_groups groups;

	hvd_stack_outliers_find(samples, &found);
	hvd_stack_groups_make(last, &groups);
	ranks = count_ranks(&groups);
	fprintf(out, "%zu rank%s of %s in %zu samples, by what the main thread does:\n", ranks, ranks == 1 ? "" : "s",
		title, found.samples);
	for (size_t i = 0; i < found.groups.n; i++) {
		const struct hvd_stack_group *group = &found.groups.v[i];

		put_outliers(out, &found, group);
		if (i + 1 == found.groups.n || group[1].first->set != group->first->set)
			put_dominant(out, samples, group->first->set);
	}
	if (found.groups.n) {
		put_rest(out, last, &groups.entries);
	} else {
		fputs("no rank differs from the others in most samples; in the last sample:\n", out);
		put_groups(out, &groups, last);
	}
	hvd_stack_groups_clear(&groups);
	hvd_stack_outliers_clear(&found);
	fclose(out);
	return text;
}
