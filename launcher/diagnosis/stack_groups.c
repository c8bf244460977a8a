/* SPDX-License-Identifier: Apache-2.0 */
#include "stack_groups_internal.h"

#include "lib/base/cleanup.h"
#include "lib/base/json_text.h"
#include "lib/base/printable.h"
#include "lib/base/size.h"
#include "lib/base/xalloc.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- where a process is ---- */

const char *hvd_stack_frame_text(const json_t *frame, size_t i)
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

/* Is this function only a wrapper around the called one? */
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

void hvd_stack_kernel_place(const json_t *process, char out[HVD_STACK_TEXT])
{
	const char *wchan = hvd_json_text(process, "wchan");

	snprintf(out, HVD_STACK_TEXT, "%s%s%s", hvd_json_text(process, "state"), *wchan ? " in the kernel's " : "",
		 wchan);
}

/* "all_reduce (train.py:41)"; without Python's lines the innermost function; without a stack the kernel's
 * information. */
void hvd_stack_place(const json_t *process, char out[HVD_STACK_TEXT])
{
	const json_t *frames = json_object_get(process, "frames");
	size_t n = json_array_size(frames), user = 0;
	const char *name;

	if (!n) {
		hvd_stack_kernel_place(process, out);
		return;
	}
	while (user < n && !is_users(hvd_stack_frame_text(json_array_get(frames, user), 1)))
		user++;
	if (strcmp(hvd_json_text(process, "how"), "py-spy") != 0)
		user = 0;
	if (user == n)
		user = 0;
	name = hvd_stack_frame_text(json_array_get(frames, user), 0);
	for (size_t i = user; i-- > 0;)
		if (!is_wrapper(hvd_stack_frame_text(json_array_get(frames, i), 0))) {
			name = hvd_stack_frame_text(json_array_get(frames, i), 0);
			break;
		}
	if (*hvd_stack_frame_text(json_array_get(frames, user), 1))
		snprintf(out, HVD_STACK_TEXT, "%s (%s:%lld)", name,
			 basename(hvd_stack_frame_text(json_array_get(frames, user), 1)),
			 (long long)json_integer_value(json_array_get(json_array_get(frames, user), 2)));
	else
		snprintf(out, HVD_STACK_TEXT, "%s", name);
}

/* ---- groups ---- */

static void add_entry(struct hvd_stack_entries *all, const json_t *host, const json_t *rank, const json_t *process,
		      bool child)
{
	const json_t *frames = json_object_get(process, "frames");
	bool stopped = json_is_true(json_object_get(process, "stopped"));
	hvd_cleanup_free char *where = json_array_size(frames) ? json_dumps(frames, JSON_COMPACT) : NULL;
	struct hvd_stack_entry *one;
	char kernel[HVD_STACK_TEXT];

	if (!json_is_object(process) || !json_is_integer(json_object_get(rank, "rank")))
		return;
	hvd_stack_kernel_place(process, kernel);
	if (all->n == all->room) {
		all->room = all->room ? 2 * all->room : 64;
		all->v = hvd_xrealloc(all->v, all->room, sizeof(*all->v));
	}
	one = &all->v[all->n++];
	*one = (struct hvd_stack_entry){.host = hvd_json_text(host, "host"),
					.role = hvd_json_text(host, "role"),
					.rank = json_integer_value(json_object_get(rank, "rank")),
					.step = json_integer_value(json_object_get(rank, "step")),
					.child = child,
					.process = process};
	one->set = (one->step & INT32_MAX) * HVD_MAX_WORLDS +
		   (json_integer_value(json_object_get(host, "world")) & (HVD_MAX_WORLDS - 1));
	one->key = hvd_xasprintf("%lld %d %d %s", (long long)one->set, child, stopped, where ? where : kernel);
}

static int by_key(const void *a, const void *b)
{
	const struct hvd_stack_entry *x = a, *y = b;
	int rc = strcmp(x->key, y->key);

	return rc ? rc : x->rank < y->rank ? -1 : x->rank > y->rank;
}

/* The ranks themselves before their further processes, and the odd ones first. */
static int by_size(const void *a, const void *b)
{
	const struct hvd_stack_group *x = a, *y = b;

	if (x->first->set != y->first->set)
		return x->first->set < y->first->set ? -1 : 1;
	if (x->first->child != y->first->child)
		return x->first->child ? 1 : -1;
	if (x->n != y->n)
		return x->n < y->n ? -1 : 1;
	return x->first->rank < y->first->rank ? -1 : 1;
}

void hvd_stack_groups_make(const json_t *answers, struct hvd_stack_groups *groups)
{
	struct hvd_stack_entries *all = &groups->entries;
	json_t *host, *rank, *other;
	size_t h, r, o;

	*groups = (struct hvd_stack_groups){0};
	json_array_foreach(json_object_get(answers, "hosts"), h, host)
	{
		json_array_foreach(json_object_get(host, "ranks"), r, rank)
		{
			add_entry(all, host, rank, rank, false);
			json_array_foreach(json_object_get(rank, "others"), o, other)
			{
				add_entry(all, host, rank, other, true);
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

void hvd_stack_groups_clear(struct hvd_stack_groups *groups)
{
	for (size_t i = 0; i < groups->entries.n; i++)
		free(groups->entries.v[i].key);
	free(groups->entries.v);
	free(groups->v);
}

/* ---- JSON ---- */

json_t *hvd_stack_group_json(const struct hvd_stack_group *group)
{
	json_t *ranks = json_array(), *hosts = json_array();
	const json_t *process = group->first->process;
	json_t *frames = json_object_get(process, "frames"), *out;
	char where[HVD_STACK_TEXT], safe[4 * HVD_STACK_TEXT];

	for (size_t i = 0; i < group->n; i++) {
		bool known = false;

		json_array_append_new(ranks, json_integer(group->first[i].rank));
		for (size_t k = 0; k < json_array_size(hosts) && !known; k++)
			known = strcmp(json_string_value(json_array_get(hosts, k)), group->first[i].host) == 0;
		if (!known)
			json_array_append_new(hosts, json_string(group->first[i].host));
	}
	hvd_stack_place(process, where);
	hvd_printable(where, safe, sizeof(safe)); /* a name that was cut may end within a character */
	out = json_pack("{s:o, s:o, s:s, s:b, s:b, s:s, s:O}", "ranks", ranks, "hosts", hosts, "where", safe, "child",
			group->first->child, "stopped", json_is_true(json_object_get(process, "stopped")), "state",
			hvd_json_text(process, "state"), "frames", frames ? frames : json_null());
	if (*group->first->role)
		json_object_set_new(out, "role", json_string(group->first->role));
	return out;
}

json_t *hvd_stack_groups_json(const json_t *answers)
{
	json_t *silent = json_object_get(answers, "silent"), *hosts = json_object_get(answers, "hosts");
	json_t *nccl = json_object_get(answers, "nccl");
	json_t *list = json_array();
	struct hvd_stack_groups groups;

	hvd_stack_groups_make(answers, &groups);
	for (size_t i = 0; i < groups.n; i++)
		json_array_append_new(list, hvd_stack_group_json(&groups.v[i]));
	hvd_stack_groups_clear(&groups);
	return json_pack("{s:o, s:O, s:o, s:O, s:O}", "groups", list, "silent", silent ? silent : json_null(), "store",
			 hvd_store_waits(answers), "nccl", nccl ? nccl : json_null(), "hosts",
			 hosts ? hosts : json_null());
}
