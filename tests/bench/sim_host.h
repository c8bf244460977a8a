/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sim_host.h - what a simulated host says to the driver: three interfaces (two networks and one docker0), and a probe
 * report in which everything went well.
 */
#ifndef SIM_HOST_H
#define SIM_HOST_H

#include "lib/base/xalloc.h"
#include "lib/host/host_info.h"
#include "lib/host/network.h"

#include <stdio.h>
#include <stdlib.h>

static inline void sim_iface(struct hvd_host_iface *iface, const char *name, int64_t ranking, const char *fmt,
			     uint32_t i)
{
	char text[HVD_ADDR_TEXT];

	snprintf(iface->name, sizeof(iface->name), "%s", name);
	iface->kind = HVD_IFACE_ETHERNET;
	iface->numa = -1;
	iface->speed = 1000;
	iface->ranking = ranking;
	iface->n_addrs = 1;
	iface->addrs = hvd_xcalloc(1, sizeof(*iface->addrs));
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
	snprintf(text, sizeof(text), fmt, i / 250, i % 250 + 1);
#pragma GCC diagnostic pop
	if (hvd_addr_parse(text, &iface->addrs[0]) != 0)
		abort();
}

/* Host `index` of `n`, each with as many ranks. */
static inline json_t *sim_registration(uint32_t index, uint32_t n, uint32_t ranks)
{
	struct hvd_host_info node = {.n_ranks = ranks, .port = 1, .n_relays = 1, .n_ifaces = 3};
	json_t *msg;

	node.name = hvd_xasprintf("node%04u", index);
	node.host = hvd_xstrdup(node.name);
	snprintf(node.machine, sizeof(node.machine), "%032u", index);
	node.relays = hvd_xcalloc(1, sizeof(*node.relays));
	node.relays[0].loopback = 1;
	node.ranks = hvd_xcalloc(ranks, sizeof(*node.ranks));
	for (uint32_t r = 0; r < ranks; r++)
		node.ranks[r] = index * ranks + r;
	node.ifaces = hvd_xcalloc(3, sizeof(*node.ifaces));
	sim_iface(&node.ifaces[0], "ib0", 10, "10.1.%u.%u", index);
	sim_iface(&node.ifaces[1], "eth0", 20, "10.2.%u.%u", index);
	sim_iface(&node.ifaces[2], "docker0", 90, "172.17.0.1", index);
	msg = hvd_host_info_to_json(&node, index, n, n * ranks);
	hvd_host_info_clear(&node);
	return msg;
}

static inline json_t *sim_report(const json_t *order)
{
	json_t *edges = json_array(), *target;
	size_t i;

	json_array_foreach(json_object_get(order, "targets"), i, target)
	{
		json_int_t to = json_integer_value(json_object_get(target, "n"));

		for (int a = 0; a < 3; a++)
			json_array_append_new(edges,
					      json_pack("[Iiiii]", to, a, a,
							a == 2 ? HVD_REACH_DUPLICATE : HVD_REACH_OK, a == 2 ? 0 : 100));
	}
	return json_pack("{s:s, s:o}", "t", "report", "edges", edges);
}

/* The peak of this process' resident size, in KiB. */
static inline long sim_peak_kib(void)
{
	FILE *f = fopen("/proc/self/status", "re");
	char line[256];
	long kib = -1;

	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, "VmHWM: %ld", &kib) == 1)
			break;
	if (f)
		fclose(f);
	return kib;
}

#endif
