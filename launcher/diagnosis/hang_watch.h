/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hang_watch.h - what is done when no rank of a job makes progress any longer (--hang-timeout): a report, then what
 * --hang-action says.
 *
 * Whether there is progress is for launcher/driver/progress.h to find out, whose call is passed on to here.
 */
#ifndef HVD_HANG_WATCH_H
#define HVD_HANG_WATCH_H

#include "launcher/driver/progress.h"
#include "launcher/options/launch_spec.h"
#include "lib/base/err.h"
#include "lib/base/log.h"

/* End the job, for this reason, which is not logged yet; and have the batch job requeued. */
typedef void hvd_hang_end_fn(const struct hvd_err *why, bool requeue, void *arg);

/* Report the stall to the user, and call `end` if --hang-action wants it. */
void hvd_hang_report(const struct hvd_stall *stall, const struct hvd_launch_spec *spec, const struct hvd_log *log,
		     hvd_hang_end_fn *end, void *arg);

/* "no rank has made progress for 600 s", and which hosts do not answer, as the error's text. */
void hvd_hang_describe(const struct hvd_stall *stall, struct hvd_err *err);

#endif
