/* SPDX-License-Identifier: Apache-2.0 */
/*
 * recheck.h - an agent checks its host again while ranks are being ended (preflight.h), at the driver's order:
 *
 *   {"t":"check", "ms":N, "hook":PATH, "mib":[N,…]}
 *
 * The checks that need not wait for the ranks begin at once. Then, if the order has the memory that was in use on each
 * GPU before the ranks started ("mib"), the memory is awaited to be free again, once the last rank of the host has ended.
 * The answer is {"t":"checked", "preflight":{…}} (lib/job/host_check.h).
 */
#ifndef HVD_AGENT_RECHECK_H
#define HVD_AGENT_RECHECK_H

#include "agent.h"

extern const struct hvd_feature hvd_recheck_feature;

#endif
