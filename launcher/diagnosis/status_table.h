/* SPDX-License-Identifier: Apache-2.0 */
/*
 * status_table.h - the table of a launch's ranks, or of its hosts with the sums of their ranks' figures.
 *
 * A few ranks have a row each. Many are put into groups, by why they are odd (status_odd.h) or their state: each group has a
 * row with the medians of its columns, then come the quantiles of all. Below that are rows of the first ranks of the order,
 * which are odd ones if it is by that.
 *
 * In front are sentences about the odd ranks: one for each, or, if there are too many, one for each reason.
 *
 * Pure. Anything may be missing from the objects, or have another type.
 */
#ifndef HVD_STATUS_TABLE_H
#define HVD_STATUS_TABLE_H

#include "status_lines.h"

#include <jansson.h>
#include <stdbool.h>

enum hvd_status_order {
	HVD_STATUS_BY_ODD, /* odd ones first */
	HVD_STATUS_BY_RANK,
	HVD_STATUS_BY_CPU, /* the largest first, as of the others */
	HVD_STATUS_BY_MEMORY,
	HVD_STATUS_BY_AWAITED,
};
#define HVD_STATUS_ORDERS 5

struct hvd_status_look {
	size_t width;   /* of sentences, in characters */
	size_t rows;    /* up to so many ranks have a row each */
	size_t first;   /* of more, so many have one */
	size_t reasons; /* so many odd ranks have a sentence each */
	enum hvd_status_order order;
	bool hosts; /* the table is of hosts */
};

/* Append the lines of the table, with the odd ranks' reasons in front. `list`: `ranks` or `hosts` of a launch
 * (docs/status.md). */
void hvd_status_table(struct hvd_status_lines *out, const json_t *list, const struct hvd_status_look *look);

/* The first row's rank, by this order, as --rank has it; "0" if there is none. The caller frees it. */
char *hvd_status_first_rank(const json_t *ranks, enum hvd_status_order order);

#endif
