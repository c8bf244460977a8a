/* SPDX-License-Identifier: Apache-2.0 */
#include "listen.h"

#include "addr.h"
#include "lib/base/random.h"

#include <errno.h>
#include <limits.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* How many ports of the kernel's choice are tried until one is free at all addresses. */
#define TRIES 64

static int listen_one(struct sockaddr_storage ss, in_port_t port, int reuse)
{
	socklen_t len = ss.ss_family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);
	int on = 1, v6only, saved, fd = socket(ss.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return -1;
	if (ss.ss_family == AF_INET)
		((struct sockaddr_in *)&ss)->sin_port = htons(port);
	else {
		((struct sockaddr_in6 *)&ss)->sin6_port = htons(port);
		v6only = !IN6_IS_ADDR_UNSPECIFIED(&((struct sockaddr_in6 *)&ss)->sin6_addr);
		setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &v6only, sizeof(v6only));
	}
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &reuse, sizeof(reuse));
	/* Before the first connection comes: some sockets listen for a while before they are used. */
	setsockopt(fd, IPPROTO_TCP, TCP_SAVE_SYN, &on, sizeof(on));
	/* A socket that was bound without the option must get it before it listens. Connections inherit it, and a
	 * connection in TIME_WAIT without it would block the port for a minute. */
	if (bind(fd, (struct sockaddr *)&ss, len) == 0 &&
	    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) == 0 &&
	    listen(fd, INT_MAX) == 0) /* SOMAXCONN is a number of the C library's */
		return fd;
	saved = errno;
	close(fd);
	errno = saved;
	return -1;
}

static int listen_at(const struct sockaddr_storage *addrs, size_t n, in_port_t port, int reuse, int *fds, size_t *which)
{
	for (size_t i = 0; i < n; i++) {
		fds[i] = listen_one(addrs[i], port, reuse);
		if (fds[i] < 0) {
			int saved = errno;

			*which = i;
			while (i-- > 0)
				close(fds[i]);
			errno = saved;
			return -1;
		}
		if (port == 0)
			port = hvd_addr_port_of(fds[i]);
	}
	return 0;
}

int hvd_listen_all(const struct sockaddr_storage *addrs, size_t n, in_port_t lo, in_port_t hi, int *fds, size_t *which)
{
	unsigned count = lo ? (unsigned)hi - lo + 1 : TRIES, start = 0;

	/* Not all launches of a host try the same ports first. */
	hvd_random(&start, sizeof(start), NULL);
	/* With SO_REUSEADDR a port that is reserved (reserve.h) looks free. Without it the port of a launch that has
	 * just ended could not be used for a minute. */
	for (unsigned i = 0; i < 2 * count; i++) {
		in_port_t port = lo ? (in_port_t)(lo + (start % count + i) % count) : 0;

		if (listen_at(addrs, n, port, i >= count, fds, which) == 0)
			return 0;
		if (errno != EADDRINUSE)
			return -1;
	}
	return -1;
}

int hvd_listen_any(bool loopback, in_port_t lo, in_port_t hi, in_port_t *port, struct hvd_err *err)
{
	struct hvd_addr addr = {.family = loopback ? AF_INET : AF_INET6};
	struct sockaddr_storage ss;
	char host[256] = "this host";
	size_t which;
	int fd, rc;

	if (loopback)
		addr.u.v4.s_addr = htonl(INADDR_LOOPBACK);
	hvd_addr_to_sockaddr(&addr, 0, &ss);
	rc = hvd_listen_all(&ss, 1, lo, hi, &fd, &which);
	if (rc != 0 && !loopback && (errno == EAFNOSUPPORT || errno == EADDRNOTAVAIL)) {
		hvd_addr_to_sockaddr(&(struct hvd_addr){.family = AF_INET}, 0, &ss);
		rc = hvd_listen_all(&ss, 1, lo, hi, &fd, &which);
	}
	if (rc == 0) {
		*port = hvd_addr_port_of(fd);
		return fd;
	}
	gethostname(host, sizeof(host) - 1);
	if (errno != EADDRINUSE || !lo)
		return hvd_err_sys(err, "cannot listen on %s", host);
	hvd_err_set(err, HVD_E_NET, "all ports from %u to %u (SrunPortRange) are in use", lo, hi);
	hvd_err_hint(err, "end other launches on this host, or ask the administrator for a wider SrunPortRange");
	return hvd_err_host(err, host);
}
