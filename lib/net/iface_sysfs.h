/* SPDX-License-Identifier: Apache-2.0 */
/*
 * iface_sysfs.h - what sysfs and ethtool know of an interface beyond netlink.
 */
#ifndef HVD_IFACE_SYSFS_H
#define HVD_IFACE_SYSFS_H

#include "iface_netlink.h"

#include <stdbool.h>
#include <stdint.h>

struct hvd_nic {
	bool known;    /* sysfs shows this very interface; otherwise all below is as if there was nothing */
	bool device;   /* a device (PCI, virtio, USB …) is behind it */
	bool rdma;     /* … with an InfiniBand or RoCE side */
	bool wireless; /* 802.11 */
	int64_t speed; /* Mb/s, from sysfs or, known or not, from ethtool; -1 unknown */
};

/* `sock`: any socket of this network namespace, for the ethtool call; -1 leaves that out. */
void hvd_nic_read(struct hvd_nic *nic, const char *sysfs, const struct hvd_nl_link *link, int sock);

/* Loaded at most once per query, at the first need. A zeroed struct is fine. */
struct hvd_numa {
	void *topology; /* hwloc_topology_t */
	int n_nodes;    /* 0 = not looked up yet */
	bool tried;
};

/* NUMA node of the device behind an interface, -1 unknown. sysfs mostly says it (numa_node of the
 * device or of the nearest bus above it); a machine with one node has no choice; only when neither
 * settles it hwloc is asked which node covers the device's local CPUs, as loading a topology costs more
 * than the rest of a query. */
int hvd_nic_numa(const char *sysfs, const char *name, struct hvd_numa *numa);
void hvd_numa_clear(struct hvd_numa *numa);

#endif
