/* SPDX-License-Identifier: Apache-2.0 */
/*
 * peer_table.h - open connections by the address of the peer, and the address with most connections.
 *
 * Anybody may connect to a server's port. A server with too many connections closes one of the address that has most,
 * so that a flood from one address does not push out the connections of others. All of 127.0.0.0/8 counts as one
 * address, because a process on this host can choose any of them as its source. Adding and removing an entry and
 * finding the busiest address take constant time.
 *
 * An entry is a member of the caller's struct for a connection. The table owns the peers: a peer exists while it has
 * entries. One thread.
 */
#ifndef HVD_PEER_TABLE_H
#define HVD_PEER_TABLE_H

#include "addr.h"
#include "lib/base/hash.h"

#include <stddef.h>
#include <sys/queue.h>

struct hvd_peer_table;

struct hvd_peer_entry {
	struct hvd_peer *peer; /* NULL: in no table */
	TAILQ_ENTRY(hvd_peer_entry) link;
};

/* An address that has entries. To be read, except for `pending`. */
struct hvd_peer {
	struct hvd_hash_node node;
	struct hvd_addr addr;
	size_t n;                                             /* entries */
	TAILQ_HEAD(hvd_peer_entries, hvd_peer_entry) entries; /* the oldest first */
	size_t pending;                                       /* for the caller to use; 0 in a new peer */
	struct hvd_peer *prev, *next;                         /* with as many entries */
};

struct hvd_peer_table *hvd_peer_table_create(void);        /* never NULL */
void hvd_peer_table_destroy(struct hvd_peer_table *table); /* removes the entries that are left; NULL is fine */

size_t hvd_peer_table_count(const struct hvd_peer_table *table); /* all entries */

/* Add an entry that is zero or was removed, as the newest of its address. */
void hvd_peer_table_add(struct hvd_peer_table *table, const struct hvd_addr *addr, struct hvd_peer_entry *entry);
/* An entry that is in no table is fine. */
void hvd_peer_table_remove(struct hvd_peer_table *table, struct hvd_peer_entry *entry);

/* The oldest entry of the address that has most; NULL when the table is empty. */
struct hvd_peer_entry *hvd_peer_table_busiest(const struct hvd_peer_table *table);

#endif
