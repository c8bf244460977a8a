/* SPDX-License-Identifier: Apache-2.0 */
/* What a host says of itself, and what its agent is told: what is taken keeps to the limits, and comes back the same from
 * the wire. */
#include "fuzz.h"
#include "lib/base/size.h"
#include "lib/host/host_info.h"
#include "lib/host/host_share.h"
#include "lib/protocol/agent_settings.h"

static void check(const struct hvd_host_info *node)
{
	must(node->name && node->name[0] && node->host && node->n_ifaces <= HVD_HOST_MAX_IFACES);
	for (uint32_t r = 0; r < node->n_ranks; r++)
		must(node->ranks[r] < HVD_MAX_RANKS);
	must(node->n_ports <= HVD_HOST_MAX_PORTS && node->n_relays >= 1 && node->n_relays <= HVD_MAX_WORLDS);
	for (uint32_t i = 0; i < node->n_ports; i++)
		must(node->ports[i] != 0);
	for (uint32_t i = 0; i < node->n_role_ports; i++)
		must(node->role_ports[i] != 0);
	for (int i = 0; i < node->n_ifaces; i++) {
		const struct hvd_host_iface *iface = &node->ifaces[i];

		must(iface->n_addrs <= HVD_HOST_MAX_ADDRS && strlen(iface->name) < IF_NAMESIZE);
		must(hvd_host_info_find_iface(node, iface->name) <= i);
		for (int a = 0; a < iface->n_addrs; a++) {
			must(iface->addrs[a].family == AF_INET || iface->addrs[a].family == AF_INET6);
			must(hvd_host_info_find_addr(node, &iface->addrs[a]) <= i);
		}
	}
	free(hvd_host_info_ifaces_text(node));
}

/* What ranks have of the host. */
static void check_share(const json_t *msg)
{
	struct hvd_host_share share, back;
	json_t *again = json_object();

	if (hvd_host_share_parse(msg, &share, NULL) != 0)
		must(hvd_share_is_all(&share.cpus) && hvd_share_is_all(&share.gpus));
	must(share.cpus.first >= 0 && share.cpus.first <= HVD_MAX_RANKS && share.cpus.n != 0);
	must(share.gpus.n >= -1 && share.gpus.n <= HVD_MAX_RANKS);
	hvd_host_share_add(again, &share);
	must(hvd_host_share_parse(again, &back, NULL) == 0 && memcmp(&back, &share, sizeof(share)) == 0);
	json_decref(again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	json_t *msg = json_loadb((const char *)data, size, JSON_REJECT_DUPLICATES, NULL), *out, *again;
	struct hvd_host_info node, back;
	struct hvd_agent_settings settings;

	check_share(msg);
	if (hvd_agent_settings_read(msg, &settings, NULL) == 0)
		must(settings.stderr_lines <= 1000 && settings.kill_wait >= 0 && settings.kill_wait <= 100000);

	if (hvd_host_info_from_json(msg, &node, NULL) == 0) {
		check(&node);
		out = hvd_host_info_to_json(&node, 0, 1, 1);
		must(out != NULL);
		must(hvd_host_info_from_json(out, &back, NULL) == 0);
		again = hvd_host_info_to_json(&back, 0, 1, 1);
		must(json_equal(out, again));
		json_decref(out);
		json_decref(again);
		hvd_host_info_clear(&back);
	} else {
		must(!node.name && !node.ranks && !node.ports && !node.role_ports && !node.relays && !node.ifaces);
	}
	hvd_host_info_clear(&node);
	json_decref(msg);
	return 0;
}
