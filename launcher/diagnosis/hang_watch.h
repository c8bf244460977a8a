/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hang_watch.h - what is done when no rank of a job makes progress any longer (--hang-timeout): a report of where the
 * ranks are, then what --hang-action says.
 *
 * Whether there is progress is for launcher/driver/progress.h to find out, whose call is passed on to here. Where the
 * ranks are is asked then, which takes STACKS_SECONDS at most (hang_watch.c).
 */
#ifndef HVD_HANG_WATCH_H
#define HVD_HANG_WATCH_H

#include "launcher/driver/progress.h"
#include "launcher/driver/stacks.h"
#include "launcher/options/launch_spec.h"
#include "lib/base/err.h"
#include "lib/base/log.h"

struct hvd_hang_watch;

/* End the job, for this reason, which is not logged yet; `requeue`: and have the batch job begin again. */
typedef void hvd_hang_end_fn(const struct hvd_err *why, bool requeue, void *arg);

/* `end` is called from the event loop if --hang-action wants it. `stacks` may be NULL. Nothing is owned, and all must
 * outlive the watch. */
struct hvd_hang_watch *hvd_hang_watch_create(struct hvd_stacks *stacks, const struct hvd_launch_spec *spec,
					     hvd_hang_end_fn *end, void *arg, const struct hvd_log *log);
void hvd_hang_watch_destroy(struct hvd_hang_watch *watch); /* NULL is fine */

/* No rank makes progress. One that is told while another is being reported is not reported. */
void hvd_hang_watch_stalled(struct hvd_hang_watch *watch, const struct hvd_stall *stall);

/* "no rank has made progress for 600 s", and which hosts do not answer, as the error's text. */
void hvd_hang_describe(const struct hvd_stall *stall, struct hvd_err *err);

#endif
