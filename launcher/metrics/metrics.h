/* SPDX-License-Identifier: Apache-2.0 */
/*
 * metrics.h - the figures of a launch for Prometheus (--metrics): served at a port, or written to a file every few seconds.
 *
 * Counters come from the launch's events, and what ranks use from what their agents have reported
 * (launcher/world/usage.h), at the moment of a question. A launch never fails because of its metrics: if the port is in use
 * or the file cannot be written, a warning says so.
 */
#ifndef HVD_METRICS_H
#define HVD_METRICS_H

#include "launcher/events/event_log.h"
#include "launcher/hosts/agent_registry.h"
#include "launcher/options/launch_spec.h"
#include "launcher/world/world.h"
#include "lib/base/err.h"
#include "lib/base/log.h"

#include <event2/event.h>

struct hvd_metrics;

/* Count the events of a launch that begins now. Nothing is owned, and all must outlive the metrics; `events` may end
 * before them, when it has no more events. NULL with err set (HVD_E_USAGE) if the options cannot be obeyed; NULL without an
 * error if the launch has no metrics. */
struct hvd_metrics *hvd_metrics_create(const struct hvd_launch_spec *spec, struct hvd_event_log *events,
				       const struct hvd_log *log, struct hvd_err *err);
/* Serve or write them, for the job with these hosts and the ranks of these worlds, until hvd_metrics_close(). NULL is fine,
 * here and below. */
void hvd_metrics_open(struct hvd_metrics *metrics, struct event_base *base, struct hvd_agent_registry *agents,
		      struct hvd_world *const *worlds, unsigned n_worlds);
/* The event loop has ended, and hosts and ranks end next. */
void hvd_metrics_close(struct hvd_metrics *metrics);
/* Write the last figures to the file, waiting a moment for that. */
void hvd_metrics_destroy(struct hvd_metrics *metrics);

#endif
