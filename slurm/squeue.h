/* SPDX-License-Identifier: Apache-2.0 */
/*
 * squeue.h - the output of squeue.
 *
 * The name and the comment of a job may hold anything, also line ends and what looks like another field or job. So a
 * mark that nobody can know beforehand stands behind each field. All parsers here take untrusted input.
 */
#ifndef HVD_SQUEUE_H
#define HVD_SQUEUE_H

#include "slurm.h"

/* What stands behind a field: no comma, no colon and no %, which have a meaning for squeue. */
struct hvd_squeue_mark {
	char text[24];
};

int hvd_squeue_mark_make(struct hvd_squeue_mark *mark, struct hvd_err *err);

/* The value of -O, such that squeue prints what hvd_squeue_jobs_parse() reads. The caller frees it. */
char *hvd_squeue_format(const struct hvd_squeue_mark *mark);

/* Read jobs from squeue's output. GPUs and `now` are not among the fields. -1 with HVD_E_PROTO or HVD_E_LIMIT if the
 * text ends within a job, or has a value that no release of Slurm prints; then *jobs is NULL and *n is 0. The caller
 * calls hvd_slurm_jobs_free(). */
int hvd_squeue_jobs_parse(const char *text, const struct hvd_squeue_mark *mark, struct hvd_slurm_job **jobs, size_t *n,
			  struct hvd_err *err);

/* The value of one job's only field, which the mark ends, without blanks around it; "" for Slurm's "(null)". NULL if
 * there is none. The caller frees it. */
char *hvd_squeue_field(const char *text, const struct hvd_squeue_mark *mark);

#endif
