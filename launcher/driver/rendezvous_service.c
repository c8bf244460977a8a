/* SPDX-License-Identifier: Apache-2.0 */
#include "rendezvous_service.h"

#include "lib/base/xalloc.h"

#include <stdlib.h>
#include <string.h>

void hvd_rv_service_admit_nodes(struct hvd_rv_service *service, const struct hvd_node_table *nodes)
{
	struct hvd_addr *addrs = NULL;
	size_t n = 0;

	for (uint32_t h = 0; h < nodes->n; h++)
		for (int i = 0; i < nodes->hosts[h].node.n_ifaces; i++) {
			const struct hvd_node_iface *iface = &nodes->hosts[h].node.ifaces[i];

			if (iface->n_addrs == 0)
				continue;
			addrs = hvd_xrealloc(addrs, n + (size_t)iface->n_addrs, sizeof(*addrs));
			memcpy(&addrs[n], iface->addrs, (size_t)iface->n_addrs * sizeof(*addrs));
			n += (size_t)iface->n_addrs;
		}
	hvd_rv_service_admit(service, addrs, n);
	free(addrs);
}

void hvd_rv_service_settle(struct hvd_rv_service *service, const struct hvd_plan *plan,
			   const struct hvd_node_table *nodes)
{
	const struct hvd_endpoints *ep = &service->endpoints;
	struct hvd_addr *kept = hvd_xcalloc(ep->n, sizeof(*kept));
	size_t n = 0;

	for (size_t i = 0; i < ep->n; i++)
		if (hvd_plan_uses(plan, nodes, i))
			kept[n++] = ep->addrs[i];
	if (!plan->relays.used) /* else it listens on loopback only already */
		hvd_rv_service_keep(service, kept, n);
	hvd_rv_service_size(service, &plan->layout);
	free(kept);
}
