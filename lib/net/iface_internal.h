/* SPDX-License-Identifier: Apache-2.0 */
/*
 * iface_internal.h - what the files of iface.h share. Only tests include it besides them.
 *
 *   iface.c           the list of usable interfaces, and how good each is
 *   iface_netlink.c   the links and addresses of this network namespace, as the kernel lists them over rtnetlink(7)
 *   iface_sysfs.c     properties that netlink lacks, from sysfs and ethtool
 *
 * The parser of netlink's messages does not use the socket, so that tests and fuzzing can feed it. It trusts no length in
 * the buffer.
 */
#ifndef HVD_IFACE_INTERNAL_H
#define HVD_IFACE_INTERNAL_H

#include "addr.h"
#include "lib/base/deadline.h"
#include "lib/base/err.h"

#include <net/if.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- iface_netlink.c ---- */

struct hvd_nl_link {
	int index;
	char name[IF_NAMESIZE];
	unsigned flags;       /* IFF_… */
	unsigned short arp;   /* ARPHRD_… */
	int mtu;              /* bytes; -1 unknown */
	int master;           /* index of the bridge, bond … that it is a port of; 0: it is no port */
	char kind[16];        /* IFLA_INFO_KIND; empty for devices */
	unsigned char hw[32]; /* hardware address */
	size_t hw_len;
};

struct hvd_nl_addr {
	int index; /* of its link */
	struct hvd_addr addr;
	int prefix;              /* length of the network's part, in bits */
	int scope;               /* RT_SCOPE_… */
	unsigned flags;          /* IFA_F_… */
	char label[IF_NAMESIZE]; /* what getifaddrs(3) returns as the interface's name; empty for IPv6 */
};

/* A zeroed struct is empty. */
struct hvd_nl_dump {
	struct hvd_nl_link *links;
	size_t n_links, room_links;
	struct hvd_nl_addr *addrs;
	size_t n_addrs, room_addrs;
	bool interrupted; /* interfaces changed while the kernel listed them: some may be missing */
};

void hvd_nl_clear(struct hvd_nl_dump *d); /* leaves it empty; NULL is fine */

/* Add the links and addresses of one datagram that answer request `seq`; answers to other requests are skipped. Returns
 * 1 when the dump is complete, 0 when more datagrams follow, -1 with err set when the datagram is malformed or reports
 * an error. `buf` needs no alignment. */
int hvd_nl_parse(struct hvd_nl_dump *d, const void *buf, size_t len, uint32_t seq, struct hvd_err *err);

/* List all links and addresses. A dump that was interrupted by changes is repeated a few times; *d may still lack some
 * when changes do not stop. On success the caller clears *d; after an error it is empty. */
int hvd_nl_query(struct hvd_nl_dump *d, hvd_time deadline, struct hvd_err *err);

/* ---- iface_sysfs.c ---- */

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
