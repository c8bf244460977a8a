/* SPDX-License-Identifier: Apache-2.0 */
/*
 * peers.h - who is connected, by address, and how much each address takes.
 *
 * Clients of the rendezvous cannot prove who they are; that nobody takes what is there for all is seen to by address.
 * An IPv4 address and the same one in its IPv6 form are one. One thread.
 */
#ifndef HVD_RENDEZVOUS_PEERS_H
#define HVD_RENDEZVOUS_PEERS_H

#include <netinet/in.h>
#include <stddef.h>
#include <sys/socket.h>

struct hvd_rv_peer {
	struct hvd_rv_peer *chain;
	struct in6_addr addr;
	unsigned conns;
	size_t pending; /* bytes of values that are not complete; the owner's */
};

struct hvd_rv_peers;

struct hvd_rv_peers *hvd_rv_peers_create(void);
void hvd_rv_peers_destroy(struct hvd_rv_peers *peers); /* NULL is fine; nobody may be connected any more */

/* One more connection from this address. The peer is there as long as it has one. */
struct hvd_rv_peer *hvd_rv_peers_enter(struct hvd_rv_peers *peers, const struct sockaddr_storage *from);
void hvd_rv_peers_leave(struct hvd_rv_peers *peers, struct hvd_rv_peer *peer);

/* The one with most connections, or one that had most until some of them went: another is found out when it opens one
 * more. NULL when it is not known. */
const struct hvd_rv_peer *hvd_rv_peers_most(const struct hvd_rv_peers *peers);

#endif
