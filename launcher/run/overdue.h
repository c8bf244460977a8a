/* SPDX-License-Identifier: Apache-2.0 */
/*
 * overdue.h - the process that started all ranks, when these have ended and it goes on.
 *
 * srun waits for ever for a rank whose end it is not told of, as where the step daemon has no munged any more to prove
 * with who it is. It is overdue after some seconds in which it has written nothing, though it could: what the ranks
 * have printed may still be on its way, or nobody reads it, as in a pager. That it will hear of nothing is certain when
 * a munged has gone; otherwise it may have a reason, such as a TaskEpilog or an epilog of its own.
 */
#ifndef HVD_OVERDUE_H
#define HVD_OVERDUE_H

#include "lib/base/err.h"
#include "lib/base/strv.h"

#include <event2/event.h>
#include <stdbool.h>
#include <sys/types.h>

struct hvd_overdue;

/* `program` is its name for messages, `pid` 0 when it has ended. After `seconds` `overdue` is called, once, with what
 * to tell the user and whether to wait longer is of no use. `without_munge`: hosts whose munged has gone. Nothing that
 * is passed is owned. */
struct hvd_overdue *hvd_overdue_watch(struct event_base *base, const char *program, pid_t pid, int seconds,
				      const struct hvd_strv *without_munge,
				      void (*overdue)(const struct hvd_err *why, bool certain, void *arg), void *arg);
void hvd_overdue_destroy(struct hvd_overdue *od); /* NULL is fine */

#endif
