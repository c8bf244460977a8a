/* SPDX-License-Identifier: Apache-2.0 */
/*
 * topology.h - what a compute node has of cores, told in a line by the node itself.
 *
 *     hvd-topology h2 cores=42 threads=4 sockets=2
 *
 * The launch node's own hardware says nothing of it. Cores are those that the
 * process may use there (hwloc; cgroup and affinity mask taken into account),
 * threads the least number of hardware threads that one of them has.
 */
#ifndef HVD_LSF_TOPOLOGY_H
#define HVD_LSF_TOPOLOGY_H

#include "erf.h"

/* The line for this host, without a newline. NULL with err set. Caller frees. */
char *hvd_topology_line(struct hvd_err *err);

/* Fill cores, threads and sockets of hosts[i] for each host of `a` from such lines; other lines, which a launcher may
 * print, are passed over, as are hosts that `a` does not have. "h2" and "h2.example.org" are one host. -1 with err set
 * when a line is malformed or a host has none. */
int hvd_topology_parse(struct hvd_erf_host *hosts, const struct hvd_alloc *a, const char *text, struct hvd_err *err);

#endif
