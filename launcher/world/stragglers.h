/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stragglers.h - which ranks of a world hold up the others.
 *
 * All ranks of a world do the same work. One for which its peers wait most of the time (`awaited` of
 * lib/host/rank_usage.h), while hardly anybody waits for the others, is slow. It is found slow, or no longer slow, when three
 * evaluations in a row say so. A rank is far above the others if its share is
 *   - at least half of the time, and by three tenths above the median of the others; three tenths and two if it also waits
 *     for processors, much more than the others do;
 *   - above that median by five times the median absolute deviation of the others, where there are several;
 *   - and no chance. In each step of an even job some rank is the last one, and of few steps one has by chance a share far
 *     above the others. So the likelihood that all of them have the same share is compared with the likelihood that they
 *     have those that were seen (the G-test), and the more ranks there are, the less likely it must be. Steps are what
 *     counts there, not looks: many looks at one long wait show one rank once. Where a minute has too few of them, those of
 *     several minutes count, if the rank is far above the others throughout.
 *
 * Nothing follows from that: it is shown.
 *
 * Pure: it knows of no clock. An evaluation costs as much as there are ranks, and a sort of them if one may be slow.
 */
#ifndef HVD_STRAGGLERS_H
#define HVD_STRAGGLERS_H

#include "lib/host/rank_usage.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Between two evaluations. */
#define HVD_STRAGGLERS_SECONDS 5

struct hvd_straggler {
	uint32_t rank;
	int64_t awaited, others; /* thousandths: its share; the median of the others' when it was found */
	char why[240]; /* "its peers wait for it 92 % of the time, and 3 % for the others: it computes meanwhile" */
};

/* The rank is slow, or no longer slow; `straggler` has figures of both. */
typedef void hvd_straggler_fn(const struct hvd_straggler *straggler, bool slow, void *arg);

struct hvd_stragglers;

struct hvd_stragglers *hvd_stragglers_create(void);
void hvd_stragglers_destroy(struct hvd_stragglers *stragglers); /* NULL is fine */

/* A generation of so many ranks begins. */
void hvd_stragglers_begin(struct hvd_stragglers *stragglers, uint32_t ranks);
/* What is known at the moment of n ranks, each once, in the order of their numbers. `fn` is called for each change. A slow rank
 * that is no longer known is forgotten without a call. */
void hvd_stragglers_evaluate(struct hvd_stragglers *stragglers, const struct hvd_rank_usage *ranks, size_t n,
			     hvd_straggler_fn *fn, void *arg);
/* NULL: the rank is not slow. Valid until the next evaluation. */
const struct hvd_straggler *hvd_stragglers_get(const struct hvd_stragglers *stragglers, uint32_t rank);

#endif
