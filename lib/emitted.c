/* SPDX-License-Identifier: Apache-2.0 */
#include "emitted.h"

#include <stddef.h>
#include <string.h>

const struct hvd_emitted hvd_emitted[] = {
	{"HOROVOD_RANK", false},
	{"HOROVOD_SIZE", false},
	{"HOROVOD_LOCAL_RANK", false},
	{"HOROVOD_LOCAL_SIZE", false},
	{"HOROVOD_CROSS_RANK", false},
	{"HOROVOD_CROSS_SIZE", false},
	{"HOROVOD_HOSTNAME", false},
	{"HOROVOD_GLOO_RENDEZVOUS_ADDR", false},
	{"HOROVOD_GLOO_RENDEZVOUS_PORT", false},
	{"HOROVOD_GLOO_IFACE", true},
	{"HOROVOD_CONTROLLER", false},
	{"HOROVOD_CPU_OPERATIONS", false},
	{"PYTHONUNBUFFERED", false},
	{"NCCL_SOCKET_IFNAME", true},
	{"GLOO_SOCKET_IFNAME", true},
	{"OMPI_MCA_btl_tcp_if_include", true},
	{NULL, false},
};

bool hvd_emitted_iface(const char *name)
{
	for (const struct hvd_emitted *e = hvd_emitted; e->name; e++)
		if (strcmp(e->name, name) == 0)
			return e->iface;
	return false;
}
