/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hash.h - a hash for tables whose keys come from the network.
 */
#ifndef HVD_HASH_H
#define HVD_HASH_H

#include <stddef.h>
#include <stdint.h>

/* A random seed, so that nobody outside can choose keys that collide. Never waits; a constant where the kernel has no
 * random bytes yet. */
uint64_t hvd_hash_seed(void);

/* FNV-1a over len bytes from `seed` on, finished so that the low bits are good. A hash may be the seed of the next
 * one. */
uint64_t hvd_hash(uint64_t seed, const void *data, size_t len);

#endif
