/* SPDX-License-Identifier: Apache-2.0 */
#include "hash.h"

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
