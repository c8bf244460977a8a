/* SPDX-License-Identifier: Apache-2.0 */
#include "relays.h"

#include "lib/base/cleanup.h"
#include "lib/base/xalloc.h"

#include <stdlib.h>
#include <string.h>

/* Do ranks of PyTorch meet at the rendezvous? Those of Horovod's elastic jobs get no variables of PyTorch's. */
static bool has_torch(const struct hvd_launch_spec *spec)
{
	return hvd_launch_spec_has_store(spec) && !(spec->elastic.on && spec->max_restarts < 0);
}

bool hvd_relays_have_network(const struct hvd_driver_opts *opts)
{
	return !opts->loopback && has_torch(opts->spec);
}

/* ---- the tree ---- */

static void set_parent(struct hvd_relays *relays, uint32_t host, int32_t parent)
{
	relays->place[host].parent = parent;
	relays->place[host].relay_id = relays->next_relay_id++;
	if (parent >= 0)
		relays->place[parent].children++;
}

/* Relay I connects to relay I / fan_out - 1 of the list; the first ones of it, to the root. */
static void make_tree(struct hvd_relays *relays, const struct hvd_host_table *table, const uint32_t *hosts, uint32_t n,
		      uint32_t fan_out)
{
	for (uint32_t i = 0; i < n; i++) {
		int32_t parent = i < fan_out ? HVD_RELAY_PARENT_ROOT : (int32_t)hosts[i / fan_out - 1];

		if (parent >= 0 && !hvd_host_info_relay(&table->hosts[parent].node, relays->world).children)
			parent = HVD_RELAY_PARENT_ROOT;
		set_parent(relays, hosts[i], parent);
	}
}

static void grow(struct hvd_relays *relays, uint32_t n)
{
	if (n <= relays->n)
		return;
	relays->place = hvd_xrealloc(relays->place, n, sizeof(*relays->place));
	for (uint32_t h = relays->n; h < n; h++)
		relays->place[h] = (struct hvd_relay_place){.parent = HVD_RELAY_NONE};
	relays->n = n;
}

void hvd_relays_make(struct hvd_relays *relays, unsigned world, const struct hvd_driver_opts *opts,
		     const struct hvd_host_table *table, const struct hvd_log *log)
{
	uint32_t n, *hosts, fan_out = (uint32_t)opts->spec->relay_fan_out;

	hosts = hvd_host_table_list(table, HVD_STAGE_REPORTED, &n);
	relays->world = world;
	relays->network = hvd_relays_have_network(opts);
	grow(relays, table->n);
	make_tree(relays, table, hosts, n, fan_out);
	hvd_verbose(log,
		    "ranks rendezvous through a relay on their host%s: %u relays, %u of them connect to the rendezvous "
		    "directly",
		    relays->network ? ", those of PyTorch through the relay on rank 0's host" : "", (unsigned)n,
		    (unsigned)(n < fan_out ? n : fan_out));
	free(hosts);
}

void hvd_relays_clear(struct hvd_relays *relays)
{
	free(relays->place);
	memset(relays, 0, sizeof(*relays));
}

/* ---- hosts that come and go ---- */

void hvd_relays_join(struct hvd_relays *relays, const struct hvd_host_table *table, uint32_t host)
{
	grow(relays, table->n);
	set_parent(relays, host, HVD_RELAY_PARENT_ROOT);
}

/* Its children go over to the root by themselves. */
void hvd_relays_leave(struct hvd_relays *relays, uint32_t host)
{
	if (host < relays->n)
		relays->place[host] = (struct hvd_relay_place){.parent = HVD_RELAY_NONE};
}

/* ---- what others ask ---- */

bool hvd_relays_at(const struct hvd_relays *relays, uint32_t host)
{
	return host < relays->n && relays->place[host].parent != HVD_RELAY_NONE;
}

uint32_t *hvd_relays_ids(const struct hvd_relays *relays, size_t *n)
{
	uint32_t *relay_ids = hvd_xcalloc(relays->n, sizeof(*relay_ids));

	*n = 0;
	for (uint32_t h = 0; h < relays->n; h++)
		if (hvd_relays_at(relays, h))
			relay_ids[(*n)++] = relays->place[h].relay_id;
	return relay_ids;
}

void hvd_relays_admit(const struct hvd_relays *relays, struct hvd_rv *rv)
{
	size_t n;
	hvd_cleanup_free uint32_t *relay_ids = hvd_relays_ids(relays, &n);

	if (rv)
		hvd_rv_relay_admit(rv, relay_ids, n);
}
