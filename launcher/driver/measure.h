/* SPDX-License-Identifier: Apache-2.0 */
/*
 * measure.h - how fast the network between neighbouring hosts is, for --preflight=full.
 *
 * The hosts are a ring. In each step disjoint pairs of neighbours measure at the same time, one way after the other, so
 * that nobody shares a link. The figure of a pair is that of its slower way; the figure of a host that of its best
 * pair: a slow host is slow with both neighbours, and the neighbour of one is fast with the other. A host that seems
 * slow is then measured with a host that does not, as both of its neighbours may be the slow ones.
 *
 * Messages: agent/probe.h, "measure" and "measured".
 */
#ifndef HVD_MEASURE_H
#define HVD_MEASURE_H

#include "agent_registry_internal.h"

struct hvd_measure;

/* Measure between all hosts that have registered, over the first network of the plan. The host table's `mbps` and
 * `rtt_us` are set, and then `done` is called, once, from the event loop. */
struct hvd_measure *hvd_measure_begin(struct hvd_agent_registry *agents,
				      void (*done)(struct hvd_agent_registry *agents));
void hvd_measure_destroy(struct hvd_measure *measure); /* without a call of `done`; NULL is fine */

/* "measured" has come from this host. */
void hvd_measure_message(struct hvd_measure *measure, uint32_t host, const json_t *msg);

#endif
