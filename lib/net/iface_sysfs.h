/* SPDX-License-Identifier: Apache-2.0 */
/*
 * iface_sysfs.h - properties of an interface that netlink lacks, from sysfs and ethtool.
 */
#ifndef HVD_IFACE_SYSFS_H
#define HVD_IFACE_SYSFS_H

#include "iface_netlink.h"

#include <stdbool.h>
#include <stdint.h>

struct hvd_nic {
	bool known;    /* sysfs shows this very interface; if it does not, the next three are false */
	bool device;   /* a device (PCI, virtio, USB …) is behind it */
	bool rdma;     /* the device is an RDMA device too (InfiniBand or RoCE) */
	bool wireless; /* 802.11 */
	int64_t speed; /* Mb/s, from sysfs if the interface is known there, else from ethtool; -1 unknown */
};

/* Fill in *nic. `sysfs` is "/sys", or a directory for tests. `sock` is any socket of this network namespace, for
 * ethtool's ioctl; -1: do not ask ethtool. */
void hvd_nic_read(struct hvd_nic *nic, const char *sysfs, const struct hvd_nl_link *link, int sock);

/* The machine's topology, loaded when it is first needed, at most once. Start with a zeroed struct. */
struct hvd_numa {
	void *topology; /* hwloc_topology_t; NULL: not loaded */
	int n_nodes;    /* 1, or 2 for more; 0: not known yet */
	bool tried;     /* to load the topology */
};

/* The NUMA node of the device behind an interface; -1 unknown. A machine with one node has no choice. Otherwise sysfs
 * usually has it, as numa_node of the device or of the nearest bus above. Only where sysfs lacks it, hwloc finds the
 * node with the device's local CPUs, because loading a topology takes longer than the rest of a query. */
int hvd_nic_numa(const char *sysfs, const char *name, struct hvd_numa *numa);
void hvd_numa_clear(struct hvd_numa *numa); /* leaves a zeroed struct */

#endif
