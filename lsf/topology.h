/* SPDX-License-Identifier: Apache-2.0 */
/*
 * topology.h - the cores of a compute node, in a line that the node itself writes:
 *
 *     hvd-topology h2 cores=42 threads=4 sockets=2
 *
 * The launch node is another kind of machine, so its own hardware says nothing about the compute nodes. Cores are those
 * that the process may use there, by hwloc (with cgroup and affinity mask); threads is the least number of hardware
 * threads that one of them has.
 */
#ifndef HVD_LSF_TOPOLOGY_H
#define HVD_LSF_TOPOLOGY_H

#include "erf.h"

/* The line for this host, without a newline. The caller frees it; NULL with err set. */
char *hvd_topology_line(struct hvd_err *err);

/* Fill in cores, threads and sockets of hosts[i] for each host i of `a` from such lines. Other lines, which a launcher
 * may print, are skipped, as are lines about other hosts. "h2" and "h2.example.org" are one host. -1 with err set if a
 * line is malformed, or a host has no line. Untrusted input is fine. */
int hvd_topology_parse(struct hvd_erf_host *hosts, const struct hvd_alloc *a, const char *text, struct hvd_err *err);

#endif
