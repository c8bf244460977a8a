/* SPDX-License-Identifier: Apache-2.0 */
#include "peers.h"

#include "access.h"
#include "lib/base/xalloc.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#define BUCKETS 4096 /* a power of two */

struct hvd_rv_peers {
	uint64_t seed;
	const struct hvd_rv_peer *most;
	struct hvd_rv_peer *buckets[BUCKETS];
};

struct hvd_rv_peers *hvd_rv_peers_create(void)
{
	struct hvd_rv_peers *peers = hvd_xcalloc(1, sizeof(*peers));

	/* Without randomness the table still works. */
	if (getrandom(&peers->seed, sizeof(peers->seed), GRND_NONBLOCK) != (ssize_t)sizeof(peers->seed))
		peers->seed = UINT64_C(0xcbf29ce484222325);
	return peers;
}

void hvd_rv_peers_destroy(struct hvd_rv_peers *peers)
{
	free(peers);
}

static struct hvd_rv_peer **bucket_of(struct hvd_rv_peers *peers, const struct in6_addr *addr)
{
	uint64_t h = peers->seed;

	for (size_t i = 0; i < sizeof(*addr); i++)
		h = (h ^ addr->s6_addr[i]) * UINT64_C(0x100000001b3);
	h ^= h >> 32;
	h *= UINT64_C(0x9e3779b97f4a7c15);
	return &peers->buckets[(h ^ (h >> 29)) & (BUCKETS - 1)];
}

struct hvd_rv_peer *hvd_rv_peers_enter(struct hvd_rv_peers *peers, const struct sockaddr_storage *from)
{
	struct in6_addr addr = hvd_rv_mapped(from);
	struct hvd_rv_peer **bucket = bucket_of(peers, &addr), *p = *bucket;

	while (p && memcmp(&p->addr, &addr, sizeof(addr)) != 0)
		p = p->chain;
	if (!p) {
		p = hvd_xcalloc(1, sizeof(*p));
		p->addr = addr;
		p->chain = *bucket;
		*bucket = p;
	}
	p->conns++;
	if (!peers->most || p->conns > peers->most->conns)
		peers->most = p;
	return p;
}

void hvd_rv_peers_leave(struct hvd_rv_peers *peers, struct hvd_rv_peer *peer)
{
	struct hvd_rv_peer **at = bucket_of(peers, &peer->addr);

	if (--peer->conns > 0)
		return;
	while (*at != peer)
		at = &(*at)->chain;
	*at = peer->chain;
	if (peers->most == peer)
		peers->most = NULL;
	free(peer);
}

const struct hvd_rv_peer *hvd_rv_peers_most(const struct hvd_rv_peers *peers)
{
	return peers->most;
}
