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

#include <event2/event.h>
#include <jansson.h>
#include <stdbool.h>

struct hvd_recheck;

/* `send` takes the reference to a message for the driver. */
struct hvd_recheck *hvd_recheck_create(struct event_base *base, void (*send)(json_t *msg, void *arg), void *arg);
void hvd_recheck_destroy(struct hvd_recheck *recheck); /* NULL is fine */

/* An order; `ranks`: the host has ranks. A check that is under way is given up for it. */
void hvd_recheck_begin(struct hvd_recheck *recheck, const json_t *order, bool ranks);
/* The last rank of the host has ended. */
void hvd_recheck_ranks_ended(struct hvd_recheck *recheck);

#endif
