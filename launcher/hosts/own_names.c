/* SPDX-License-Identifier: Apache-2.0 */
/*
 * own_names.c - warns of hosts whose own names lead to an address that other hosts do not reach, if Horovod runs there.
 *
 * Horovod connects its ranks over HOROVOD_GLOO_IFACE. But the ranks of a process set, which init() makes too, listen at
 * the address of the host's own name. Debian's installer lets that lead to 127.0.1.1, and then init() fails after
 * seconds or minutes, with Gloo's words for it. The agents report the address when ranks start:
 *
 *   agent  {"t":"own-name", "addr":ADDR}
 *
 * Whether the ranks are Horovod's shows only when the first of them has stored a value.
 */
#include "agent_registry_internal.h"

#include "lib/base/cleanup.h"
#include "lib/base/hostlist.h"
#include "lib/base/strv.h"
#include "lib/protocol/wire.h"

#include <string.h>

/* Is it an address of an interface that was probed and connects not all hosts? Other addresses may lead somewhere. In an
 * elastic job only the first network is known to connect hosts that come later, and that a host uses when it is alone. */
static bool is_cut_off(const struct hvd_network_plan *plan, const struct hvd_host_info *node, uint32_t host,
		       const struct hvd_addr *addr)
{
	int iface = hvd_host_info_find_addr(node, addr);

	if (hvd_addr_loopback(addr))
		return true;
	if (plan->elastic)
		return false;
	for (int i = 0; i < plan->networks.n; i++)
		if (plan->networks.v[i].iface[host] == iface)
			return false;
	return iface >= 0;
}

/* Warn of hosts whose names lead to the same address in one line. */
static void warn(struct hvd_host_table *table, const struct hvd_log *log)
{
	for (uint32_t first = 0; first < table->n; first++) {
		HVD_CLEANUP(hvd_strv_free) struct hvd_strv hosts = {0};
		const struct hvd_addr at = table->hosts[first].own_name;
		hvd_cleanup_free char *list = NULL;
		char text[HVD_ADDR_TEXT];

		if (at.family == AF_UNSPEC)
			continue;
		for (uint32_t h = first; h < table->n; h++) {
			struct hvd_host_entry *host = &table->hosts[h];

			if (!host->node.name || !hvd_addr_equal(&host->own_name, &at))
				continue;
			hvd_strv_add(&hosts, host->node.name);
			host->own_name.family = AF_UNSPEC; /* once */
		}
		if (!hosts.n)
			continue;
		list = hvd_hostlist_compress(hosts.v, hosts.n);
		hvd_warn(log,
			 "%s: the host's own name leads to %s there, where other hosts do not reach it, and Horovod's "
			 "process sets use that address: hvd.init() will fail. Let the name lead to an address of the "
			 "network between the hosts (see: getent ahosts \"$(hostname)\"): remove the line with %s from "
			 "/etc/hosts, or put one with that address before it",
			 list, hvd_addr_text(&at, text), text);
	}
}

void hvd_own_name_message(void *arg, struct hvd_client *cl, const json_t *msg)
{
	struct hvd_agent_registry *agents = arg;
	struct hvd_host_entry *entry = &agents->table.hosts[cl->host];
	struct hvd_addr addr;
	const char *text;

	if (agents->plan.local || !agents->plan.networks.n || !entry->node.name ||
	    hvd_get_str(msg, "addr", HVD_ADDR_TEXT, &text, NULL) != 0 || hvd_addr_parse(text, &addr) != 0 ||
	    !is_cut_off(&agents->plan, &entry->node, cl->host, &addr))
		return;
	entry->own_name = addr;
	if (agents->horovod)
		warn(&agents->table, agents->log);
}

void hvd_agent_registry_horovod(struct hvd_agent_registry *agents)
{
	if (!agents->horovod)
		warn(&agents->table, agents->log);
	agents->horovod = true;
}
