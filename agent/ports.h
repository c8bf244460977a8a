/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ports.h - the ports that a host reserves for servers in the processes of its ranks (lib/net/reserve.h).
 *
 * The agent holds the sockets, so the ports are reserved until the ranks have ended. If there are too few ports, none is
 * reserved, and the log says so.
 */
#ifndef HVD_PORTS_H
#define HVD_PORTS_H

#include "agent.h"

/* May this host have rank 0? */
bool hvd_ports_may_have_rank0(const struct hvd_boot *boot, const struct hvd_taskinfo *info);

#endif
