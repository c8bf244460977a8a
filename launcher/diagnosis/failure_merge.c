/* SPDX-License-Identifier: Apache-2.0 */
/* failure_merge.c - the report of several worlds: their records become one. */
#include "failure_report_internal.h"

static void merge_kind(struct hvd_failure_report *report, const struct hvd_failure_report *other, int kind)
{
	const struct hvd_failure_list *from = &other->kinds[kind];
	struct hvd_failure_list *to = &report->kinds[kind];
	const uint32_t count = to->count + from->count;

	for (uint32_t i = 0; i < from->n; i++)
		if (kind != HVD_FAILURE_NONE || from->v[i].at > report->first_ended - HVD_FAILURE_EXPLAINS_NS)
			hvd_failure_keep(to, &from->v[i]);
	to->count = count;
	if (from->last > to->last)
		to->last = from->last;
}

static int64_t earlier(int64_t a, int64_t b) /* 0 = not known */
{
	return a && (!b || a < b) ? a : b;
}

void hvd_failure_report_merge(struct hvd_failure_report *report, const struct hvd_failure_report *other)
{
	for (int k = 0; k < HVD_FAILURE_KINDS; k++)
		merge_kind(report, other, k);
	for (uint32_t i = 0; i < other->n_ways; i++)
		hvd_failure_count_way(report, &other->ways[i]);
	for (uint32_t i = 0; i < other->n_losses; i++)
		hvd_failure_report_lost(report, &other->losses[i]);
	report->with_all += other->with_all;
	report->with_all_at = earlier(report->with_all_at, other->with_all_at);
	report->ending_at = earlier(report->ending_at, other->ending_at);
	if (other->highest > report->highest)
		report->highest = other->highest;
	if (earlier(other->first_ended, report->first_ended) != report->first_ended)
		report->first_status = other->first_status;
	report->first_ended = earlier(report->first_ended, other->first_ended);
}
