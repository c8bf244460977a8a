/* SPDX-License-Identifier: Apache-2.0 */
/*
 * measure.h - how fast the network between neighbouring hosts is, for --preflight=full.
 *
 * The hosts are a ring. In each step disjoint pairs of neighbours measure at the same time, first one direction and
 * then the other, so that no two pairs share a link. The figure of a pair is that of its slower direction. The figure
 * of a host is that of its best pair: a slow host is slow with both neighbours, but its neighbour is fast with its
 * other one. A host that seems slow is measured once more with a host that does not, because both of its neighbours may
 * be the slow ones.
 *
 * Messages: agent/probe.h, "measure" and "measured".
 */
#ifndef HVD_MEASURE_H
#define HVD_MEASURE_H

#include "clients.h"
#include "planner.h"

struct hvd_measure;

/* Measure between all hosts that have reported, over the first network of the plan. Sets `mbps` and `rtt_us` in the host
 * table, and then calls `done`, once, from the event loop. Table and plan are not owned. */
struct hvd_measure *hvd_measure_begin(struct event_base *base, struct hvd_host_table *table,
				      const struct hvd_network_plan *plan, void (*done)(void *arg), void *arg);
void hvd_measure_destroy(struct hvd_measure *measure); /* without a call of `done`; NULL is fine */

/* A message "measured" of this host. */
void hvd_measure_message(struct hvd_measure *measure, uint32_t host, const json_t *msg);

/* Between which hosts the current step has no figure yet, for messages; "" if none is awaited. Caller frees. */
char *hvd_measure_missing(const struct hvd_measure *measure);

#endif
