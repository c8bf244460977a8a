/* SPDX-License-Identifier: Apache-2.0 */
/*
 * peer_table.h - connections by the address that they come from, and which address has most of them.
 *
 * For a server that anybody may connect to: when there are too many connections, one of the address that has most goes,
 * so that nobody is driven out by what comes from elsewhere. All of 127.0.0.0/8 counts as one address, since a process
 * may choose among them. Adding, removing and finding take the same time whatever the numbers.
 *
 * Entries are the caller's, within a struct of his own. Addresses are forgotten with their last entry.
 */
#ifndef HVD_PEER_TABLE_H
#define HVD_PEER_TABLE_H

#include "addr.h"

#include <stddef.h>

struct hvd_peer_table;
struct hvd_peer;

struct hvd_peer_entry {
	struct hvd_peer *peer; /* NULL: in no table */
	struct hvd_peer_entry *prev, *next;
};

struct hvd_peer_table *hvd_peer_table_create(void);              /* never NULL */
void hvd_peer_table_destroy(struct hvd_peer_table *table);       /* entries that are there are removed; NULL is fine */
size_t hvd_peer_table_count(const struct hvd_peer_table *table); /* entries */

/* `entry` is zero, or was removed. */
void hvd_peer_table_add(struct hvd_peer_table *table, const struct hvd_addr *addr, struct hvd_peer_entry *entry);
void hvd_peer_table_remove(struct hvd_peer_table *table, struct hvd_peer_entry *entry);

/* The oldest entry of the address that has most. It stays there. NULL: there is none. */
struct hvd_peer_entry *hvd_peer_table_busiest(const struct hvd_peer_table *table);

/* Where an entry that is in a table comes from. */
const struct hvd_addr *hvd_peer_entry_addr(const struct hvd_peer_entry *entry);

#endif
