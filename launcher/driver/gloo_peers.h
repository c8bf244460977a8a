/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gloo_peers.h - where the ranks of an elastic job's generation are connected to each other.
 *
 * When a rank has failed, the others may wait for it in Gloo for a long time. Their connections are broken then, so
 * that Horovod notices. Which connections these are is read from what the ranks store at the rendezvous.
 *
 * Ranks meet in scopes (global, local_HOST, cross_N, those of process sets). In each scope every rank stores, under its
 * number in the scope, one address for each other rank, in their order: struct sockaddr_storage and a sequence number
 * of 8 bytes, 136 bytes together, as the rank's machine has them in memory (gloo/transport/tcp/address.h,
 * gloo/rendezvous/context.cc). Of each pair of ranks the one with the lower address accepts the other's connection at
 * that address, and closes the listening socket; the other rank gives its address up (gloo/transport/tcp/pair.cc). So
 * one end of each pair's connection is known, and nobody else on that host gets its port while it is connected. This
 * was seen with Gloo as of May 2023, which all releases of Horovod up to now use.
 *
 * New workers of a generation may come before the last generation has ended. So what was stored counts until the next
 * generation but one begins to run, or the next one if it was stored before that one began.
 */
#ifndef HVD_GLOO_PEERS_H
#define HVD_GLOO_PEERS_H

#include "lib/job/host_info.h"
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

/* The number of ranks in the scope where a rank has stored `data`; 0 when this is not what Gloo stores. */
size_t hvd_mesh_size(const void *data, size_t len);
/* The address where the connection of ranks `a` and `b`, of a scope of n ranks, is accepted. a_data and b_data are what
 * the two have stored, both as long as n ranks need. -1: the two do not belong together. */
int hvd_mesh_pair(const void *a_data, size_t a, const void *b_data, size_t b, size_t n, struct hvd_mesh_end *end);

struct hvd_gloo_peers;

struct hvd_gloo_peers *hvd_gloo_peers_create(void);
void hvd_gloo_peers_destroy(struct hvd_gloo_peers *peers); /* NULL is fine */

/* Read all that is stored at `rv` from now on. `rv` must outlive `peers`, or store nothing any more. */
void hvd_gloo_peers_watch(struct hvd_gloo_peers *peers, struct hvd_rv *rv);
/* A generation begins. */
void hvd_gloo_peers_begin(struct hvd_gloo_peers *peers);
/* The workers have got their ranks in the generation: none of them is in an earlier one any longer. */
void hvd_gloo_peers_answered(struct hvd_gloo_peers *peers);
/* The known ends at addresses of a host, as {ADDR:[PORT,…],…} (portset.h); NULL when there are none. */
json_t *hvd_gloo_peers_at(const struct hvd_gloo_peers *peers, const struct hvd_host_info *node);

#endif
