/* SPDX-License-Identifier: Apache-2.0 */
/* stack_groups_internal.h - shared by stack_groups.c, which makes the groups, store_waits.c, and stack_text.c, which shows
 * both. */
#ifndef HVD_STACK_GROUPS_INTERNAL_H
#define HVD_STACK_GROUPS_INTERNAL_H

#include "stack_groups.h"

#include <stdbool.h>
#include <stddef.h>

#define HVD_STACK_TEXT 512

/* A process of a rank. */
struct hvd_stack_entry {
	const char *host;
	json_int_t rank, step;
	bool child;
	const json_t *process;
	char *key; /* of its group */
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

/* "" where there is none. */
const char *hvd_stack_text_of(const json_t *object, const char *key);
const char *hvd_stack_frame_text(const json_t *frame, size_t i);

/* Where a process is. hvd_stack_kernel_place() uses the kernel's information only, as does hvd_stack_place() if there
 * is no stack. */
void hvd_stack_place(const json_t *process, char out[HVD_STACK_TEXT]);
void hvd_stack_kernel_place(const json_t *process, char out[HVD_STACK_TEXT]);

/* ---- store_waits.c ---- */

/*
 * [{"key":TEXT, "ranks":[R,…], "others":[TEXT,…], "missing":[R,…]},…]: who waits for the key. "missing": the ranks that
 * wait for no key, if some others wait. The keys for which most wait come first, at most HVD_STORE_WAITS_KEYS. A new
 * reference.
 */
#define HVD_STORE_WAITS_KEYS 8
json_t *hvd_store_waits(const json_t *answers);

#endif
