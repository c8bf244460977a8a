/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gloo_peers.h - where the pairs of a generation's ranks are connected, as told at the rendezvous.
 *
 * Ranks meet in scopes (global, local_HOST, cross_N, those of process sets). In
 * each, Gloo has every rank PUT under its number in the scope, in order, an
 * address for each other rank: struct sockaddr_storage and a sequence number of 8
 * bytes, 136 together, as that rank's machine has them in memory
 * (gloo/transport/tcp/address.h, gloo/rendezvous/context.cc). Of two ranks the
 * one whose address is the lower accepts the other's connection there, and closes
 * the listening socket; the other one gives its address up
 * (gloo/transport/tcp/pair.cc). So of each pair one end is known, and as long
 * as it is connected nobody else on that host gets its port. Seen with Gloo as
 * of May 2023, which all releases of Horovod up to now have with them.
 *
 * What was told counts until the next generation but one is answered, or the next one if it was told before that
 * began: new workers of a generation may come before the last one has ended.
 */
#ifndef HVD_GLOO_PEERS_H
#define HVD_GLOO_PEERS_H

#include "lib/job/node.h"
#include "lib/net/addr.h"
#include "lib/rendezvous/server.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#define HVD_MESH_ADDRESS 136   /* bytes */
#define HVD_MESH_MAX     16384 /* ranks of a scope */

struct hvd_mesh_end {
	struct hvd_addr addr;
	in_port_t port;
};

/* What a rank has put: how many ranks its scope has, 0 when it is not what Gloo puts. */
size_t hvd_mesh_size(const void *data, size_t len);
/* Where the pair of rank `a`, which has put a_data, and rank `b` of a scope of n ranks is accepted. -1: the two do not
 * go together. Both are of the length that n ranks need. */
int hvd_mesh_pair(const void *a_data, size_t a, const void *b_data, size_t b, size_t n, struct hvd_mesh_end *end);

struct hvd_gloo_peers;

struct hvd_gloo_peers *hvd_gloo_peers_create(void);
void hvd_gloo_peers_destroy(struct hvd_gloo_peers *pairs); /* NULL is fine */

/* Read along what is put there. `rv` must outlive it, or put nothing any more. */
void hvd_gloo_peers_watch(struct hvd_gloo_peers *pairs, struct hvd_rv *rv);
/* A generation begins. */
void hvd_gloo_peers_begin(struct hvd_gloo_peers *pairs);
/* It was answered: none of the ranks is in an earlier one any longer. */
void hvd_gloo_peers_answered(struct hvd_gloo_peers *pairs);
/* The ends that are at one of these addresses of a host (portset.h); NULL when there are none. */
json_t *hvd_gloo_peers_at(const struct hvd_gloo_peers *pairs, const struct hvd_node *node);

#endif
