/* SPDX-License-Identifier: Apache-2.0 */
/*
 * trace.h - the phases of a launch, of its start on each host, and of each generation of ranks, as a Chrome trace.
 *
 * The file is JSON in the "Trace Event Format" (complete events, microseconds since the driver began) and opens in
 * chrome://tracing and Perfetto. It has a row for each host and one for the launch.
 *
 * The trace keeps what is over: generations, and hosts that have left. What goes on is taken from the table of hosts when
 * the file is written. An elastic job may have any number of generations: of what is over the first and the last thousands
 * of phases are kept.
 */
#ifndef HVD_TRACE_H
#define HVD_TRACE_H

#include "host_table.h"

struct hvd_trace;

struct hvd_trace *hvd_trace_create(void);
void hvd_trace_destroy(struct hvd_trace *trace); /* NULL is fine */

/* The other functions do nothing, and succeed, if `trace` is NULL. */

/* A host has registered. */
void hvd_trace_registered(struct hvd_trace *trace);
/* A generation of ranks is being started; the last one, if there was one, is over. */
void hvd_trace_generation(struct hvd_trace *trace);
/* A rank of the generation has come to the rendezvous; `all`: and no other is missing. */
void hvd_trace_init(struct hvd_trace *trace, bool all);
/* Ranks of the generation have failed or are being ended. Only the first reason counts. */
void hvd_trace_ends(struct hvd_trace *trace, const char *why);
/* The host is about to be taken out of the table; `why` may be NULL. */
void hvd_trace_left(struct hvd_trace *trace, const struct hvd_host_table *table, uint32_t host, const char *why);

/* Write the file, or replace it. Phases that have not ended are left out, unless all have `ended` by then (0 = they have
 * not). */
int hvd_trace_write(const struct hvd_trace *trace, const char *path, const struct hvd_host_table *table, hvd_time ended,
		    struct hvd_err *err);

#endif
