/* SPDX-License-Identifier: Apache-2.0 */
/*
 * trace.h - the phases of a launch, and of its start on each host, as a Chrome trace.
 *
 * The file is JSON in the "Trace Event Format" (complete events, microseconds since the driver began) and opens in
 * chrome://tracing and Perfetto.
 */
#ifndef HVD_TRACE_H
#define HVD_TRACE_H

#include "host_table.h"

/* Times of the launch as a whole; 0 = not yet. */
struct hvd_trace_launch {
	hvd_time began;                 /* the driver */
	hvd_time first_init, last_init; /* the first and the last rank has called init_process_group() */
	hvd_time ended;
};

/* Write the file, or replace it. Phases that have not ended are left out. */
int hvd_trace_write(const char *path, const struct hvd_host_table *table, const struct hvd_trace_launch *launch,
		    struct hvd_err *err);

#endif
