/* SPDX-License-Identifier: Apache-2.0 */
#include "hash.h"

#include "xalloc.h"

#include <stdlib.h>
#include <sys/random.h>
#include <sys/types.h>

uint64_t hvd_hash_seed(void)
{
	uint64_t seed;

	if (getrandom(&seed, sizeof(seed), GRND_NONBLOCK) != (ssize_t)sizeof(seed))
		seed = UINT64_C(0xcbf29ce484222325);
	return seed;
}

uint64_t hvd_hash(uint64_t seed, const void *data, size_t len)
{
	const unsigned char *p = data;
	uint64_t h = seed;

	for (size_t i = 0; i < len; i++)
		h = (h ^ p[i]) * UINT64_C(0x100000001b3);
	h ^= h >> 32;
	h *= UINT64_C(0x9e3779b97f4a7c15);
	return h ^ (h >> 29);
}

static struct hvd_hash_node **slot_of(const struct hvd_hash_table *t, uint64_t hash)
{
	return &t->slots[hash & (t->room - 1)];
}

static void link_node(struct hvd_hash_table *t, struct hvd_hash_node *node)
{
	struct hvd_hash_node **slot = slot_of(t, node->hash);

	node->chain = *slot;
	*slot = node;
	t->n++;
}

void hvd_hash_table_init(struct hvd_hash_table *t, size_t room)
{
	*t = (struct hvd_hash_table){.slots = hvd_xcalloc(room, sizeof(struct hvd_hash_node *)), .room = room};
}

void hvd_hash_table_free(struct hvd_hash_table *t)
{
	free(t->slots);
}

static void grow(struct hvd_hash_table *t)
{
	struct hvd_hash_table bigger;

	hvd_hash_table_init(&bigger, t->room * 2);
	for (size_t i = 0; i < t->room; i++)
		for (struct hvd_hash_node *node = t->slots[i], *chain; node; node = chain) {
			chain = node->chain;
			link_node(&bigger, node);
		}
	hvd_hash_table_free(t);
	*t = bigger;
}

void hvd_hash_table_add(struct hvd_hash_table *t, struct hvd_hash_node *node, uint64_t hash)
{
	if (t->n >= t->room)
		grow(t);
	node->hash = hash;
	link_node(t, node);
}

void hvd_hash_table_remove(struct hvd_hash_table *t, const struct hvd_hash_node *node)
{
	struct hvd_hash_node **at = slot_of(t, node->hash);

	while (*at != node)
		at = &(*at)->chain;
	*at = node->chain;
	t->n--;
}

static struct hvd_hash_node *with_hash(struct hvd_hash_node *node, uint64_t hash)
{
	while (node && node->hash != hash)
		node = node->chain;
	return node;
}

struct hvd_hash_node *hvd_hash_first(const struct hvd_hash_table *t, uint64_t hash)
{
	return with_hash(*slot_of(t, hash), hash);
}

struct hvd_hash_node *hvd_hash_next(const struct hvd_hash_node *node)
{
	return with_hash(node->chain, node->hash);
}
