/* SPDX-License-Identifier: Apache-2.0 */
#include "addr.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* ::ffff:10.0.0.1 is 10.0.0.1. */
static void unmap(struct hvd_addr *addr)
{
	struct in_addr v4;

	if (!IN6_IS_ADDR_V4MAPPED(&addr->u.v6))
		return;
	memcpy(&v4, addr->u.v6.s6_addr + 12, sizeof(v4));
	memset(addr, 0, sizeof(*addr));
	addr->family = AF_INET;
	addr->u.v4 = v4;
}

int hvd_addr_parse(const char *text, struct hvd_addr *addr)
{
	memset(addr, 0, sizeof(*addr));
	if (inet_pton(AF_INET, text, &addr->u.v4) == 1) {
		addr->family = AF_INET;
		return 0;
	}
	if (inet_pton(AF_INET6, text, &addr->u.v6) == 1) {
		addr->family = AF_INET6;
		unmap(addr);
		return 0;
	}
	return -1;
}

const char *hvd_addr_text(const struct hvd_addr *addr, char text[HVD_ADDR_TEXT])
{
	if (addr->family == AF_UNSPEC || !inet_ntop(addr->family, &addr->u, text, HVD_ADDR_TEXT))
		snprintf(text, HVD_ADDR_TEXT, "(no address)");
	return text;
}

bool hvd_addr_equal(const struct hvd_addr *a, const struct hvd_addr *b)
{
	if (a->family != b->family)
		return false;
	if (a->family == AF_INET)
		return a->u.v4.s_addr == b->u.v4.s_addr;
	return a->family == AF_INET6 && memcmp(&a->u.v6, &b->u.v6, sizeof(a->u.v6)) == 0;
}

int hvd_addr_compare(const struct hvd_addr *a, const struct hvd_addr *b)
{
	if (a->family != b->family)
		return a->family < b->family ? -1 : 1;
	if (a->family == AF_INET)
		return memcmp(&a->u.v4, &b->u.v4, sizeof(a->u.v4));
	return memcmp(&a->u.v6, &b->u.v6, sizeof(a->u.v6));
}

bool hvd_addr_loopback(const struct hvd_addr *addr)
{
	if (addr->family == AF_INET)
		return (ntohl(addr->u.v4.s_addr) >> 24) == 127;
	return addr->family == AF_INET6 && IN6_IS_ADDR_LOOPBACK(&addr->u.v6);
}

bool hvd_addr_link_local(const struct hvd_addr *addr)
{
	if (addr->family == AF_INET)
		return (ntohl(addr->u.v4.s_addr) >> 16) == 0xa9fe; /* 169.254/16, RFC 3927 */
	return addr->family == AF_INET6 && IN6_IS_ADDR_LINKLOCAL(&addr->u.v6);
}

int hvd_sockaddr_parse(const char *text, struct sockaddr_storage *ss)
{
	struct addrinfo hints = {.ai_flags = AI_NUMERICHOST, .ai_socktype = SOCK_STREAM}, *ai;
	struct in_addr v4;

	/* getaddrinfo() alone would take "10.1", too. */
	if ((!strchr(text, ':') && inet_pton(AF_INET, text, &v4) != 1) || getaddrinfo(text, "0", &hints, &ai) != 0)
		return -1;
	memcpy(ss, ai->ai_addr, ai->ai_addrlen);
	freeaddrinfo(ai);
	return 0;
}

socklen_t hvd_addr_to_sockaddr(const struct hvd_addr *addr, in_port_t port, struct sockaddr_storage *ss)
{
	memset(ss, 0, sizeof(*ss));
	if (addr->family == AF_INET) {
		struct sockaddr_in *in = (struct sockaddr_in *)ss;

		in->sin_family = AF_INET;
		in->sin_port = htons(port);
		in->sin_addr = addr->u.v4;
		return sizeof(*in);
	}
	struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)ss;

	in6->sin6_family = AF_INET6;
	in6->sin6_port = htons(port);
	in6->sin6_addr = addr->u.v6;
	return sizeof(*in6);
}

int hvd_addr_from_sockaddr(const struct sockaddr *sa, struct hvd_addr *addr, in_port_t *port)
{
	memset(addr, 0, sizeof(*addr));
	if (sa->sa_family == AF_INET) {
		const struct sockaddr_in *in = (const struct sockaddr_in *)sa;

		addr->family = AF_INET;
		addr->u.v4 = in->sin_addr;
		if (port)
			*port = ntohs(in->sin_port);
		return 0;
	}
	if (sa->sa_family != AF_INET6)
		return -1;
	const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)sa;

	if (port)
		*port = ntohs(in6->sin6_port);
	addr->family = AF_INET6;
	addr->u.v6 = in6->sin6_addr;
	unmap(addr);
	return 0;
}

int hvd_addr_of_peer(int fd, struct hvd_addr *addr)
{
	struct sockaddr_storage ss;
	socklen_t len = sizeof(ss);

	if (getpeername(fd, (struct sockaddr *)&ss, &len) != 0)
		return -1;
	return hvd_addr_from_sockaddr((struct sockaddr *)&ss, addr, NULL);
}

int hvd_addr_of_self(int fd, struct hvd_addr *addr)
{
	struct sockaddr_storage ss;
	socklen_t len = sizeof(ss);

	if (getsockname(fd, (struct sockaddr *)&ss, &len) != 0)
		return -1;
	return hvd_addr_from_sockaddr((struct sockaddr *)&ss, addr, NULL);
}

in_port_t hvd_addr_port_of(int fd)
{
	struct sockaddr_storage ss = {0};
	socklen_t len = sizeof(ss);
	struct hvd_addr addr;
	in_port_t port = 0;

	if (getsockname(fd, (struct sockaddr *)&ss, &len) == 0)
		hvd_addr_from_sockaddr((struct sockaddr *)&ss, &addr, &port);
	return port;
}

int hvd_addr_is_own(const struct hvd_addr *addr)
{
	struct sockaddr_storage ss;
	socklen_t len = hvd_addr_to_sockaddr(addr, 0, &ss);
	int fd = socket(addr->family, SOCK_DGRAM | SOCK_CLOEXEC, 0), own;

	if (fd < 0)
		return -1;
	own = bind(fd, (struct sockaddr *)&ss, len) == 0;
	close(fd);
	return own;
}

bool hvd_name_resolves(const char *name)
{
	struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *found = NULL;
	int rc = getaddrinfo(name, NULL, &hints, &found);

	if (rc == 0)
		freeaddrinfo(found);
	return rc != EAI_NONAME && rc != EAI_NODATA;
}
