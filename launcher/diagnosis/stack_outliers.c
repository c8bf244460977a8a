/* SPDX-License-Identifier: Apache-2.0 */
/* stack_outliers.c - looks at each sample by itself first: which ranks are not in the group that most are in. */
#include "stack_groups_internal.h"

#include "lib/base/xalloc.h"

#include <stdlib.h>
#include <string.h>

/* A rank in a sample. */
struct look {
	struct hvd_stack_entry entry;
	bool differs;
	size_t sample;
	char place[HVD_STACK_TEXT];
};

struct looks {
	struct look *v;
	size_t n, room;
};

const struct hvd_stack_group *hvd_stack_dominant(const struct hvd_stack_groups *groups, json_int_t set)
{
	const struct hvd_stack_group *largest = NULL;
	size_t ranks = 0;

	for (size_t i = 0; i < groups->n; i++) {
		const struct hvd_stack_group *group = &groups->v[i];

		if (group->first->child || group->first->set != set)
			continue;
		ranks += group->n;
		if (!largest || group->n > largest->n)
			largest = group;
	}
	return largest && 2 * largest->n > ranks ? largest : NULL;
}

static void add_looks(struct looks *looks, const json_t *answers, size_t sample)
{
	struct hvd_stack_groups groups;

	hvd_stack_groups_make(answers, &groups);
	for (size_t g = 0; g < groups.n; g++) {
		const struct hvd_stack_group *group = &groups.v[g];
		const struct hvd_stack_group *most = hvd_stack_dominant(&groups, group->first->set);

		for (size_t i = 0; i < group->n && !group->first->child; i++) {
			struct look *look;

			looks->v = hvd_xgrow(looks->v, looks->n, &looks->room, sizeof(*looks->v));
			look = &looks->v[looks->n++];
			*look = (struct look){
				.entry = group->first[i], .differs = most && most != group, .sample = sample};
			look->entry.key = NULL;
			hvd_stack_place(look->entry.process, look->place);
		}
	}
	hvd_stack_groups_clear(&groups);
}

/* Those of a rank follow each other, and among these those at the same place. */
static int by_rank(const void *a, const void *b)
{
	const struct look *x = a, *y = b;

	if (x->entry.set != y->entry.set)
		return x->entry.set < y->entry.set ? -1 : 1;
	if (x->entry.rank != y->entry.rank)
		return x->entry.rank < y->entry.rank ? -1 : 1;
	if (x->differs != y->differs)
		return x->differs ? -1 : 1;
	if (strcmp(x->place, y->place) != 0)
		return strcmp(x->place, y->place);
	return x->sample < y->sample ? -1 : x->sample > y->sample;
}

static bool same_rank(const struct look *a, const struct look *b)
{
	return a->entry.set == b->entry.set && a->entry.rank == b->entry.rank;
}

/* Of the looks at which a rank differed: the last at the place where it was most often. */
static const struct look *usual(const struct look *looks, size_t n)
{
	const struct look *best = NULL;
	size_t most = 0;

	for (size_t i = 0, k; i < n; i = k) {
		for (k = i + 1; k < n && strcmp(looks[k].place, looks[i].place) == 0; k++)
			continue;
		if (k - i > most) {
			most = k - i;
			best = &looks[k - 1];
		}
	}
	return best;
}

static int by_place(const void *a, const void *b)
{
	const struct hvd_stack_entry *x = a, *y = b;
	int rc;

	if (x->set != y->set)
		return x->set < y->set ? -1 : 1;
	rc = strcmp(x->key, y->key);
	return rc ? rc : x->rank < y->rank ? -1 : x->rank > y->rank;
}

/* The ranks of a set: find the odd ones, unless these are half of all, so that there are no others. */
static void add_set(struct hvd_stack_outliers *found, const struct look *looks, size_t n)
{
	struct hvd_stack_entries *odd = &found->groups.entries;
	const size_t before = odd->n;
	size_t ranks = 0;

	for (size_t i = 0, k; i < n; i = k, ranks++) {
		const struct look *look;
		size_t differs = 0;

		for (k = i; k < n && same_rank(&looks[k], &looks[i]); k++)
			differs += looks[k].differs;
		look = 2 * differs > found->samples ? usual(&looks[i], differs) : NULL;
		if (!look)
			continue;
		odd->v[odd->n] = look->entry;
		odd->v[odd->n].key = hvd_xstrdup(look->place);
		odd->v[odd->n++].differs = differs;
	}
	if (2 * (odd->n - before) >= ranks)
		while (odd->n > before)
			free(odd->v[--odd->n].key);
	for (size_t i = before; i < odd->n; i++)
		odd->v[i].others = ranks - (odd->n - before);
}

void hvd_stack_outliers_find(const json_t *samples, struct hvd_stack_outliers *found)
{
	struct hvd_stack_groups *groups = &found->groups;
	struct looks looks = {0};
	const json_t *one;
	size_t s;

	*found = (struct hvd_stack_outliers){.samples = json_array_size(samples)};
	json_array_foreach(samples, s, one)
	{
		add_looks(&looks, one, s);
	}
	if (!looks.n)
		return;
	qsort(looks.v, looks.n, sizeof(*looks.v), by_rank);
	groups->entries.v = hvd_xcalloc(looks.n, sizeof(*groups->entries.v));
	for (size_t i = 0, k; i < looks.n; i = k) {
		for (k = i + 1; k < looks.n && looks.v[k].entry.set == looks.v[i].entry.set; k++)
			continue;
		groups->several_steps |= looks.v[i].entry.step != looks.v[0].entry.step;
		add_set(found, &looks.v[i], k - i);
	}
	free(looks.v);
	if (!groups->entries.n)
		return;
	qsort(groups->entries.v, groups->entries.n, sizeof(*groups->entries.v), by_place);
	groups->v = hvd_xcalloc(groups->entries.n, sizeof(*groups->v));
	for (size_t i = 0; i < groups->entries.n; i++) {
		const struct hvd_stack_entry *entry = &groups->entries.v[i];

		if (i == 0 || entry->set != entry[-1].set || strcmp(entry->key, entry[-1].key) != 0)
			groups->v[groups->n++].first = entry;
		groups->v[groups->n - 1].n++;
	}
}

void hvd_stack_outliers_clear(struct hvd_stack_outliers *found)
{
	hvd_stack_groups_clear(&found->groups);
}

json_t *hvd_stack_samples_json(const json_t *samples)
{
	const size_t n = json_array_size(samples);
	json_t *all = hvd_stack_groups_json(json_array_get(samples, n ? n - 1 : 0)), *list = json_array();
	struct hvd_stack_outliers found;

	hvd_stack_outliers_find(samples, &found);
	for (size_t i = 0; i < found.groups.n; i++) {
		const struct hvd_stack_group *group = &found.groups.v[i];
		json_t *one = hvd_stack_group_json(group), *differs = json_array();

		for (size_t k = 0; k < group->n; k++)
			json_array_append_new(differs, json_integer((json_int_t)group->first[k].differs));
		json_object_set_new(one, "differs", differs);
		json_array_append_new(list, one);
	}
	hvd_stack_outliers_clear(&found);
	json_object_set_new(all, "samples", json_integer((json_int_t)n));
	json_object_set_new(all, "outliers", list);
	return all;
}
