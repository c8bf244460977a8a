/* SPDX-License-Identifier: Apache-2.0 */
/*
 * straggler_watch.h - looks for ranks that hold up the others (stragglers.h) by what is known of them (usage.h), every
 * HVD_STRAGGLERS_SECONDS, and adds the events rank-slow and rank-even.
 */
#ifndef HVD_STRAGGLER_WATCH_H
#define HVD_STRAGGLER_WATCH_H

#include "launcher/events/event_log.h"
#include "lib/base/log.h"
#include "stragglers.h"
#include "usage.h"

#include <event2/event.h>

struct hvd_straggler_watch;

/* Nothing is owned, and all must outlive the result; `events` may be NULL. */
struct hvd_straggler_watch *hvd_straggler_watch_create(struct event_base *base, const struct hvd_usage *usage,
						       struct hvd_event_log *events, const struct hvd_log *log);
void hvd_straggler_watch_destroy(struct hvd_straggler_watch *watch); /* NULL is fine, here and below */

/* A generation begins, of which `usage` knows already. */
void hvd_straggler_watch_begin(struct hvd_straggler_watch *watch);
/* The ranks are about to end. */
void hvd_straggler_watch_stop(struct hvd_straggler_watch *watch);

/* NULL: the rank is not slow. Valid until the event loop goes on. */
const struct hvd_straggler *hvd_straggler_watch_get(const struct hvd_straggler_watch *watch, uint32_t rank);

#endif
