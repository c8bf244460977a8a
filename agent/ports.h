/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ports.h - the ports that a host reserves for servers in the processes of its ranks (lib/net/reserve.h).
 *
 * The agent holds the sockets, so the ports are reserved until the ranks have ended.
 */
#ifndef HVD_PORTS_H
#define HVD_PORTS_H

#include "driver_client.h"
#include "lib/net/reserve.h"

/* May this host have rank 0? */
bool hvd_ports_may_have_rank0(const struct hvd_boot *boot, const struct hvd_taskinfo *info);

/* Reserve the ports that the launch wants on this host, and have the agent register them. If there are too few ports,
 * none is reserved, and the log says so. The caller clears *out when the ranks have ended. */
void hvd_ports_reserve(struct hvd_driver_client *agent, const struct hvd_boot *boot, const struct hvd_taskinfo *info,
		       struct hvd_reserve *out, const struct hvd_log *log);

#endif
