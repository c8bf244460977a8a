/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A hash finds the peer of an address. Peers with the same number of entries are in one list. Adding or removing an
 * entry moves a peer to the neighbouring list. So the highest list that is not empty moves by at most one, and its
 * peers are the busiest.
 */
#include "peer_table.h"

#include "lib/base/xalloc.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>

struct hvd_peer_table {
	uint64_t seed;
	struct hvd_hash_table peers;
	struct hvd_peer **by_n; /* by number of entries; 0 is not used */
	size_t room;            /* of by_n */
	size_t most, count;
};

/* The address with which `addr` is counted, without padding, to be compared as bytes. */
static struct hvd_addr counted_as(const struct hvd_addr *addr)
{
	struct hvd_addr as;

	memset(&as, 0, sizeof(as));
	as.family = addr->family;
	if (addr->family == AF_INET)
		as.u.v4.s_addr = hvd_addr_loopback(addr) ? htonl(INADDR_LOOPBACK) : addr->u.v4.s_addr;
	else if (addr->family == AF_INET6)
		as.u.v6 = addr->u.v6;
	return as;
}

/* Not hvd_addr_equal(): connections without an address are one peer, too. */
static bool same(const struct hvd_addr *a, const struct hvd_addr *b)
{
	return a->family == b->family && memcmp(&a->u, &b->u, sizeof(a->u)) == 0;
}

static struct hvd_peer *need_peer(struct hvd_peer_table *table, const struct hvd_addr *addr)
{
	struct hvd_addr as = counted_as(addr);
	uint64_t hash = hvd_hash(table->seed, &as.u, sizeof(as.u));
	struct hvd_hash_node *node = hvd_hash_first(&table->peers, hash);
	struct hvd_peer *peer;

	while (node && !same(&((struct hvd_peer *)node)->addr, &as))
		node = hvd_hash_next(node);
	if (node)
		return (struct hvd_peer *)node;
	peer = hvd_xcalloc(1, sizeof(*peer));
	peer->addr = as;
	TAILQ_INIT(&peer->entries);
	hvd_hash_table_add(&table->peers, &peer->node, hash);
	return peer;
}

/* Move a peer to the list for `n` entries, one more or less than it had. */
static void set_n(struct hvd_peer_table *table, struct hvd_peer *peer, size_t n)
{
	size_t old = peer->n;

	if (n >= table->room) {
		size_t room = n * 2 + 16;

		table->by_n = hvd_xrealloc(table->by_n, room, sizeof(struct hvd_peer *));
		memset(table->by_n + table->room, 0, (room - table->room) * sizeof(struct hvd_peer *));
		table->room = room;
	}
	if (peer->prev)
		peer->prev->next = peer->next;
	else if (old > 0)
		table->by_n[old] = peer->next;
	if (peer->next)
		peer->next->prev = peer->prev;
	peer->n = n;
	peer->prev = peer->next = NULL;
	if (n > 0) {
		peer->next = table->by_n[n];
		if (peer->next)
			peer->next->prev = peer;
		table->by_n[n] = peer;
	}
	if (n > table->most || (old == table->most && !table->by_n[old]))
		table->most = n;
}

struct hvd_peer_table *hvd_peer_table_create(void)
{
	struct hvd_peer_table *table = hvd_xcalloc(1, sizeof(*table));

	table->seed = hvd_hash_seed();
	hvd_hash_table_init(&table->peers, 64);
	return table;
}

void hvd_peer_table_destroy(struct hvd_peer_table *table)
{
	if (!table)
		return;
	while (table->most > 0)
		hvd_peer_table_remove(table, hvd_peer_table_busiest(table));
	hvd_hash_table_free(&table->peers);
	free(table->by_n);
	free(table);
}

size_t hvd_peer_table_count(const struct hvd_peer_table *table)
{
	return table->count;
}

void hvd_peer_table_add(struct hvd_peer_table *table, const struct hvd_addr *addr, struct hvd_peer_entry *entry)
{
	struct hvd_peer *peer = need_peer(table, addr);

	entry->peer = peer;
	TAILQ_INSERT_TAIL(&peer->entries, entry, link);
	table->count++;
	set_n(table, peer, peer->n + 1);
}

void hvd_peer_table_remove(struct hvd_peer_table *table, struct hvd_peer_entry *entry)
{
	struct hvd_peer *peer = entry->peer;

	if (!peer)
		return;
	TAILQ_REMOVE(&peer->entries, entry, link);
	*entry = (struct hvd_peer_entry){0};
	table->count--;
	set_n(table, peer, peer->n - 1);
	if (peer->n > 0)
		return;
	hvd_hash_table_remove(&table->peers, &peer->node);
	free(peer);
}

struct hvd_peer_entry *hvd_peer_table_busiest(const struct hvd_peer_table *table)
{
	return table->most > 0 ? TAILQ_FIRST(&table->by_n[table->most]->entries) : NULL;
}
