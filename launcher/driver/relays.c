/* SPDX-License-Identifier: Apache-2.0 */
#include "relays.h"

#include "lib/base/xalloc.h"

#include <stdlib.h>
#include <string.h>

/* Why no host of this launch can have a relay; NULL: they may. Under an MPI and jsrun no node agent stays. */
static const char *impossible(const struct hvd_driver_opts *opts)
{
	if (opts->spec->mpi.on)
		return "an MPI starts the ranks";
	return opts->mode == HVD_START_SUPERVISED_RANKS ? "jsrun starts the ranks" : NULL;
}

bool hvd_relays_wanted(const struct hvd_driver_opts *opts)
{
	return !opts->loopback && !impossible(opts) && opts->spec->relay.when != HVD_RELAY_NEVER;
}

bool hvd_relays_ask_shared(const struct hvd_driver_opts *opts)
{
	return hvd_relays_wanted(opts) && opts->spec->relay.when == HVD_RELAY_AUTO && opts->ranks < HVD_RELAYS_MANY;
}

/* ---- are they used ---- */

/* Why relays are to be used, for messages; NULL: they are not. */
static char *reason(const struct hvd_driver_opts *opts, uint32_t ranks)
{
	if (opts->spec->relay.when == HVD_RELAY_ALWAYS)
		return hvd_xstrdup("--store-relay=always");
	if (opts->hosts_shared)
		return hvd_xstrdup("other users may have processes on these hosts");
	return ranks >= HVD_RELAYS_MANY ? hvd_xasprintf("%u ranks are many", (unsigned)ranks) : NULL;
}

static bool on_machine(const struct hvd_node *node, const char *machine)
{
	return strcmp(node->machine, machine) == 0;
}

static int can_relay(const struct hvd_node *node, struct hvd_err *err)
{
	if (node->relay)
		return 0;
	hvd_err_set(err, HVD_E_NET, "there can be no relay of the rendezvous: %s",
		    node->no_relay ? node->no_relay : "its node agent offers none");
	return hvd_err_host(err, node->name);
}

/* Those of the listed hosts that are to have a relay, in place; returns how many. -1 with err set: one cannot. */
static int relay_hosts(const struct hvd_node_table *table, uint32_t *hosts, uint32_t n, const char *machine,
		       struct hvd_err *err)
{
	int kept = 0;

	for (uint32_t i = 0; i < n; i++) {
		const struct hvd_node *node = &table->hosts[hosts[i]].node;

		if (on_machine(node, machine))
			continue;
		if (can_relay(node, err) != 0)
			return -1;
		hosts[kept++] = hosts[i];
	}
	return kept;
}

/* ---- the tree ---- */

static void set_parent(struct hvd_relays *relays, uint32_t host, int32_t parent)
{
	relays->place[host].parent = parent;
	relays->place[host].origin = relays->next_origin++;
	if (parent >= 0)
		relays->place[parent].children++;
}

/* Relay I connects to relay I / fan_out - 1 of the list; the first ones of it, to the root. */
static void make_tree(struct hvd_relays *relays, const struct hvd_node_table *table, const uint32_t *hosts, uint32_t n,
		      uint32_t fan_out)
{
	for (uint32_t i = 0; i < n; i++) {
		int32_t parent = i < fan_out ? HVD_RELAY_PARENT_ROOT : (int32_t)hosts[i / fan_out - 1];

		if (parent >= 0 && !table->hosts[parent].node.relay_children)
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

#define DIRECT "so all ranks connect to the rendezvous over the network"

/* How loud to say that there can be no relays. */
static enum hvd_log_level missed(const struct hvd_driver_opts *opts)
{
	return opts->spec->relay.when == HVD_RELAY_ALWAYS ? HVD_LOG_WARN : HVD_LOG_VERBOSE;
}

void hvd_relays_make(struct hvd_relays *relays, const struct hvd_driver_opts *opts, const struct hvd_node_table *table,
		     enum hvd_stage least, uint32_t ranks, const struct hvd_endpoints *root, const struct hvd_log *log)
{
	uint32_t n, *hosts, fan_out = (uint32_t)opts->spec->relay.fan_out;
	struct hvd_err err = {0};
	char *why;
	int found;

	if (opts->spec->relay.when != HVD_RELAY_NEVER && impossible(opts))
		hvd_log(log, missed(opts), "there can be no relays of the rendezvous, as %s; " DIRECT,
			impossible(opts));
	if (!hvd_relays_wanted(opts) || !root->relay_port)
		return;
	why = reason(opts, ranks);
	if (!why) {
		hvd_verbose(log,
			    "ranks connect to the rendezvous over the network: %u ranks are few, and no other user is "
			    "known to have processes on these hosts",
			    (unsigned)ranks);
		return;
	}
	hosts = hvd_node_table_list(table, least, &n);
	found = relay_hosts(table, hosts, n, root->machine, &err);
	if (found < 0) {
		hvd_log(log, missed(opts), "%s: %s; " DIRECT, err.host, err.msg);
	} else if (found > 0 || opts->spec->elastic.on) {
		relays->used = true;
		grow(relays, table->n);
		make_tree(relays, table, hosts, (uint32_t)found, fan_out);
		hvd_verbose(log,
			    "ranks meet at a relay of the rendezvous on their host, as %s: %d relays, %u of them "
			    "connect to the rendezvous itself",
			    why, found, (unsigned)found < fan_out ? (unsigned)found : fan_out);
	}
	free(hosts);
	free(why);
}

void hvd_relays_clear(struct hvd_relays *relays)
{
	free(relays->place);
	memset(relays, 0, sizeof(*relays));
}

/* ---- hosts that come and go ---- */

int hvd_relays_join(struct hvd_relays *relays, const struct hvd_node_table *table, uint32_t host,
		    const struct hvd_endpoints *root, struct hvd_err *err)
{
	const struct hvd_node *node = &table->hosts[host].node;

	grow(relays, table->n);
	if (on_machine(node, root->machine))
		return 0;
	if (can_relay(node, err) != 0)
		return -1;
	set_parent(relays, host, HVD_RELAY_PARENT_ROOT);
	return 0;
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

uint32_t *hvd_relays_origins(const struct hvd_relays *relays, size_t *n)
{
	uint32_t *origins = hvd_xcalloc(relays->n, sizeof(*origins));

	*n = 0;
	for (uint32_t h = 0; h < relays->n; h++)
		if (hvd_relays_at(relays, h))
			origins[(*n)++] = relays->place[h].origin;
	return origins;
}
