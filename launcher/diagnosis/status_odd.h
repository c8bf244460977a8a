/* SPDX-License-Identifier: Apache-2.0 */
/*
 * status_odd.h - which ranks or hosts of a launch are odd, and why, and which ranks wait in the store.
 *
 * Pure. Anything may be missing from the objects (docs/status.md), or have another type.
 */
#ifndef HVD_STATUS_ODD_H
#define HVD_STATUS_ODD_H

#include "lib/host/rank_name.h"
#include "status_lines.h"

#include <jansson.h>
#include <stdbool.h>

enum hvd_odd {
	HVD_ODD_SLOW,
	HVD_ODD_FAILED,
	HVD_ODD_GROWS,  /* its memory does */
	HVD_ODD_WAITS,  /* in the store, while most ranks do not */
	HVD_ODD_SILENT, /* nothing is known of it, but of others */
	HVD_ODD_LOST,   /* a host that is, or was left out */
	HVD_ODD_NOT,
};

/* What of a list is to be known to judge one of it. */
struct hvd_odd_list {
	bool hosts;
	bool figures;  /* of some ranks the figures are known */
	bool few_wait; /* less than half of the ranks wait in the store */
};

/* The name of a rank (lib/host/rank_name.h). */
const char *hvd_status_rank(const json_t *of, char text[HVD_RANK_NAME]);

struct hvd_odd_list hvd_status_odd_list(const json_t *list, bool hosts);

/* Why is it odd? *why is a sentence about it ("is slow: …"), which the caller frees; NULL: it is not. */
enum hvd_odd hvd_status_odd(const struct hvd_odd_list *list, const json_t *of, char **why);

/* Of n ranks that are odd for the same reason: "ranks 3, 17-20 on n[1-2] are slow; rank 3: …" with the sentence about the
 * first. The caller frees it. */
char *hvd_status_odd_ranks(enum hvd_odd odd, const json_t *const *ranks, size_t n, const char *first);

/* Append who waits in the store for what, as sentences. */
void hvd_status_waits(struct hvd_status_lines *out, size_t width, const json_t *launch);

#endif
