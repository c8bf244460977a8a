/* SPDX-License-Identifier: Apache-2.0 */
/*
 * status_text.h - the state of launches for people, in lines.
 *
 * Each launch has some lines on its state, a sentence for each rank that is odd (status_odd.h), and a table of its ranks, the
 * odd ones first (status_table.h).
 *
 * Pure. Anything may be missing from the object, or have another type.
 */
#ifndef HVD_STATUS_TEXT_H
#define HVD_STATUS_TEXT_H

#include "status_table.h"

#include <jansson.h>

#define HVD_STATUS_RANKS 40
/* Odd ranks that are shown. */
#define HVD_STATUS_ODD 12

/* Append the lines of {"launches":[STATUS,…]}, seen in this way. */
void hvd_job_status_lines(const json_t *status, const struct hvd_status_look *look, struct hvd_status_lines *out);

/* The text of {"launches":[STATUS,…]} in lines of at most 80 characters, which the caller frees; control characters
 * in it are escaped. */
char *hvd_job_status_text(const json_t *status);

#endif
