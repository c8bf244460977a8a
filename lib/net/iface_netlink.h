/* SPDX-License-Identifier: Apache-2.0 */
/*
 * iface_netlink.h - links and addresses as the kernel tells them over rtnetlink(7).
 *
 * The parser is apart from the socket: it trusts no length in the buffer.
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
	unsigned flags;     /* IFF_… */
	unsigned short arp; /* ARPHRD_… */
	int mtu;            /* -1 not told */
	int master;         /* 0 none */
	char kind[16];      /* IFLA_INFO_KIND; empty for devices */
	unsigned char hw[32];
	size_t hw_len;
};

struct hvd_nl_addr {
	int index;
	struct hvd_addr addr;
	int prefix;
	int scope;               /* RT_SCOPE_… */
	unsigned flags;          /* IFA_F_… */
	char label[IF_NAMESIZE]; /* getifaddrs(3) gives it for the interface's name; empty for IPv6 */
};

/* A zeroed struct is empty. */
struct hvd_nl_dump {
	struct hvd_nl_link *links;
	size_t n_links, room_links;
	struct hvd_nl_addr *addrs;
	size_t n_addrs, room_addrs;
	bool interrupted; /* things changed meanwhile: the dump may have holes */
};

void hvd_nl_clear(struct hvd_nl_dump *d); /* NULL is fine */

/* Add what one datagram says in answer to request `seq`; others are skipped. Returns 1 when it ends
 * the dump, 0 when more follows, -1 with err when it is malformed or an error. `buf` needs no alignment. */
int hvd_nl_parse(struct hvd_nl_dump *d, const void *buf, size_t len, uint32_t seq, struct hvd_err *err);

/* All links and addresses of this network namespace, consistent as far as the kernel can tell.
 * After an error *d is empty. */
int hvd_nl_query(struct hvd_nl_dump *d, hvd_time deadline, struct hvd_err *err);

#endif
