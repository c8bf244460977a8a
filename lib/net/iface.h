/* SPDX-License-Identifier: Apache-2.0 */
/*
 * iface.h - this host's network interfaces: their kinds, speeds and addresses.
 *
 * The kernel lists interfaces and addresses over rtnetlink (RTM_GETLINK, RTM_GETADDR): no other source has the kind of
 * an interface and the state of an address. Speed and NUMA node come from sysfs; where sysfs has no speed, it comes
 * from ethtool's ioctl.
 *
 * sysfs shows the interfaces of the network namespace in which it was mounted, which may differ from this process's. So
 * data of sysfs counts only if index and hardware address there are those that the kernel listed.
 */
#ifndef HVD_IFACE_H
#define HVD_IFACE_H

#include "addr.h"
#include "lib/base/deadline.h"
#include "lib/base/err.h"

#include <net/if.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum hvd_iface_kind {
	HVD_IFACE_INFINIBAND, /* IP over InfiniBand */
	HVD_IFACE_ROCE,       /* Ethernet with an RDMA device behind it */
	HVD_IFACE_ETHERNET,   /* a real or paravirtual device */
	HVD_IFACE_BOND,       /* bond or team */
	HVD_IFACE_VLAN,
	HVD_IFACE_MACVLAN, /* macvlan or ipvlan */
	HVD_IFACE_VETH,
	HVD_IFACE_WIRELESS,
	HVD_IFACE_VIRTUAL, /* dummy, ifb, and what is not known */
	HVD_IFACE_BRIDGE,
	HVD_IFACE_TUNNEL, /* tun, wireguard, vxlan, gre, ipip, sit … */
	HVD_IFACE_LOOPBACK,
};

struct hvd_iface_addr {
	struct hvd_addr addr;
	int prefix;      /* length of the network's part, in bits */
	bool deprecated; /* the kernel no longer prefers it as a source address */
	bool temporary;  /* an IPv6 privacy address, which changes while the host is up */
	/* getifaddrs(3) lists this address first under the interface's name. Gloo and NCCL get only the name, and take
	 * the first address. At most one address of an interface has the flag; none has it when the first address
	 * cannot be reached from other hosts. */
	bool first;
};

struct hvd_iface {
	char name[IF_NAMESIZE];
	int index;
	enum hvd_iface_kind kind;
	int64_t speed;    /* Mb/s; -1 unknown */
	int mtu;          /* bytes; -1 unknown */
	int numa;         /* the operating system's number of the NUMA node that the device is near to; -1 unknown */
	int master;       /* index of the bridge, bond … that it is a port of; 0: it is no port */
	bool uplink;      /* it is a bridge, and one of its ports leads out of this host */
	bool nat_default; /* its name is one that a container or VM runtime gives to its bridge or tunnel */
	int n_addrs;      /* at least 1; better addresses first, deprecated and temporary ones last */
	struct hvd_iface_addr *addrs;
};

/* An interface that is not used, and why: "is down", "has no carrier", "has no address" … */
struct hvd_iface_drop {
	char name[IF_NAMESIZE];
	const char *reason; /* static text */
};

/* A zeroed struct is empty. */
struct hvd_ifaces {
	struct hvd_iface *v; /* sorted by hvd_iface_rank, then index */
	int n;
	struct hvd_iface_drop *dropped;
	int n_dropped;
	struct hvd_addr *own; /* all addresses of this host, also of the interfaces in `dropped` */
	int n_own;
};

struct hvd_iface_opts {
	const char *sysfs; /* NULL = "/sys" */
	bool no_numa;      /* leave `numa` at -1, which is faster */
};

/* Find every interface that is up and has a usable address, except loopback. Unusable are link-local IPv6 addresses,
 * and addresses whose check for duplicates goes on (tentative) or has failed. `opts` may be NULL. All waits end at the
 * deadline. A host without any interface is no error. On success the caller clears *out; after an error *out is
 * empty. */
int hvd_ifaces_query(struct hvd_ifaces *out, const struct hvd_iface_opts *opts, hvd_time deadline, struct hvd_err *err);
void hvd_ifaces_clear(struct hvd_ifaces *ifs); /* leaves it empty; NULL is fine */

/* How good the interface is for a job's traffic: lower is better. The rank depends only on kind and speed (and on flags
 * and addresses that show that it leads nowhere), so ranks of interfaces of two hosts can be compared. */
int64_t hvd_iface_rank(const struct hvd_iface *i);

/* "ethernet", "roce" …: static text, for messages to users and on the wire. */
const char *hvd_iface_kind_name(enum hvd_iface_kind kind);
/* The kind with this name; -1 when there is none. */
int hvd_iface_kind_of(const char *name);

#endif
