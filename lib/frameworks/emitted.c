/* SPDX-License-Identifier: Apache-2.0 */
#include "emitted.h"

#include <stddef.h>
#include <string.h>

const struct hvd_emitted hvd_emitted[] = {
	{"HOROVOD_RANK", false, false},
	{"HOROVOD_SIZE", false, false},
	{"HOROVOD_LOCAL_RANK", false, false},
	{"HOROVOD_LOCAL_SIZE", false, false},
	{"HOROVOD_CROSS_RANK", false, false},
	{"HOROVOD_CROSS_SIZE", false, false},
	{"HOROVOD_HOSTNAME", false, false},
	{"HOROVOD_GLOO_RENDEZVOUS_ADDR", false, false},
	{"HOROVOD_GLOO_RENDEZVOUS_PORT", false, false},
	{"HOROVOD_GLOO_IFACE", true, false},
	{"HOROVOD_CONTROLLER", false, false},
	{"HOROVOD_CPU_OPERATIONS", false, false},
	{"PYTHONUNBUFFERED", false, false},
	{"NCCL_SOCKET_IFNAME", true, true},
	{"GLOO_SOCKET_IFNAME", true, true},
	{"OMPI_MCA_btl_tcp_if_include", true, false},
	{NULL, false, false},
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
