/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gloo_value.h - what a rank of Horovod's Gloo publishes: for each of its peers a struct of 136 bytes, an address in a
 * sockaddr_storage behind which there is what the stack held.
 *
 * The pattern is that of Horovod 0.28.1 with 6 ranks: the words of a rank's structs are the same for all of its peers,
 * except the port and two words with an address of the heap. They differ between ranks, since address spaces are laid
 * out at random. zstd makes 165 to 177 bytes of the 680 of a rank there.
 */
#ifndef HVD_BENCH_GLOO_VALUE_H
#define HVD_BENCH_GLOO_VALUE_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define GLOO_PEER 136

static inline uint32_t gloo_random(uint64_t *state)
{
	*state = *state * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(*state >> 33);
}

/* The value of rank `rank` for `peers` other ranks: GLOO_PEER * peers bytes. */
static inline void gloo_value(unsigned char *out, size_t peers, uint32_t rank)
{
	/* Words that are pointers into four mappings, and words that are the same for all ranks. */
	static const uint32_t constant[GLOO_PEER / 4] = {[1] = 0x0100000a, [8] = 2, [18] = 5, [20] = 2, [28] = 1};
	static const unsigned char mapping[GLOO_PEER / 4] = {
		[4] = 1, [6] = 2, [10] = 2, [14] = 3, [16] = 1, [22] = 2, [26] = 1, [29] = 1};
	uint64_t state = rank + 1;
	uint32_t base[4], words[GLOO_PEER / 4], heap = 0x1d00;

	for (size_t i = 0; i < 4; i++)
		base[i] = gloo_random(&state) & 0xffffff00;
	for (size_t i = 0; i < GLOO_PEER / 4; i++) {
		words[i] = mapping[i] ? base[mapping[i]] + (uint32_t)i * 0x50 : constant[i];
		if (i > 0 && mapping[i - 1])
			words[i] = 0x7f00 + (base[0] >> 8) % 0x100;
	}
	words[27] = 0;
	memset(&words[31], 0xff, 3 * sizeof(words[0]));
	for (size_t i = 0; i < peers; i++, out += GLOO_PEER) {
		uint32_t port = 32768 + gloo_random(&state) % 28232;

		words[0] = 2 | (port >> 8 | (port & 0xff) << 8) << 16;
		heap += 0x40 * (gloo_random(&state) % 32);
		words[26] = base[1] + heap;
		words[29] = words[26] + 16;
		memcpy(out, words, sizeof(words));
	}
}

#endif
