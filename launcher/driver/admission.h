/* SPDX-License-Identifier: Apache-2.0 */
/*
 * admission.h - which networks the hosts of an elastic job use, and whether a later one can join in.
 *
 * Pure: it works on a roster in which hosts may be absent (stage HVD_STAGE_ABSENT), and on a plan whose networks and
 * endpoints have an entry for each host of the roster.
 */
#ifndef HVD_ADMISSION_H
#define HVD_ADMISSION_H

#include "planner.h"

/* What the agent of `from` is told to try: some of the hosts that have registered, and the rendezvous. */
json_t *hvd_admission_order(const struct hvd_node_table *roster, uint32_t from, const struct hvd_endpoints *endpoints,
			    int timeout_ms);

/* Choose the networks of all hosts that have reported. `plan` is zeroed, but for `endpoints`. `local`: over loopback,
 * which is also what names of one machine use that has no network. HVD_E_NET when nothing connects the hosts, with the
 * reasons. 1, with *plan as it was, when `again` allows to probe once more, and that may change the answer. */
int hvd_admission_first(struct hvd_plan *plan, struct hvd_node_table *roster, bool local, bool again,
			struct hvd_err *err);

/* Let one more host in, or say why not (HVD_E_NET). A second name of a machine that is in needs to reach nobody. The
 * plan grows with the roster. */
int hvd_admission_late(struct hvd_plan *plan, const struct hvd_node_table *roster, uint32_t host, struct hvd_err *err);

#endif
