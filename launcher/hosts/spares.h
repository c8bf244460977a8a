/* SPDX-License-Identifier: Apache-2.0 */
/*
 * spares.h - a job of fixed size that has more hosts than it needs (--spares): which hosts are left out, before the
 * plan.
 *
 * A bad host is left out: its agent does not come in time; it cannot do its part; it does not reach the others; or
 * --preflight rejects it. When all remaining hosts are good, the worst of them are left out until as many hosts remain
 * as the job needs. Then the ranks of the remaining hosts are numbered anew, in their old order. If more hosts are bad
 * than there are spares, the start fails, with the list.
 *
 * A host that was left out is AWAY in the host table, and has no ranks in the layout. Its processes get
 *   {"t":"plan", "spare":true}
 * and end with status 0. The other hosts' plans have "numbers":[RANK,…], the host's ranks by local rank, and "size":N.
 */
#ifndef HVD_SPARES_H
#define HVD_SPARES_H

#include "agent_registry.h"

/* A host has registered, or all hosts have got the order to probe: limit the time of those that are late. */
void hvd_spares_registered(struct hvd_agent_registry *agents);
void hvd_spares_probing(struct hvd_agent_registry *agents);
void hvd_spares_stop(struct hvd_agent_registry *agents);

/* All hosts have reported: lose those that --preflight rejects. -1 with err set: the job fails without them, and they
 * are more than the spares. */
int hvd_spares_judge(struct hvd_agent_registry *agents, struct hvd_err *err);
/* The plan cannot be made because of a host, or of a network that does not connect all hosts. True: a host was left
 * out, and the caller may try again. */
bool hvd_spares_unconnected(struct hvd_agent_registry *agents, const struct hvd_err *why);
/* A plan can be made. Leave out the worst hosts until as many remain as the job needs, and number the ranks anew: the
 * caller must make the plan once more. -1 with err set: too few slots are left. */
int hvd_spares_settle(struct hvd_agent_registry *agents, struct hvd_err *err);

#endif
