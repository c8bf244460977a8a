/* SPDX-License-Identifier: Apache-2.0 */
/*
 * iface_netlink.h - the links and addresses of this network namespace, as the kernel lists them over rtnetlink(7).
 *
 * The parser does not use the socket, so that tests and fuzzing can feed it. It trusts no length in the buffer.
 */
#ifndef HVD_IFACE_NETLINK_H
#define HVD_IFACE_NETLINK_H

#include "addr.h"
#include "lib/base/deadline.h"
#include "lib/base/err.h"

#include <net/if.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

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

#endif
