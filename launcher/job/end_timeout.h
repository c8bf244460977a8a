/* SPDX-License-Identifier: Apache-2.0 */
/*
 * end_timeout.h - notices that the process which started all ranks goes on though all ranks have ended.
 *
 * srun waits for ever for a rank whose end it is not told of. That happens where munged has gone, without which the
 * step daemon cannot authenticate. Its time is over after some seconds in which it has written nothing, though it
 * could have: output of ranks may still be on its way, or its reader may be slow, such as a pager. When the munged of a
 * host has gone, it is certain that srun waits for nothing. Otherwise it may have a reason, such as a TaskEpilog or its
 * own --epilog.
 */
#ifndef HVD_END_TIMEOUT_H
#define HVD_END_TIMEOUT_H

#include "lib/base/err.h"
#include "lib/base/strv.h"

#include <event2/event.h>
#include <stdbool.h>
#include <sys/types.h>

struct hvd_end_timeout;

/* `program` is the process's name for messages; `pid` is 0 when it has ended. After `seconds` without output `expired`
 * is called, once, with what to tell the user; `certain`: to wait longer is of no use. `without_munge`: hosts whose
 * munged has gone. Nothing that is passed is owned. */
struct hvd_end_timeout *hvd_end_timeout_watch(struct event_base *base, const char *program, pid_t pid, int seconds,
					      const struct hvd_strv *without_munge,
					      void (*expired)(const struct hvd_err *why, bool certain, void *arg),
					      void *arg);
void hvd_end_timeout_destroy(struct hvd_end_timeout *et); /* NULL is fine */

#endif
