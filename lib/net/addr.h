/* SPDX-License-Identifier: Apache-2.0 */
/*
 * addr.h - one IPv4 or IPv6 address, without a port.
 *
 * IPv4-mapped IPv6 addresses are turned into IPv4 on the way in, so that two
 * equal addresses compare equal however they came.
 */
#ifndef HVD_ADDR_H
#define HVD_ADDR_H

#include <netinet/in.h>
#include <stdbool.h>
#include <sys/socket.h>

#define HVD_ADDR_TEXT INET6_ADDRSTRLEN

struct hvd_addr {
	sa_family_t family; /* AF_INET, AF_INET6, or AF_UNSPEC for none */
	union {
		struct in_addr v4;
		struct in6_addr v6;
	} u;
};

int hvd_addr_parse(const char *text, struct hvd_addr *addr); /* -1 unless a literal address */
const char *hvd_addr_text(const struct hvd_addr *addr, char text[HVD_ADDR_TEXT]);
bool hvd_addr_equal(const struct hvd_addr *a, const struct hvd_addr *b);
bool hvd_addr_loopback(const struct hvd_addr *addr);
bool hvd_addr_link_local(const struct hvd_addr *addr);

/* Has this host an address for that name? May wait for name servers as long as resolv.conf(5) lets it: for what has
 * failed already. Where they do not answer, true. */
bool hvd_name_resolves(const char *name);

/* To and from what the kernel takes; *port may be NULL. */
socklen_t hvd_addr_to_sockaddr(const struct hvd_addr *addr, in_port_t port, struct sockaddr_storage *ss);
int hvd_addr_from_sockaddr(const struct sockaddr *sa, struct hvd_addr *addr, in_port_t *port);

/* The two ends of a connected socket. -1 when it is not connected (any longer). */
int hvd_addr_of_peer(int fd, struct hvd_addr *addr);
int hvd_addr_of_self(int fd, struct hvd_addr *addr);

#endif
