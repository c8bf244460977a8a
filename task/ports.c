/* SPDX-License-Identifier: Apache-2.0 */
#include "ports.h"

#include "lib/base/xalloc.h"

#include <stdlib.h>

/* In a job with spare hosts rank 0 may come to any host. In an elastic job rank 0 may come to any host, and the ranks
 * of each are told to begin with 0. */
static bool may_have_rank0(const struct hvd_boot *boot, const struct hvd_taskinfo *info)
{
	return info->ranks[0] == 0 || boot->spares;
}

void hvd_ports_reserve(struct hvd_agent *agent, const struct hvd_boot *boot, const struct hvd_taskinfo *info,
		       struct hvd_reserve *out, const struct hvd_log *log)
{
	size_t n = (may_have_rank0(boot, info) ? boot->ports : 0) + (size_t)boot->rank_ports * info->local_size;
	struct hvd_err why = {0};

	if (n == 0)
		return;
	if (hvd_reserve(out, n, boot->port_lo, boot->port_hi, &why) == 0)
		hvd_agent_ports(agent, out->ports, out->n);
	else
		hvd_verbose(log, "%s: no ports for servers in ranks: %s", info->name, why.msg);
}

void hvd_ports_given(struct hvd_agent *agent, const struct hvd_boot *boot, const struct hvd_taskinfo *info,
		     const char *list)
{
	size_t n = 0, most = boot->ports + (size_t)boot->rank_ports * info->local_size, first;
	in_port_t *ports = hvd_xcalloc(most ? most : 1, sizeof(*ports));
	char *end;

	for (unsigned long port; n < most && *list; list = *end == ',' ? end + 1 : end) {
		port = strtoul(list, &end, 10);
		if (end == list || port < 1 || port > 65535)
			break;
		ports[n++] = (in_port_t)port;
	}
	first = may_have_rank0(boot, info) ? 0 : boot->ports;
	if (n == most && n > first)
		hvd_agent_ports(agent, ports + first, n - first);
	free(ports);
}
