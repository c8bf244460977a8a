/* SPDX-License-Identifier: Apache-2.0 */
#include "ports.h"

#include "lib/base/xalloc.h"
#include "lib/net/reserve.h"

#include <stdlib.h>

/* In a job with spare hosts, and in an elastic job, rank 0 may come to any host. In an elastic job the ranks of each
 * agent begin with 0 at first. */
bool hvd_ports_may_have_rank0(const struct hvd_boot *boot, const struct hvd_taskinfo *info)
{
	return info->ranks[0] == 0 || boot->spares;
}

static void *reserve(struct hvd_agent *agent)
{
	const struct hvd_boot *boot = agent->boot;
	const struct hvd_taskinfo *info = agent->info;
	bool first = hvd_ports_may_have_rank0(boot, info);
	size_t store = first && boot->ports && boot->store_port;
	size_t others = (first ? boot->ports - store : 0) + (size_t)boot->rank_ports * info->local_size;
	struct hvd_reserve *out;
	struct hvd_err why = {0};

	if (store + others == 0)
		return NULL;
	out = hvd_xcalloc(1, sizeof(*out));
	if (hvd_reserve(out, store, HVD_RESERVE_REUSEADDR, boot->port_lo, boot->port_hi, &why) == 0 &&
	    hvd_reserve(out, others, HVD_RESERVE_REUSEPORT, boot->port_lo, boot->port_hi, &why) == 0) {
		hvd_driver_client_ports(agent->driver, out->ports, out->n);
	} else {
		hvd_reserve_clear(out);
		hvd_verbose(agent->log, "%s: no ports for servers in ranks: %s", info->name, why.msg);
	}
	return out;
}

static void destroy(void *self)
{
	hvd_reserve_clear(self);
	free(self);
}

const struct hvd_feature hvd_ports_feature = {.create = reserve, .destroy = destroy};
