/* SPDX-License-Identifier: Apache-2.0 */
/* stack_groups_internal.h - shared by stack_groups.c, which makes the groups, stack_outliers.c, store_waits.c, nccl_text.c,
 * and stack_text.c, which shows all of them. */
#ifndef HVD_STACK_GROUPS_INTERNAL_H
#define HVD_STACK_GROUPS_INTERNAL_H

#include "lib/base/strv.h"
#include "stack_groups.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#define HVD_STACK_TEXT 512

/* A process of a rank. */
struct hvd_stack_entry {
	const char *host;
	json_int_t rank, step;
	const char *role; /* "": none */
	json_int_t set;   /* ranks of the same step and role are compared with each other */
	bool child;
	const json_t *process;
	char *key;              /* of its group */
	size_t differs, others; /* of an outlier: in so many samples, from so many other ranks */
};

struct hvd_stack_entries {
	struct hvd_stack_entry *v;
	size_t n, room;
};

struct hvd_stack_group {
	const struct hvd_stack_entry *first; /* the entries of the group follow each other */
	size_t n;
};

struct hvd_stack_groups {
	struct hvd_stack_entries entries;
	struct hvd_stack_group *v;
	size_t n;
	bool several_hosts, several_steps;
};

/* Everything in `groups` points into `answers`. */
void hvd_stack_groups_make(const json_t *answers, struct hvd_stack_groups *groups);
void hvd_stack_groups_clear(struct hvd_stack_groups *groups);

json_t *hvd_stack_group_json(const struct hvd_stack_group *group);

/* "" where there is none. */
const char *hvd_stack_frame_text(const json_t *frame, size_t i);

/* Where a process is. hvd_stack_kernel_place() uses the kernel's information only, as does hvd_stack_place() if there
 * is no stack. */
void hvd_stack_place(const json_t *process, char out[HVD_STACK_TEXT]);
void hvd_stack_kernel_place(const json_t *process, char out[HVD_STACK_TEXT]);

/* Write escaped text that stays on its line. */
void hvd_stack_put(FILE *out, const char *text);
/* The same for a frame, "step (train.py:41)", and for the numbers of a group's ranks, "0-2, 4-7". */
void hvd_stack_put_frame(FILE *out, const json_t *frame);
void hvd_stack_put_ranks(FILE *out, const struct hvd_stack_group *group);

/* ---- stack_outliers.c ---- */

struct hvd_stack_outliers {
	struct hvd_stack_groups groups; /* by their places; without further processes of the ranks */
	size_t samples;
};

/* Find the ranks whose stacks differ from those of most other ranks in more than half of the samples. Everything in
 * `found` points into `samples`. A rank's process is one of those samples: at the place where the rank was most often. */
void hvd_stack_outliers_find(const json_t *samples, struct hvd_stack_outliers *found);
void hvd_stack_outliers_clear(struct hvd_stack_outliers *found);

/* The group that more than half of the set's ranks are in; NULL: there is none. */
const struct hvd_stack_group *hvd_stack_dominant(const struct hvd_stack_groups *groups, json_int_t set);

/* ---- store_waits.c ---- */

/*
 * [{"key":TEXT, "ranks":[R,…], "others":[TEXT,…], "missing":[R,…]},…]: who waits for the key. "missing": the ranks that
 * wait for no key, if some others wait. The keys for which most wait come first, at most HVD_STORE_WAITS_KEYS. In a launch
 * with roles the entries have "role", and those of a role follow each other. A new reference.
 */
#define HVD_STORE_WAITS_KEYS 8
json_t *hvd_store_waits(const json_t *answers);

/* ---- nccl_text.c ---- */

/* Add the lines of what NCCL says, which are not escaped. */
void hvd_nccl_lines(const json_t *answers, struct hvd_strv *lines);

#endif
