/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hash.h - hash tables whose keys come from the network.
 */
#ifndef HVD_HASH_H
#define HVD_HASH_H

#include <stddef.h>
#include <stdint.h>

/* A random seed, so that nobody outside can choose keys that collide. Never waits. Returns a constant if the kernel has
 * no random bytes yet. */
uint64_t hvd_hash_seed(void);

/* FNV-1a over len bytes, starting from `seed`, finished so that the low bits are good. A hash may be the seed of the
 * next one. */
uint64_t hvd_hash(uint64_t seed, const void *data, size_t len);

/* A table of nodes. A node is the first member of the caller's struct, and stays the caller's. The table grows by
 * itself. */
struct hvd_hash_node {
	struct hvd_hash_node *chain;
	uint64_t hash;
};

struct hvd_hash_table {
	struct hvd_hash_node **slots;
	size_t n, room; /* nodes; slots, a power of two */
};

void hvd_hash_table_init(struct hvd_hash_table *t, size_t room);
void hvd_hash_table_free(struct hvd_hash_table *t); /* not the nodes */

void hvd_hash_table_add(struct hvd_hash_table *t, struct hvd_hash_node *node, uint64_t hash);
void hvd_hash_table_remove(struct hvd_hash_table *t, const struct hvd_hash_node *node);

/* The first node with this hash, and the next node with the same hash; NULL = there is none. */
struct hvd_hash_node *hvd_hash_first(const struct hvd_hash_table *t, uint64_t hash);
struct hvd_hash_node *hvd_hash_next(const struct hvd_hash_node *node);

#endif
