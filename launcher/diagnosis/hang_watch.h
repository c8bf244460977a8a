/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hang_watch.h - reports a world in which no rank makes progress any longer (--hang-timeout), and then does what
 * --hang-action says.
 *
 * launcher/world/progress.h finds out whether there is progress, and its call is passed on to here. The watch first has
 * its owner find out whether the scheduler has suspended the job, whose processes are stopped then. If not, it asks where
 * the ranks are, which takes at most STACKS_SECONDS (hang_watch.c), and reports it. A job whose ranks have gone on
 * meanwhile is not ended.
 *
 * If ranks use their processors and do nothing else, it asks several times within SAMPLE_SECONDS, or half of the timeout if
 * that is shorter, and busy_hang.h tells a hang from a computation. A job that may hang is reported, and not ended.
 */
#ifndef HVD_HANG_WATCH_H
#define HVD_HANG_WATCH_H

#include "launcher/events/event_log.h"
#include "launcher/options/launch_spec.h"
#include "launcher/world/progress.h"
#include "launcher/world/stacks.h"
#include "lib/base/err.h"
#include "lib/base/log.h"

struct hvd_hang_watch;

/* End the job, for this reason, which is not logged yet; `requeue`: and requeue the batch job. */
typedef void hvd_hang_end_fn(const struct hvd_err *why, bool requeue, const char *role, void *arg);

/* For the ranks of this world. `end` is called from the event loop if --hang-action wants it. `ask`: find out whether the job is suspended;
 * hvd_hang_watch_suspended() follows, perhaps at once. `stacks` may be NULL. `events` (NULL: none) gets a hang when it is
 * reported, the groups of stacks, and what follows. Nothing is owned, and all must outlive the watch. */
struct hvd_hang_watch *hvd_hang_watch_create(struct event_base *base, unsigned world, struct hvd_stacks *stacks,
					     const struct hvd_launch_spec *spec, hvd_hang_end_fn *end,
					     void (*ask)(void *arg), void *arg, struct hvd_event_log *events,
					     const struct hvd_log *log);
void hvd_hang_watch_destroy(struct hvd_hang_watch *watch); /* NULL is fine */

/* No rank makes progress, or none but by using its processor. A stall during the report of another one is not reported. */
void hvd_hang_watch_stalled(struct hvd_hang_watch *watch, const struct hvd_stall *stall);

/* Is the job suspended, as far as is known? The answer to `ask`; without a question nothing happens. */
void hvd_hang_watch_suspended(struct hvd_hang_watch *watch, bool suspended);

/* Set the error's text to "no rank has made progress for 600 s", and the hosts that do not answer. */
void hvd_hang_describe(const struct hvd_stall *stall, struct hvd_err *err);

#endif
