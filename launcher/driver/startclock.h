/* SPDX-License-Identifier: Apache-2.0 */
/*
 * startclock.h - the time that a start may take, and what is said while it passes.
 *
 * In the caller's loop. It is wound up when it is created, runs from hvd_startclock_run() on, and says in the log once
 * a second what is awaited, if opts->progress asks for that.
 */
#ifndef HVD_STARTCLOCK_H
#define HVD_STARTCLOCK_H

#include "driver_opts.h"
#include "lib/base/deadline.h"
#include "lib/base/log.h"
#include "node_table.h"

#include <event2/event.h>

struct hvd_startclock;

/* `late` is called once, when opts->start_timeout seconds have passed: with a message that names what is missing. Not
 * after hvd_startclock_stop(). Nothing that is passed is owned, and all of it must outlive the clock. Never NULL. */
struct hvd_startclock *hvd_startclock_create(struct event_base *base, const struct hvd_driver_opts *opts,
					     const struct hvd_node_table *table,
					     void (*late)(const struct hvd_err *why, void *arg), void *arg,
					     const struct hvd_log *log);
void hvd_startclock_destroy(struct hvd_startclock *clock); /* NULL is fine */

/* The time begins, unless it has already. `host` (which must outlive the clock) and `port` are where shims come in: for
 * the message. */
void hvd_startclock_run(struct hvd_startclock *clock, const char *host, in_port_t port);
/* It has begun: milliseconds that are left. */
int hvd_startclock_left_ms(const struct hvd_startclock *clock);
/* The start is over, well or not: nothing more is said. */
void hvd_startclock_stop(struct hvd_startclock *clock);

#endif
