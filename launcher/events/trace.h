/* SPDX-License-Identifier: Apache-2.0 */
/*
 * trace.h - the phases of a launch, of its start on each host, and of each generation of ranks, as a Chrome trace: made of
 * the launch's events (event_log.h).
 *
 * The file is JSON in the "Trace Event Format" (complete events, microseconds since the launch began) and opens in
 * chrome://tracing and Perfetto. It has a row for each host and one for the launch. It is written when the first ranks
 * start, and again when the launch has ended.
 *
 * An elastic job may have any number of generations: of the phases that are over, the first and the last thousands are
 * kept.
 */
#ifndef HVD_TRACE_H
#define HVD_TRACE_H

#include "event_log.h"

struct hvd_trace;

/* Listen to `events`, and write the file of this name. Nothing is owned, and all must outlive the trace. */
struct hvd_trace *hvd_trace_create(struct hvd_event_log *events, const char *path, const struct hvd_log *log);
void hvd_trace_destroy(struct hvd_trace *trace); /* NULL is fine; no event may follow */

#endif
