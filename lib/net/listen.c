/* SPDX-License-Identifier: Apache-2.0 */
#include "listen.h"

#include "addr.h"
#include "lib/base/random.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static int listen_at(const struct hvd_addr *addr, in_port_t port)
{
	struct sockaddr_storage ss;
	socklen_t len = hvd_addr_to_sockaddr(addr, port, &ss);
	int off = 0, on = 1, saved;
	int fd = socket(addr->family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return -1;
	if (addr->family == AF_INET6)
		setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
	/* A port of a launch that has just ended can be had again at once. */
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (bind(fd, (struct sockaddr *)&ss, len) == 0 && listen(fd, SOMAXCONN) == 0)
		return fd;
	saved = errno;
	close(fd);
	errno = saved;
	return -1;
}

static int port_of(int fd, in_port_t *port)
{
	struct sockaddr_storage ss;
	struct hvd_addr addr;
	socklen_t len = sizeof(ss);

	if (getsockname(fd, (struct sockaddr *)&ss, &len) != 0)
		return -1;
	return hvd_addr_from_sockaddr((struct sockaddr *)&ss, &addr, port);
}

static int listen_in_range(const struct hvd_addr *addr, in_port_t lo, in_port_t hi)
{
	unsigned count = (unsigned)hi - lo + 1, start = 0;
	int fd = -1;

	hvd_random(&start, sizeof(start), NULL);
	for (unsigned i = 0; i < count; i++) {
		fd = listen_at(addr, (in_port_t)(lo + (start % count + i) % count));
		if (fd >= 0 || errno != EADDRINUSE)
			return fd;
	}
	return fd;
}

int hvd_listen_any(bool loopback, in_port_t lo, in_port_t hi, in_port_t *port, struct hvd_err *err)
{
	struct hvd_addr addr = {.family = loopback ? AF_INET : AF_INET6};
	char host[256] = "this host";
	int fd;

	if (loopback)
		addr.u.v4.s_addr = htonl(INADDR_LOOPBACK);
	fd = listen_in_range(&addr, lo, hi);
	if (fd < 0 && addr.family == AF_INET6 && (errno == EAFNOSUPPORT || errno == EADDRNOTAVAIL)) {
		memset(&addr, 0, sizeof(addr));
		addr.family = AF_INET;
		fd = listen_in_range(&addr, lo, hi);
	}
	if (fd >= 0 && port_of(fd, port) == 0)
		return fd;
	gethostname(host, sizeof(host) - 1);
	if (fd < 0 && errno == EADDRINUSE && lo) {
		hvd_err_set(err, HVD_E_NET, "all ports from %u to %u (SrunPortRange) are in use", lo, hi);
		hvd_err_hint(err,
			     "end other launches on this host, or ask the administrator for a wider SrunPortRange");
		hvd_err_host(err, host);
		return -1;
	}
	hvd_err_sys(err, "cannot listen on %s", host);
	if (fd >= 0)
		close(fd);
	return -1;
}
