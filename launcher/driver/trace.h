/* SPDX-License-Identifier: Apache-2.0 */
/*
 * trace.h - the phases of a start, per host, as a Chrome trace.
 *
 * The file is JSON in the "Trace Event Format" (complete events, microseconds since the driver began) and opens in
 * chrome://tracing and Perfetto.
 */
#ifndef HVD_TRACE_H
#define HVD_TRACE_H

#include "host_table.h"

/* Write the file, or replace it. `began` is the driver's start. Phases that have not ended are left out. */
int hvd_trace_write(const char *path, const struct hvd_host_table *table, hvd_time began, struct hvd_err *err);

#endif
