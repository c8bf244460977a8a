/* SPDX-License-Identifier: Apache-2.0 */
#include "emitted.h"

#include <stddef.h>
#include <string.h>

const struct hvd_emitted hvd_emitted[] = {
	{.name = "HOROVOD_RANK"},
	{.name = "HOROVOD_SIZE"},
	{.name = "HOROVOD_LOCAL_RANK"},
	{.name = "HOROVOD_LOCAL_SIZE"},
	{.name = "HOROVOD_CROSS_RANK"},
	{.name = "HOROVOD_CROSS_SIZE"},
	{.name = "HOROVOD_HOSTNAME"},
	{.name = "HOROVOD_GLOO_RENDEZVOUS_ADDR"},
	{.name = "HOROVOD_GLOO_RENDEZVOUS_PORT"},
	{.name = "HOROVOD_GLOO_IFACE", .iface = true},
	{.name = "HOROVOD_CONTROLLER"},
	{.name = "HOROVOD_CPU_OPERATIONS"},
	{.name = "PYTHONUNBUFFERED"},
	{.name = "NCCL_SOCKET_IFNAME", .iface = true, .yields = true},
	{.name = "GLOO_SOCKET_IFNAME", .iface = true, .yields = true},
	{.name = "OMPI_MCA_btl_tcp_if_include", .iface = true},
	{.name = NULL},
};

static const struct hvd_emitted *find(const char *name)
{
	for (const struct hvd_emitted *e = hvd_emitted; e->name; e++)
		if (strcmp(e->name, name) == 0)
			return e;
	return NULL;
}

bool hvd_emitted_iface(const char *name)
{
	const struct hvd_emitted *e = find(name);

	return e && e->iface;
}

bool hvd_emitted_yields(const char *name)
{
	const struct hvd_emitted *e = find(name);

	return e && e->yields;
}
