/* SPDX-License-Identifier: Apache-2.0 */
/*
 * addr.h - one IPv4 or IPv6 address, without a port.
 *
 * Functions that fill in an address turn an IPv4-mapped IPv6 address (::ffff:10.0.0.1) into the IPv4 address, so that
 * equal addresses compare equal wherever they came from.
 *
 * Uses nothing but libc: the SPANK plugin links it.
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

/* Read a literal address. -1 when `text` is none; *addr is AF_UNSPEC then. */
int hvd_addr_parse(const char *text, struct hvd_addr *addr);
/* Write the address to `text` and return it; "(no address)" for AF_UNSPEC. */
const char *hvd_addr_text(const struct hvd_addr *addr, char text[HVD_ADDR_TEXT]);
/* Two addresses that are AF_UNSPEC are not equal. */
bool hvd_addr_equal(const struct hvd_addr *a, const struct hvd_addr *b);
/* An order of addresses: less than 0, 0 or more, as strcmp(3) returns it. Neither is AF_UNSPEC. */
int hvd_addr_compare(const struct hvd_addr *a, const struct hvd_addr *b);
bool hvd_addr_loopback(const struct hvd_addr *addr);   /* 127.0.0.0/8 and ::1 */
bool hvd_addr_link_local(const struct hvd_addr *addr); /* 169.254.0.0/16 and fe80::/10 */
/* Can a socket of this host be bound to it? 1 or 0; -1 where this host has no sockets of that family. */
int hvd_addr_is_own(const struct hvd_addr *addr);

/* Can this host resolve `name` to an address? True also when no name server answers. Waits for name servers as long as
 * resolv.conf(5) allows, so call it only to explain a failure. */
bool hvd_name_resolves(const char *name);

/* Read a literal address into the kernel's form, with port 0. Unlike hvd_addr_parse() it takes a scope, as in
 * fe80::1%eth0. -1 when `text` is none. */
int hvd_sockaddr_parse(const char *text, struct sockaddr_storage *ss);
/* To and from the kernel's form. Ports are in host order; `port` may be NULL. hvd_addr_to_sockaddr() returns the length
 * of the part of *ss that is used; hvd_addr_from_sockaddr() returns -1 unless `sa` is of IPv4 or IPv6. */
socklen_t hvd_addr_to_sockaddr(const struct hvd_addr *addr, in_port_t port, struct sockaddr_storage *ss);
int hvd_addr_from_sockaddr(const struct sockaddr *sa, struct hvd_addr *addr, in_port_t *port);

/* The other end's address, and this end's, of a connected socket. -1 when the socket is not connected, or no longer. */
int hvd_addr_of_peer(int fd, struct hvd_addr *addr);
int hvd_addr_of_self(int fd, struct hvd_addr *addr);
/* The port of a socket's own address, in host order; 0 when it has none. */
in_port_t hvd_addr_port_of(int fd);

#endif
