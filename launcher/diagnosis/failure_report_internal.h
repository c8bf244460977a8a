/* SPDX-License-Identifier: Apache-2.0 */
/* failure_report_internal.h - what failure_report.c, which finds the first failure, failure_merge.c and failure_text.c
 * share. */
#ifndef HVD_FAILURE_REPORT_INTERNAL_H
#define HVD_FAILURE_REPORT_INTERNAL_H

#include "failure_report.h"

#include <stdint.h>

enum hvd_failure_kind {
	HVD_FAILURE_OWN,
	HVD_FAILURE_PEER,
	HVD_FAILURE_KILLED,
	HVD_FAILURE_NONE, /* ended with 0 */
	HVD_FAILURE_KINDS,
};

/* Ranks that end later than this after the loss of a process of the launch may have another reason. */
#define HVD_FAILURE_EXPLAINS_NS INT64_C(60000000000)

#define HVD_FAILURES_KEPT 2 /* of each kind: the first, and the next one's time */
#define HVD_FAILURE_WAYS  6 /* how many different failures are counted one by one */

struct hvd_failure {
	struct hvd_rank_end end;
	char *host;
	unsigned world;
	const char *role; /* the name of that world; NULL = it has none */
	hvd_time at;      /* when it failed */
};

struct hvd_failure_list {
	struct hvd_failure v[HVD_FAILURES_KEPT]; /* the earliest first */
	uint32_t n, count;                       /* kept, and all of them */
	int64_t last;                            /* `at` of the latest */
};

/* Failures of kind OWN that are alike. */
struct hvd_failure_way {
	int status;
	char *error; /* NULL: not known */
	char *host;  /* NULL: they were on several hosts */
	uint32_t count;
};

/* Processes of the launch that were lost. */
#define HVD_LOSSES_KEPT 4

struct hvd_failure_report {
	unsigned world; /* of the ranks that are added; */
	const char *role;
	struct hvd_loss losses[HVD_LOSSES_KEPT]; /* the first ones that were heard of; hosts are the report's own */
	uint32_t n_losses;
	uint32_t gone; /* processes of the launch that ended for an unknown reason; when the first and the last did */
	int64_t gone_first, gone_last;
	int highest;  /* exit status of a rank */
	char *killer; /* hvd_failure_report_killer(); NULL = not known */
	struct hvd_failure_list kinds[HVD_FAILURE_KINDS];
	struct hvd_failure_way ways[HVD_FAILURE_WAYS];
	uint32_t n_ways;
	uint32_t with_all;    /* ends of HVD_END_WITH_ALL */
	hvd_time with_all_at; /* the first of these; 0 = none */
	int64_t first_ended;  /* of those that were not killed: the first end of a process; 0 = none */
	int first_status;     /* of that one, as from waitpid(2) */
	int64_t ending_at;    /* 0 = not yet */
};

/* Keep a failure in full, if it is one of the earliest, and count it; the list owns copies. And count one by how it failed. */
void hvd_failure_keep(struct hvd_failure_list *list, const struct hvd_failure *f);
void hvd_failure_count_way(struct hvd_failure_report *report, const struct hvd_failure_way *more);

/* The process of the launch whose loss explains the first failure `first` of this kind; or, with NULL, the fact that
 * ranks were ended. NULL: none does. */
const struct hvd_loss *hvd_failure_cause(const struct hvd_failure_report *report, const struct hvd_failure *first,
					 enum hvd_failure_kind kind);

/* The first failure, and its kind (`kind` may be NULL); NULL = none. */
const struct hvd_failure *hvd_failure_first(const struct hvd_failure_report *report, enum hvd_failure_kind *kind);

#endif
