/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Addresses are found by a hash, and stand in a list for each number of entries: one entry more or less moves an
 * address to the next list. Where most are is known from the highest list that is not empty.
 */
#include "peer_table.h"

#include "lib/base/xalloc.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>

#define SLOTS 4096 /* of the hash; a power of two */

struct hvd_peer {
	struct hvd_addr addr;
	size_t n;
	struct hvd_peer_entry *first, *last; /* the oldest, the newest */
	struct hvd_peer *same_slot;
	struct hvd_peer *prev, *next; /* with as many entries */
};

struct hvd_peer_table {
	struct hvd_peer *slots[SLOTS];
	struct hvd_peer **by_n; /* by number of entries; 0 is not used */
	size_t room;            /* of by_n */
	size_t most, count;
};

static struct hvd_addr counted_as(const struct hvd_addr *addr)
{
	struct hvd_addr as = {.family = addr->family};

	if (addr->family == AF_INET)
		as.u.v4.s_addr = ntohl(addr->u.v4.s_addr) >> 24 == 127 ? htonl(INADDR_LOOPBACK) : addr->u.v4.s_addr;
	else if (addr->family == AF_INET6)
		as.u.v6 = addr->u.v6;
	return as;
}

/* Also where there is none, as with a socket that has no address. */
static bool same(const struct hvd_addr *a, const struct hvd_addr *b)
{
	return a->family == b->family && memcmp(&a->u, &b->u, sizeof(a->u)) == 0;
}

static size_t slot_of(const struct hvd_addr *addr)
{
	const unsigned char *p = (const unsigned char *)&addr->u;
	uint32_t hash = 2166136261U;

	for (size_t i = 0; i < sizeof(addr->u); i++)
		hash = (hash ^ p[i]) * 16777619U;
	return (hash ^ hash >> 16) % SLOTS;
}

static void unlist(struct hvd_peer_table *table, struct hvd_peer *peer)
{
	if (peer->prev)
		peer->prev->next = peer->next;
	else
		table->by_n[peer->n] = peer->next;
	if (peer->next)
		peer->next->prev = peer->prev;
	while (table->most > 0 && !table->by_n[table->most])
		table->most--;
}

static void list(struct hvd_peer_table *table, struct hvd_peer *peer)
{
	if (peer->n >= table->room) {
		size_t room = peer->n * 2 + 16;

		table->by_n = hvd_xrealloc(table->by_n, room, sizeof(struct hvd_peer *));
		memset(table->by_n + table->room, 0, (room - table->room) * sizeof(struct hvd_peer *));
		table->room = room;
	}
	peer->prev = NULL;
	peer->next = table->by_n[peer->n];
	if (peer->next)
		peer->next->prev = peer;
	table->by_n[peer->n] = peer;
	if (peer->n > table->most)
		table->most = peer->n;
}

struct hvd_peer_table *hvd_peer_table_create(void)
{
	return hvd_xcalloc(1, sizeof(struct hvd_peer_table));
}

void hvd_peer_table_destroy(struct hvd_peer_table *table)
{
	if (!table)
		return;
	while (table->most > 0)
		hvd_peer_table_remove(table, hvd_peer_table_busiest(table));
	free(table->by_n);
	free(table);
}

size_t hvd_peer_table_count(const struct hvd_peer_table *table)
{
	return table->count;
}

void hvd_peer_table_add(struct hvd_peer_table *table, const struct hvd_addr *addr, struct hvd_peer_entry *entry)
{
	struct hvd_addr as = counted_as(addr);
	struct hvd_peer **slot = &table->slots[slot_of(&as)], *peer = *slot;

	while (peer && !same(&peer->addr, &as))
		peer = peer->same_slot;
	if (!peer) {
		peer = hvd_xcalloc(1, sizeof(*peer));
		peer->addr = as;
		peer->same_slot = *slot;
		*slot = peer;
	} else {
		unlist(table, peer);
	}
	entry->peer = peer;
	entry->next = NULL;
	entry->prev = peer->last;
	if (entry->prev)
		entry->prev->next = entry;
	else
		peer->first = entry;
	peer->last = entry;
	peer->n++;
	table->count++;
	list(table, peer);
}

static void forget(struct hvd_peer_table *table, struct hvd_peer *peer)
{
	struct hvd_peer **at = &table->slots[slot_of(&peer->addr)];

	while (*at != peer)
		at = &(*at)->same_slot;
	*at = peer->same_slot;
	free(peer);
}

void hvd_peer_table_remove(struct hvd_peer_table *table, struct hvd_peer_entry *entry)
{
	struct hvd_peer *peer = entry->peer;

	if (!peer)
		return;
	unlist(table, peer);
	if (entry->prev)
		entry->prev->next = entry->next;
	else
		peer->first = entry->next;
	if (entry->next)
		entry->next->prev = entry->prev;
	else
		peer->last = entry->prev;
	*entry = (struct hvd_peer_entry){0};
	peer->n--;
	table->count--;
	if (peer->n > 0)
		list(table, peer);
	else
		forget(table, peer);
}

struct hvd_peer_entry *hvd_peer_table_busiest(const struct hvd_peer_table *table)
{
	return table->most > 0 ? table->by_n[table->most]->first : NULL;
}

const struct hvd_addr *hvd_peer_entry_addr(const struct hvd_peer_entry *entry)
{
	return &entry->peer->addr;
}
