/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rank_sockets.h - which sockets are those of the ranks' processes, and which ports are their stores'.
 *
 * Of each rank the topmost HVD_SOCKETS_DEPTH processes are looked at, some per turn of the event loop: every half a minute,
 * and in the first minutes at each look at /proc, as long as a rank has no connection to others.
 */
#ifndef HVD_RANK_SOCKETS_H
#define HVD_RANK_SOCKETS_H

#include "rank_scan.h"

#include <event2/event.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>

#define HVD_SOCKETS_DEPTH 4

struct hvd_rank_sockets;

struct hvd_rank_sockets *hvd_rank_sockets_create(struct event_base *base);
void hvd_rank_sockets_destroy(struct hvd_rank_sockets *sockets); /* before the event base ends; NULL is fine */

/* A look at /proc: search the sockets of these processes, if it is time for that. */
void hvd_rank_sockets_look(struct hvd_rank_sockets *sockets, const struct hvd_rank_look *look);
/* A rank has no connection to others among its sockets: so the next look searches again. */
void hvd_rank_sockets_missing(struct hvd_rank_sockets *sockets);

/* Is any socket known? */
bool hvd_rank_sockets_any(const struct hvd_rank_sockets *sockets);
/* The rank that has the socket, by its process, and which of its processes has it: 0 is the topmost. A socket that several
 * processes have open is that of the topmost. False: it is no rank's. */
bool hvd_rank_sockets_find(const struct hvd_rank_sockets *sockets, uint32_t inode, pid_t *rank, unsigned *depth);
/* Is it the port of a store of ranks, by their environment? */
bool hvd_rank_sockets_is_store(const struct hvd_rank_sockets *sockets, in_port_t port);

#endif
