/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gloo_peers.h - the connections between the ranks of an elastic job's generation.
 *
 * When a rank has failed, the others may wait for it in Gloo for a long time. So their connections are broken, and
 * Horovod notices. The values that ranks store at the rendezvous show which connections these are.
 *
 * Ranks rendezvous in scopes (global, local_HOST, cross_N, those of process sets). In each scope every rank stores,
 * under its number in the scope, one address for each other rank, in their order. An address is a struct
 * sockaddr_storage and a sequence number of 8 bytes, 136 bytes together, as the rank's machine has them in memory
 * (gloo/transport/tcp/address.h, gloo/rendezvous/context.cc). Of each pair of ranks the one with the lower address
 * accepts the other's connection at that address, and closes the listening socket; the other rank gives its address up
 * (gloo/transport/tcp/pair.cc). So one end of each pair's connection is known, and no other process on that host gets
 * its port while it is connected. This holds for Gloo as of May 2023, which all releases of Horovod up to now use.
 *
 * New workers of a generation may connect before the last generation has ended. So a stored value counts until the next
 * generation but one begins to run, or the next one if it was stored before that one began.
 */
#ifndef HVD_GLOO_PEERS_H
#define HVD_GLOO_PEERS_H

#include "lib/host/host_info.h"
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

/* The number of ranks in the scope in which a rank has stored `data`; 0 if this is no value of Gloo's. */
size_t hvd_mesh_size(const void *data, size_t len);
/* The address at which the connection of ranks `a` and `b` is accepted, in a scope of n ranks. a_data and b_data are
 * the values that the two have stored, both of the length for n ranks. -1: the two do not belong together. */
int hvd_mesh_pair(const void *a_data, size_t a, const void *b_data, size_t b, size_t n, struct hvd_mesh_end *end);

struct hvd_gloo_peers;

struct hvd_gloo_peers *hvd_gloo_peers_create(void);
void hvd_gloo_peers_destroy(struct hvd_gloo_peers *peers); /* NULL is fine */

/* Read all values that are stored at `rv` from now on. `rv` must outlive `peers`, or store nothing any more. */
void hvd_gloo_peers_watch(struct hvd_gloo_peers *peers, struct hvd_rv *rv);
/* A generation begins. */
void hvd_gloo_peers_begin(struct hvd_gloo_peers *peers);
/* The workers have got their ranks in the generation: none of them is in an earlier one any longer. */
void hvd_gloo_peers_answered(struct hvd_gloo_peers *peers);
/* The known ends at addresses of a host, as {ADDR:[PORT,…],…} (portset.h); NULL when there are none. */
json_t *hvd_gloo_peers_at(const struct hvd_gloo_peers *peers, const struct hvd_host_info *node);

#endif
