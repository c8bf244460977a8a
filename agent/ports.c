/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ports.c - the ports that a host reserves for servers in the processes of its ranks (lib/net/reserve.h). The ranks of a
 * host with GPUs have one port for NCCL's RAS (nccl_ras.h): all serve it, and each knows of all.
 *
 * The agent holds the sockets, so the ports are reserved until the ranks have ended. If there are too few ports, none is
 * reserved, and the log says so. But a host that lacks those which the user has asked for (--ports of roles) takes no part.
 */
#include "agent.h"
#include "lib/base/xalloc.h"
#include "lib/host/gpu.h"
#include "lib/net/reserve.h"

#include <string.h>
#include <unistd.h>

struct ports {
	struct hvd_agent *agent;
	struct hvd_reserve reserved, nccl_ras, roles;
	struct hvd_err refusal; /* why there are not those of roles */
};

/* NCCL sets SO_REUSEPORT. It goes on without the port, and so do we. */
static void reserve_nccl_ras(struct ports *ports, struct hvd_host_info *host)
{
	const struct hvd_boot *boot = ports->agent->boot;

	if ((hvd_gpu_count("", NULL) > 0 || hvd_gpu_visible(environ) > 0) &&
	    hvd_reserve(&ports->nccl_ras, 1, HVD_RESERVE_REUSEPORT, boot->port_lo, boot->port_hi, NULL) == 0)
		host->nccl_ras = ports->nccl_ras.ports[0];
}

/* The list of these ports, and how many there are. */
static in_port_t *list(const struct hvd_reserve *reserved, uint32_t *n)
{
	in_port_t *ports = hvd_xcalloc(reserved->n, sizeof(*ports));

	memcpy(ports, reserved->ports, reserved->n * sizeof(*ports));
	*n = (uint32_t)reserved->n;
	return ports;
}

static void reserve_role_ports(struct ports *ports, struct hvd_host_info *host)
{
	const struct hvd_boot *boot = ports->agent->boot;
	struct hvd_err *why = &ports->refusal;

	if (boot->role_ports == 0)
		return;
	if (hvd_reserve(&ports->roles, boot->role_ports, HVD_RESERVE_EITHER, boot->port_lo, boot->port_hi, why) == 0) {
		host->role_ports = list(&ports->roles, &host->n_role_ports);
		return;
	}
	hvd_err_prefix(why, "cannot reserve %u ports for the ranks (--ports)", boot->role_ports);
	hvd_driver_client_refuse(ports->agent->driver, why);
}

static void reserve_rank_ports(struct ports *ports, struct hvd_host_info *host)
{
	struct hvd_reserve *out = &ports->reserved;
	const struct hvd_boot *boot = ports->agent->boot;
	const struct hvd_taskinfo *info = ports->agent->info;
	bool first = hvd_taskinfo_may_have_rank0(info, boot->spares);
	size_t store = first ? boot->store_ports : 0;
	size_t others = (first ? boot->ports - store : 0) + (size_t)boot->rank_ports * info->local_size;
	struct hvd_err why = {0};

	if (store + others == 0)
		return;
	if (hvd_reserve(out, store, HVD_RESERVE_REUSEADDR, boot->port_lo, boot->port_hi, &why) == 0 &&
	    hvd_reserve(out, others, HVD_RESERVE_REUSEPORT, boot->port_lo, boot->port_hi, &why) == 0) {
		host->ports = list(out, &host->n_ports);
	} else {
		hvd_reserve_clear(out);
		hvd_verbose(ports->agent->log, "%s: no ports for servers in ranks: %s", info->name, why.msg);
	}
}

static void begin(void *arg)
{
	struct ports *ports = arg;
	struct hvd_host_info *host = hvd_driver_client_host(ports->agent->driver);

	reserve_rank_ports(ports, host);
	reserve_role_ports(ports, host);
	reserve_nccl_ras(ports, host);
}

static void end(void *arg)
{
	struct ports *ports = arg;

	hvd_reserve_clear(&ports->reserved);
	hvd_reserve_clear(&ports->nccl_ras);
	hvd_reserve_clear(&ports->roles);
}

const struct hvd_feature hvd_ports_feature = {.size = sizeof(struct ports), .begin = begin, .end = end};
