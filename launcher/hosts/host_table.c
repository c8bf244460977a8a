/* SPDX-License-Identifier: Apache-2.0 */
#include "host_table.h"

#include "lib/base/cleanup.h"
#include "lib/base/hostlist.h"
#include "lib/base/size.h"
#include "lib/base/strv.h"
#include "lib/base/xalloc.h"
#include "lib/protocol/wire.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_EDGES_PER_NODE (HVD_MAX_NEIGHBOURS * HVD_MAX_NICS * HVD_HOST_MAX_ADDRS)
#define MAX_HOSTS_TEXT     (256 * 1024)

/* A stage that the host has reached, not one that it goes back to. */
static void log_stage(const struct hvd_host_table *table, uint32_t host, enum hvd_stage stage)
{
	static const enum hvd_event_name names[HVD_N_STAGES] = {
		[HVD_STAGE_COMING] = HVD_EV_HOST_COMING,   [HVD_STAGE_REGISTERED] = HVD_EV_HOST_REGISTERED,
		[HVD_STAGE_PROBING] = HVD_EV_HOST_PROBING, [HVD_STAGE_REPORTED] = HVD_EV_HOST_REPORTED,
		[HVD_STAGE_HERE] = HVD_EV_HOST_HERE,
	};
	const struct hvd_host_entry *entry = &table->hosts[host];
	const char *name = entry->name ? entry->name : entry->node.name;

	if (name && stage > entry->stage)
		hvd_event_log_add(table->events,
				  &(struct hvd_event){.name = names[stage], .index = host, .host = name});
}

void hvd_host_table_enter(struct hvd_host_table *table, uint32_t host, enum hvd_stage stage)
{
	log_stage(table, host, stage);
	table->in_stage[table->hosts[host].stage]--;
	table->in_stage[stage]++;
	table->hosts[host].stage = stage;
}

uint32_t hvd_host_table_count(const struct hvd_host_table *table, enum hvd_stage least)
{
	uint32_t n = 0;

	for (int stage = (int)least; stage < HVD_N_STAGES; stage++)
		n += table->in_stage[stage];
	return n;
}

uint32_t *hvd_host_table_list(const struct hvd_host_table *table, enum hvd_stage least, uint32_t *n)
{
	uint32_t *list = hvd_xcalloc(table->n, sizeof(*list));

	*n = 0;
	for (uint32_t h = 0; h < table->n; h++)
		if (table->hosts[h].stage >= least)
			list[(*n)++] = h;
	return list;
}

static void free_host(struct hvd_host_entry *host)
{
	hvd_host_info_clear(&host->node);
	hvd_host_check_clear(&host->check);
	free(host->kept);
}

static void grow(struct hvd_host_table *table, uint32_t n)
{
	if (n <= table->n)
		return;
	table->hosts = hvd_xrealloc(table->hosts, n, sizeof(*table->hosts));
	memset(&table->hosts[table->n], 0, (n - table->n) * sizeof(*table->hosts));
	table->in_stage[HVD_STAGE_AWAY] += n - table->n;
	table->n = n;
}

void hvd_host_table_expect(struct hvd_host_table *table, uint32_t host, const char *name)
{
	grow(table, host + 1);
	free(table->hosts[host].name);
	table->hosts[host].name = name ? hvd_xstrdup(name) : NULL;
	hvd_host_table_enter(table, host, HVD_STAGE_COMING);
}

static void set_size(struct hvd_host_table *table, uint32_t n, uint32_t size)
{
	grow(table, n);
	table->size = size;
	for (uint32_t h = 0; h < n; h++)
		hvd_host_table_expect(table, h, NULL);
}

void hvd_host_table_init(struct hvd_host_table *table, uint32_t n, uint32_t size)
{
	*table = (struct hvd_host_table){.fixed = true};
	if (n)
		set_size(table, n, size);
}

void hvd_host_table_clear(struct hvd_host_table *table)
{
	for (uint32_t h = 0; h < table->n; h++) {
		free_host(&table->hosts[h]);
		free(table->hosts[h].name);
	}
	free(table->hosts);
	free(table->edges);
	memset(table, 0, sizeof(*table));
}

void hvd_host_table_leave(struct hvd_host_table *table, uint32_t index)
{
	struct hvd_host_entry *host = &table->hosts[index];
	size_t n = 0;

	hvd_host_table_enter(table, index, HVD_STAGE_AWAY);
	free_host(host);
	*host = (struct hvd_host_entry){.stage = HVD_STAGE_AWAY, .name = host->name};
	for (size_t e = 0; e < table->n_edges; e++)
		if (table->edges[e].from != index && table->edges[e].to != index)
			table->edges[n++] = table->edges[e];
	table->n_edges = n;
}

/* The first registration may list the names of all hosts. */
static void learn_names(struct hvd_host_table *table, const json_t *msg)
{
	HVD_CLEANUP(hvd_strv_free) struct hvd_strv names = {0};
	const char *hosts;

	if (table->hosts[0].name || hvd_get_str(msg, "hosts", MAX_HOSTS_TEXT, &hosts, NULL) != 0)
		return;
	if (hvd_hostlist_expand(hosts, table->n, &names, NULL) == 0 && names.n == table->n)
		for (uint32_t h = 0; h < table->n; h++)
			table->hosts[h].name = hvd_xstrdup(names.v[h]);
}

int hvd_host_table_register(struct hvd_host_table *table, const json_t *msg, uint32_t *index, struct hvd_err *err)
{
	int64_t node, nodes = table->n, size = table->size;
	HVD_CLEANUP(hvd_host_info_clear) struct hvd_host_info fresh = {0};
	char buf[32];

	if (table->fixed && (hvd_get_int(msg, "nodes", 1, HVD_MAX_HOSTS, &nodes, err) != 0 ||
			     hvd_get_int(msg, "size", 0, HVD_MAX_RANKS, &size, err) != 0))
		return -1;
	if (hvd_get_int(msg, "node", 0, nodes - 1, &node, err) != 0)
		return -1;
	*index = (uint32_t)node;
	if (hvd_host_info_from_json(msg, &fresh, err) != 0)
		return -1;
	if (table->n == 0)
		set_size(table, (uint32_t)nodes, (uint32_t)size);
	if ((uint32_t)nodes != table->n || (size && table->size && (uint32_t)size != table->size)) {
		hvd_err_set(err, HVD_E_PROTO, "%s knows of %u hosts and %u ranks, but the driver knows of %u and %u",
			    fresh.name, (unsigned)nodes, (unsigned)size, table->n, table->size);
		return -1;
	}
	if (table->hosts[node].stage != HVD_STAGE_COMING) {
		hvd_err_set(err, HVD_E_PROTO, "%s registers as host %u, but %s already has this number", fresh.name,
			    (unsigned)node, hvd_host_table_name(table, *index, buf));
		hvd_err_hint(err, "do the tasks of one host run in several network namespaces, for example in "
				  "containers? srun --hvd supports this");
		return -1;
	}
	table->hosts[node].node = fresh;
	fresh = (struct hvd_host_info){0};
	hvd_host_table_enter(table, *index, HVD_STAGE_REGISTERED);
	if (table->fixed)
		learn_names(table, msg);
	return 0;
}

bool hvd_host_table_left_out(const struct hvd_host_table *table, const json_t *msg)
{
	int64_t host;

	return table->n && hvd_get_int(msg, "node", 0, table->n - 1, &host, NULL) == 0 &&
	       table->hosts[host].leaving == HVD_LEAVING_LEFT_OUT;
}

void hvd_host_table_forget_edges(struct hvd_host_table *table)
{
	free(table->edges);
	table->edges = NULL;
	table->n_edges = table->edges_room = 0;
}

const struct hvd_addr *hvd_host_table_addr(const struct hvd_host_info *node, size_t i, uint8_t *iface)
{
	for (uint8_t f = 0; f < node->n_ifaces && f < HVD_MAX_NICS; f++) {
		if (i < node->ifaces[f].n_addrs) {
			*iface = f;
			return &node->ifaces[f].addrs[i];
		}
		i -= node->ifaces[f].n_addrs;
	}
	return NULL;
}

/* ---- the probe ---- */

/* The place in the list is the address's number: one that is not tried is empty. */
static json_t *host_addrs(const struct hvd_host_info *node, bool every)
{
	json_t *addrs = json_array();
	const struct hvd_addr *addr;
	char text[HVD_ADDR_TEXT];
	uint8_t iface;

	for (size_t a = 0; (addr = hvd_host_table_addr(node, a, &iface)); a++) {
		bool tried =
			every || addr->family == AF_INET || !hvd_host_info_has_family(&node->ifaces[iface], AF_INET);

		json_array_append_new(addrs, json_string(tried ? hvd_addr_text(addr, text) : ""));
	}
	return addrs;
}

json_t *hvd_probe_order(const struct hvd_host_table *table, const uint32_t *hosts, uint32_t n, uint32_t from,
			int timeout_ms, bool every, json_t **addrs)
{
	const char *machine = table->hosts[hosts[from]].node.machine;
	json_t *targets = json_array();
	uint32_t to[HVD_MAX_NEIGHBOURS];
	int n_to = hvd_host_table_one_machine(table, HVD_STAGE_REGISTERED) ? 0 : hvd_network_neighbours(from, n, to);

	for (int i = 0; i < n_to; i++) {
		const struct hvd_host_info *node = &table->hosts[hosts[to[i]]].node;

		if (!addrs[to[i]])
			addrs[to[i]] = host_addrs(node, every || table->ipv6 || table->rounds > 0);
		json_array_append_new(targets, json_pack("{s:I, s:i, s:O, s:b}", "n", (json_int_t)hosts[to[i]], "p",
							 (int)node->port, "a", addrs[to[i]], "here",
							 strcmp(node->machine, machine) == 0));
	}
	return json_pack("{s:s, s:o, s:i}", "t", "probe", "targets", targets, "timeout_ms", timeout_ms);
}

int hvd_probe_patience(int round)
{
	return round < 2 ? 2000 : 4000;
}

static int add_edge(struct hvd_host_table *table, uint32_t from, const json_t *entry, struct hvd_err *err)
{
	const struct hvd_host_entry *state = &table->hosts[from];
	uint16_t n_kept = state->kept ? state->n_kept : table->hosts[from].node.n_ifaces;
	int64_t v[5];
	const struct hvd_addr *addr;
	uint8_t to_if = 0;

	for (size_t i = 0; i < 5; i++) {
		const json_t *value = json_array_get(entry, i);

		if (!json_is_integer(value) || json_integer_value(value) < (i == 2 ? -1 : 0) ||
		    json_integer_value(value) > UINT32_MAX)
			return hvd_err_set(err, HVD_E_PROTO, "a probe report is malformed");
		v[i] = json_integer_value(value);
	}
	if (v[0] < table->n && table->hosts[v[0]].stage < HVD_STAGE_REGISTERED)
		return 0; /* it has left since it was to be probed */
	if (v[0] >= table->n || v[0] == from || v[3] >= HVD_REACH_N || v[2] >= n_kept ||
	    !(addr = hvd_host_table_addr(&table->hosts[v[0]].node, (size_t)v[1], &to_if)))
		return hvd_err_set(err, HVD_E_PROTO, "a probe report names an address that was not asked for");
	if (v[2] < 0)
		v[2] = HVD_NO_IFACE;
	else if (state->kept)
		v[2] = state->kept[v[2]];
	/* It left by an interface that the user does not want. */
	if (v[2] == HVD_NO_IFACE && v[3] == HVD_REACH_OK)
		v[3] = HVD_REACH_SOURCE;
	if (table->n_edges == table->edges_room) {
		table->edges_room = table->edges_room ? table->edges_room * 2 : 256;
		table->edges = hvd_xrealloc(table->edges, table->edges_room, sizeof(*table->edges));
	}
	table->edges[table->n_edges++] = (struct hvd_edge){
		.from = from,
		.to = (uint32_t)v[0],
		.from_if = (uint8_t)v[2],
		.to_if = to_if,
		.to_addr = (uint8_t)(addr - table->hosts[v[0]].node.ifaces[to_if].addrs),
		.family = addr->family == AF_INET ? 4 : 6,
		.result = (uint8_t)v[3],
		.rtt_us = (uint32_t)v[4],
	};
	return 0;
}

int hvd_host_table_report(struct hvd_host_table *table, uint32_t index, const json_t *msg, struct hvd_err *err)
{
	struct hvd_host_entry *state = &table->hosts[index];
	json_t *edges, *entry;
	size_t i;

	if (state->stage != HVD_STAGE_PROBING)
		return hvd_err_set(err, HVD_E_PROTO, "a probe report came without a request");
	if (hvd_get_array(msg, "edges", MAX_EDGES_PER_NODE, &edges, err) != 0)
		return -1;
	json_array_foreach(edges, i, entry)
	{
		if (add_edge(table, index, entry, err) != 0)
			return -1;
	}
	if (json_object_get(msg, "preflight") && !state->check.known)
		hvd_host_check_read(json_object_get(msg, "preflight"), &state->check);
	hvd_host_table_enter(table, index, HVD_STAGE_REPORTED);
	return 0;
}

void hvd_host_table_probe_again(struct hvd_host_table *table)
{
	size_t n = 0;

	for (size_t e = 0; e < table->n_edges; e++)
		if (table->edges[e].result == HVD_REACH_OK)
			table->edges[n++] = table->edges[e];
	table->n_edges = n;
	for (uint32_t h = 0; h < table->n; h++)
		if (table->hosts[h].stage == HVD_STAGE_REPORTED)
			hvd_host_table_enter(table, h, HVD_STAGE_REGISTERED);
	table->rounds++;
}

bool hvd_host_table_one_machine(const struct hvd_host_table *table, enum hvd_stage least)
{
	const char *machine = NULL;

	for (uint32_t h = 0; h < table->n; h++) {
		if (table->hosts[h].stage < least)
			continue;
		if (machine && strcmp(table->hosts[h].node.machine, machine) != 0)
			return false;
		machine = table->hosts[h].node.machine;
	}
	return machine != NULL;
}

int hvd_host_table_layout(const struct hvd_host_table *table, struct hvd_layout *layout, struct hvd_err *err)
{
	hvd_cleanup_free char **names = hvd_xcalloc(table->n, sizeof(*names));
	hvd_cleanup_free int *tasks = hvd_xcalloc(table->n, sizeof(*tasks));
	hvd_cleanup_free int **tids = hvd_xcalloc(table->n, sizeof(*tids));

	for (uint32_t i = 0; i < table->n; i++) {
		const struct hvd_host_info *node = &table->hosts[i].node;

		/* A host that was left out has no ranks. */
		names[i] = node->name ? node->name : table->hosts[i].name ? table->hosts[i].name : (char *)"?";
		tasks[i] = (int)node->n_ranks;
		tids[i] = (int *)node->ranks; /* at most HVD_MAX_RANKS */
	}
	return hvd_layout_from_tasks(layout, names, tasks, tids, (int)table->n, err);
}

const char *hvd_host_table_name(const struct hvd_host_table *table, uint32_t index, char buf[32])
{
	if (index < table->n && table->hosts[index].node.name)
		return table->hosts[index].node.name;
	if (index < table->n && table->hosts[index].name)
		return table->hosts[index].name;
	snprintf(buf, 32, "host %u", index);
	return buf;
}

char *hvd_host_table_missing(const struct hvd_host_table *table)
{
	static const struct {
		enum hvd_stage stage;
		const char *what;
	} lacking[] = {{HVD_STAGE_COMING, "no registration from"}, {HVD_STAGE_PROBING, "no probe report from"}};
	char *text, buf[32];

	/* The first registration tells the names of all. */
	if (!table->n || (table->in_stage[HVD_STAGE_COMING] == table->n && !table->hosts[0].name))
		return hvd_xstrdup("no registration from any host");
	text = hvd_xstrdup("");

	for (size_t i = 0; i < sizeof(lacking) / sizeof(lacking[0]); i++) {
		HVD_CLEANUP(hvd_strv_free) struct hvd_strv hosts = {0};

		for (uint32_t h = 0; h < table->n; h++)
			if (table->hosts[h].stage == lacking[i].stage)
				hvd_strv_add(&hosts, hvd_host_table_name(table, h, buf));
		if (hosts.n) {
			hvd_cleanup_free char *list = hvd_hostlist_compress(hosts.v, hosts.n);

			hvd_xappendf(&text, "%s%s %s", *text ? "; " : "", lacking[i].what, list);
		}
	}
	return text;
}
