/* SPDX-License-Identifier: Apache-2.0 */
/*
 * awaited.h - do the peers of a rank wait for it? Seen from outside, by the rank's TCP connections.
 *
 * In a collective, ranks that have begun it have sent what they could, and have received nothing since: they wait. A rank
 * that has not begun it yet has last received something, from those who wait for it, after it had last sent something. A
 * look at all connections counts as one at which a rank was awaited if data was received over one of them, and nothing was
 * sent over any of them in the HVD_AWAITED_GAP_MS before that nor since. Within a collective, ranks send and receive more
 * often than that.
 *
 * That gap is the time which the peers compute, however long they then wait. So ranks whose peers compute for less than it
 * between two collectives are never awaited. A smaller one would be within the kernel's clock, or find the leaves of a tree
 * awaited, which receive last in each collective. Nothing else that the kernel says of a connection tells the two apart:
 * bytes and busy times are those of a small message, and Gloo's own thread reads all at once, so no data is left unread.
 *
 * Only connections between ranks count. The other end of one on this host is to be a rank's. One to another host must have
 * no port of a well-known service (below 1024), nor the port of the rank's store (MASTER_PORT and the like in its
 * environment). Of a rank's processes only the topmost with such a connection counts: what loads its data may have
 * connections of its own. A rank is unknown if it has no such connection, or sends nothing over it for a minute, as with
 * NCCL over InfiniBand. So is one whose runtime talks all the time, as Horovod's: it is never awaited.
 *
 * Many looks may show one long wait. So it is also counted how often a rank has sent something between two looks: these are
 * the looks that tell of different steps.
 *
 * A look asks the kernel for all connections by one or two questions (lib/net/tcp_dump.h), and reads some of the answer per
 * turn of the event loop. Which sockets are a rank's is read from /proc/PID/fd every half a minute.
 */
#ifndef HVD_AWAITED_H
#define HVD_AWAITED_H

#include "lib/base/deadline.h"
#include "rank_scan.h"

#include <event2/event.h>
#include <stdbool.h>
#include <stdint.h>

#define HVD_AWAITED_GAP_MS 20 /* more than a tick of the kernel's clock, which is 10 ms at most */
#define HVD_AWAITED_LOOKS  5  /* fewer are not enough to know */

/* By how long ago data was last sent and received: 1 awaited, 0 not, -1 not known. */
int hvd_awaited_judge(uint32_t sent_ms, uint32_t received_ms);

/* The looks of the last minute. A zeroed struct has none. */
#define HVD_AWAITED_PARTS   12
#define HVD_AWAITED_SECONDS 60
struct hvd_awaited_looks {
	struct {
		uint16_t looks, awaited, steps;
	} parts[HVD_AWAITED_PARTS];
	int64_t part; /* the number of the last one, since the clock's zero */
};

/* `moved`: the rank has sent something since the last look. */
void hvd_awaited_count(struct hvd_awaited_looks *looks, hvd_time now, bool awaited, bool moved);
/* Thousandths of the looks; -1: there are fewer than HVD_AWAITED_LOOKS. */
int64_t hvd_awaited_share(const struct hvd_awaited_looks *looks, hvd_time now);
/* Looks of the last minute, of which no two show the same step. */
int64_t hvd_awaited_steps(const struct hvd_awaited_looks *looks, hvd_time now);

struct hvd_awaited;

/* Looks so often; less often if a look costs more than 0.2 % of a processor. NULL if the kernel cannot be asked; the functions
 * below accept that. */
struct hvd_awaited *hvd_awaited_create(struct event_base *base, hvd_time every);
void hvd_awaited_destroy(struct hvd_awaited *awaited); /* before the event base ends */
/* The ranks are these, with these processes. */
void hvd_awaited_ranks(struct hvd_awaited *awaited, const struct hvd_rank_look *look);
/* The share of the rank with this process; *steps: its looks that show different steps, 0 if the share is not known. */
int64_t hvd_awaited_of(const struct hvd_awaited *awaited, pid_t pid, int64_t *steps);

#endif
