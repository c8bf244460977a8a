/* SPDX-License-Identifier: Apache-2.0 */
#include "ports.h"

/* In a job with spare hosts, and in an elastic job, rank 0 may come to any host. In an elastic job the ranks of each
 * agent begin with 0 at first. */
bool hvd_ports_may_have_rank0(const struct hvd_boot *boot, const struct hvd_taskinfo *info)
{
	return info->ranks[0] == 0 || boot->spares;
}

void hvd_ports_reserve(struct hvd_driver_client *agent, const struct hvd_boot *boot, const struct hvd_taskinfo *info,
		       struct hvd_reserve *out, const struct hvd_log *log)
{
	bool first = hvd_ports_may_have_rank0(boot, info);
	size_t store = first && boot->ports && boot->store_port;
	size_t others = (first ? boot->ports - store : 0) + (size_t)boot->rank_ports * info->local_size;
	struct hvd_err why = {0};

	if (store + others == 0)
		return;
	if (hvd_reserve(out, store, HVD_RESERVE_REUSEADDR, boot->port_lo, boot->port_hi, &why) == 0 &&
	    hvd_reserve(out, others, HVD_RESERVE_REUSEPORT, boot->port_lo, boot->port_hi, &why) == 0) {
		hvd_driver_client_ports(agent, out->ports, out->n);
	} else {
		hvd_reserve_clear(out);
		hvd_verbose(log, "%s: no ports for servers in ranks: %s", info->name, why.msg);
	}
}
