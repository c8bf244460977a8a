/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ports.h - the ports that a host reserves for servers in the processes of its ranks (lib/net/reserve.h).
 *
 * They are reserved until the ranks have ended: the node agent holds the sockets.
 */
#ifndef HVD_PORTS_H
#define HVD_PORTS_H

#include "driver_client.h"
#include "lib/net/reserve.h"

/* May this host have rank 0? */
bool hvd_ports_may_have_rank0(const struct hvd_boot *boot, const struct hvd_taskinfo *info);

/* Reserve what the launch wants of this host, which is the node agent's to do, and have the agent register it. If there
 * are too few ports, none is reserved, and the log says so. The caller clears *out when the ranks have ended. */
void hvd_ports_reserve(struct hvd_driver_client *agent, const struct hvd_boot *boot, const struct hvd_taskinfo *info,
		       struct hvd_reserve *out, const struct hvd_log *log);

#endif
