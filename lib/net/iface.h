/* SPDX-License-Identifier: Apache-2.0 */
/*
 * iface.h - this host's network interfaces: what they are, how fast, where.
 *
 * Interfaces and addresses come from rtnetlink in two dumps (RTM_GETLINK,
 * RTM_GETADDR), since only there kinds and address states are to be had; speed
 * and locality from sysfs; speed, where sysfs has none, from ethtool's ioctl.
 *
 * sysfs may show another network namespace than the one we are in (it shows
 * the one that it was mounted from): its word on an interface is taken only
 * when index and hardware address there are those that the kernel told us.
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
	HVD_IFACE_ETHERNET,   /* a device, real or paravirtual */
	HVD_IFACE_BOND,       /* bond or team */
	HVD_IFACE_VLAN,
	HVD_IFACE_MACVLAN, /* macvlan or ipvlan */
	HVD_IFACE_VETH,
	HVD_IFACE_WIRELESS,
	HVD_IFACE_VIRTUAL, /* dummy, ifb and what we do not know */
	HVD_IFACE_BRIDGE,
	HVD_IFACE_TUNNEL, /* tun, wireguard, vxlan, gre, ipip, sit … */
	HVD_IFACE_LOOPBACK,
};

struct hvd_iface_addr {
	struct hvd_addr addr;
	int prefix;      /* length in bits */
	bool deprecated; /* no longer preferred as a source */
	bool temporary;  /* IPv6 privacy address: changes while the host is up */
	/* The one that getifaddrs(3) lists first under the interface's name. Gloo and NCCL, which are told no more than
	 * that name, take it. At most one of an interface's; none when it is an address that is of no use here. */
	bool first;
};

struct hvd_iface {
	char name[IF_NAMESIZE];
	int index;
	enum hvd_iface_kind kind;
	int64_t speed;    /* Mb/s; -1 unknown */
	int mtu;          /* bytes; -1 unknown */
	int numa;         /* OS number of the NUMA node it hangs on; -1 unknown or none */
	int master;       /* index of the bridge, bond … that it is a port of; 0 none */
	bool p2p;         /* point-to-point */
	bool uplink;      /* a bridge with a real device among its ports */
	bool nat_default; /* by its name the bridge or tunnel of a container or VM runtime */
	int n_addrs;      /* at least 1; best first, deprecated and temporary ones last */
	struct hvd_iface_addr *addrs;
};

/* An interface that was left out, and why ("is down", "has no carrier", "has no address" …). */
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
	struct hvd_addr *own; /* all addresses of this host, also those of interfaces that were left out */
	int n_own;
};

struct hvd_iface_opts {
	const char *sysfs; /* NULL = "/sys" */
	bool no_numa;      /* do not look for NUMA nodes */
};

/* Every interface that is up and has a usable address, loopback excepted. A link-local IPv6 address
 * does not count, nor one still or no longer valid (tentative, duplicate). All waits end at the
 * deadline. After an error *out is empty. No interface at all is not an error. */
int hvd_ifaces_query(struct hvd_ifaces *out, const struct hvd_iface_opts *opts, hvd_time deadline, struct hvd_err *err);
void hvd_ifaces_clear(struct hvd_ifaces *ifs); /* leaves it empty; NULL is fine */

/* How good an interface is for the traffic of a job, from what it is and its speed alone: lower is
 * better. Values of two hosts can be compared. */
int64_t hvd_iface_rank(const struct hvd_iface *i);

const struct hvd_iface *hvd_ifaces_find(const struct hvd_ifaces *ifs, const char *name);

/* "ethernet", "roce" …: static text, also used in messages between hosts. */
const char *hvd_iface_kind_name(enum hvd_iface_kind kind);
/* The other way; -1 when there is no such kind. */
int hvd_iface_kind_of(const char *name);

#endif
