/* SPDX-License-Identifier: Apache-2.0 */
/*
 * results.h - the results of --results: records that are written to a file, pipe or socket.
 *
 * A record is a line of JSON and the bytes that it announces in "length". A file is written at once. For a pipe or a
 * socket a record is kept until the reader takes it.
 */
#ifndef HVD_RESULTS_H
#define HVD_RESULTS_H

#include "lib/base/err.h"
#include "lib/base/log.h"

#include <event2/event.h>
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

struct hvd_results;

/* Open a path, or take over a descriptor of which `name` is the number. -1 with errno set. */
int hvd_open_or_take(const char *name, int flags);

/* `gone` is called once, from the loop, when nobody reads the results any more, or they cannot be written; the user was
 * told then. `base` and `log` must outlive the results. NULL with err set. */
struct hvd_results *hvd_results_open(struct event_base *base, const char *name, void (*gone)(void *arg), void *arg,
				     const struct hvd_log *log, struct hvd_err *err);
void hvd_results_close(struct hvd_results *res); /* NULL is fine */

/* Append a record; "length" is added to `head`, whose reference is taken over. */
void hvd_results_add(struct hvd_results *res, json_t *head, const void *data, size_t len);
size_t hvd_results_unread(const struct hvd_results *res); /* bytes that the reader has not taken yet */
bool hvd_results_failed(const struct hvd_results *res);
/* Append the last record (an object without bytes, whose reference is taken over) and write what is left, blocking as
 * long as the reader reads; `gone` is not called any more. -1 when not all results could be written; the user was told
 * why. */
int hvd_results_finish(struct hvd_results *res, json_t *last);

#endif
