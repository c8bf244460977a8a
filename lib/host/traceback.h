/* SPDX-License-Identifier: Apache-2.0 */
/*
 * traceback.h - finds the last traceback, or a similar error, in a stream of lines. rank_error.h lists what counts.
 *
 * Lines come in pieces of any size and with any bytes. Memory is bounded. A line costs a search for its end, and a look
 * at its first and last bytes.
 */
#ifndef HVD_TRACEBACK_H
#define HVD_TRACEBACK_H

#include "lib/base/deadline.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HVD_TRACEBACK_BEGIN "Traceback (most recent call last):"

struct hvd_traceback;

struct hvd_traceback *hvd_traceback_create(void);
void hvd_traceback_destroy(struct hvd_traceback *tb); /* NULL is fine */

/* `now` is in ns. It may go back, but only by little. */
void hvd_traceback_feed(struct hvd_traceback *tb, const char *bytes, size_t n, hvd_time now);

struct hvd_traceback_text {
	int64_t began_at;
	const char *error;  /* the line that names the exception */
	const char *text;   /* all lines, without `prefix` */
	const char *prefix; /* what stood in front of each of them on the stream: "[rank0]: "; "" = nothing */
};

/* The stream has ended, and its writer ended at this time. False if the stream had no traceback, or if the writer lived
 * on for long after it. The strings belong to `tb`, may have any bytes, and have at most HVD_RANK_END_ERROR and
 * _TRACEBACK of them. */
bool hvd_traceback_found(struct hvd_traceback *tb, hvd_time ended_at, struct hvd_traceback_text *found);

#endif
