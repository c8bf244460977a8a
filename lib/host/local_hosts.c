/* SPDX-License-Identifier: Apache-2.0 */
#include "local_hosts.h"

#include "host_addrs.h"
#include "lib/base/cleanup.h"
#include "lib/base/hash.h"
#include "lib/base/xalloc.h"
#include "lib/net/iface.h"
#include "this_host.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Reading the interfaces takes under a millisecond; this is for a kernel that does not answer. */
#define QUERY_SECONDS 5.0

struct known {
	struct hvd_hash_node node; /* the first member */
	bool local;
	char name[];
};

struct hvd_local_hosts {
	struct hvd_hash_table known; /* by name */
	uint64_t seed;
	char own[256];
};

struct hvd_local_hosts *hvd_local_hosts_create(void)
{
	struct hvd_local_hosts *lh = hvd_xcalloc(1, sizeof(*lh));

	lh->seed = hvd_hash_seed();
	hvd_hash_table_init(&lh->known, 64);
	gethostname(lh->own, sizeof(lh->own) - 1);
	return lh;
}

void hvd_local_hosts_destroy(struct hvd_local_hosts *lh)
{
	if (!lh)
		return;
	for (size_t i = 0; i < lh->known.room; i++)
		for (struct hvd_hash_node *node = lh->known.slots[i], *next; node; node = next) {
			next = node->chain;
			free(node);
		}
	hvd_hash_table_free(&lh->known);
	free(lh);
}

static const struct known *find(const struct hvd_local_hosts *lh, const char *name)
{
	struct hvd_hash_node *node = hvd_hash_first(&lh->known, hvd_hash(lh->seed, name, strlen(name)));

	while (node && strcmp(((struct known *)node)->name, name) != 0)
		node = hvd_hash_next(node);
	return (struct known *)node;
}

static void keep(struct hvd_local_hosts *lh, const char *name, bool local)
{
	size_t len = strlen(name);
	struct known *k = hvd_xcalloc(1, sizeof(*k) + len + 1);

	k->local = local;
	memcpy(k->name, name, len);
	hvd_hash_table_add(&lh->known, &k->node, hvd_hash(lh->seed, name, len));
}

/* ---- one look-up ---- */

static bool is_own_addr(const struct hvd_addr *addr, const struct hvd_ifaces *ifs)
{
	for (int i = 0; i < ifs->n_own; i++)
		if (hvd_addr_equal(addr, &ifs->own[i]))
			return true;
	return hvd_addr_loopback(addr);
}

static bool all_own(const struct hvd_host_addrs *addrs, const struct hvd_ifaces *ifs)
{
	for (size_t i = 0; i < addrs->n; i++)
		if (!is_own_addr(&addrs->v[i], ifs))
			return false;
	return addrs->n > 0;
}

static bool short_own_name(const struct hvd_local_hosts *lh, const char *name)
{
	return !strchr(name, '.') && hvd_same_host(name, lh->own);
}

static void look_up(struct hvd_local_hosts *lh, const char *const *names, size_t n)
{
	hvd_cleanup_free struct hvd_host_addrs *addrs = hvd_host_addrs_find(names, n);
	HVD_CLEANUP(hvd_ifaces_clear) struct hvd_ifaces ifs = {0};

	/* Without the interfaces loopback addresses are all that is known to be this host's. */
	(void)hvd_ifaces_query(&ifs, &(struct hvd_iface_opts){.no_numa = true}, hvd_deadline_in(QUERY_SECONDS), NULL);
	for (size_t i = 0; i < n; i++)
		keep(lh, names[i], all_own(&addrs[i], &ifs) || (!addrs[i].n && short_own_name(lh, names[i])));
}

/* Needs no look-up, and waits for nothing. */
static bool is_own_name(const struct hvd_local_hosts *lh, const char *name)
{
	return strcmp(name, "localhost") == 0 || strcmp(name, lh->own) == 0;
}

void hvd_local_hosts_find(struct hvd_local_hosts *lh, const struct hvd_alloc *hosts)
{
	hvd_cleanup_free const char **names = hvd_xcalloc((size_t)hosts->n_hosts + 1, sizeof(const char *));
	size_t n = 0;

	for (int i = 0; i < hosts->n_hosts; i++)
		if (!is_own_name(lh, hosts->hosts[i].name) && !find(lh, hosts->hosts[i].name))
			names[n++] = hosts->hosts[i].name;
	if (n > 0)
		look_up(lh, names, n);
}

bool hvd_local_hosts_has(struct hvd_local_hosts *lh, const char *name)
{
	if (is_own_name(lh, name))
		return true;
	if (!find(lh, name))
		look_up(lh, &name, 1);
	return find(lh, name)->local;
}
