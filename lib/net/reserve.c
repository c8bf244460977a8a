/* SPDX-License-Identifier: Apache-2.0 */
#include "reserve.h"

#include "addr.h"
#include "lib/base/random.h"
#include "lib/base/xalloc.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static int set_option(int fd, int option)
{
	const int on = 1;

	return setsockopt(fd, SOL_SOCKET, option, &on, sizeof(on));
}

/* A socket that is bound to the port at all addresses; -1 with errno set. A port that another process has reserved
 * would look free to a socket that has the option already. */
static int bind_port(sa_family_t family, in_port_t port, enum hvd_reserve_for what)
{
	struct sockaddr_storage ss;
	socklen_t len = hvd_addr_to_sockaddr(&(struct hvd_addr){.family = family}, port, &ss);
	int off = 0, saved, fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return -1;
	if (family == AF_INET6)
		setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
	if (bind(fd, (struct sockaddr *)&ss, len) == 0 &&
	    (!(what & HVD_RESERVE_REUSEPORT) || set_option(fd, SO_REUSEPORT) == 0) &&
	    (!(what & HVD_RESERVE_REUSEADDR) || set_option(fd, SO_REUSEADDR) == 0))
		return fd;
	saved = errno;
	close(fd);
	errno = saved;
	return -1;
}

static int reserve_one(in_port_t port, enum hvd_reserve_for what)
{
	int fd = bind_port(AF_INET6, port, what);

	if (fd < 0 && (errno == EAFNOSUPPORT || errno == EADDRNOTAVAIL))
		fd = bind_port(AF_INET, port, what);
	return fd;
}

static int reserve_in(in_port_t lo, in_port_t hi, enum hvd_reserve_for what)
{
	unsigned count = lo ? (unsigned)hi - lo + 1 : 1, start = 0;
	int fd = -1;

	/* Not all launches of a host try the same ports first. */
	hvd_random(&start, sizeof(start), NULL);
	for (unsigned i = 0; i < count && fd < 0; i++) {
		fd = reserve_one(lo ? (in_port_t)(lo + (start % count + i) % count) : 0, what);
		if (fd < 0 && errno != EADDRINUSE)
			break;
	}
	return fd;
}

/* Give up all ports but the first `n`. */
static void keep(struct hvd_reserve *reserved, size_t n)
{
	while (reserved->n > n)
		close(reserved->fds[--reserved->n]);
}

int hvd_reserve(struct hvd_reserve *to, size_t n, enum hvd_reserve_for what, in_port_t lo, in_port_t hi,
		struct hvd_err *err)
{
	size_t had = to->n;

	to->fds = hvd_xrealloc(to->fds, had + n, sizeof(*to->fds));
	to->ports = hvd_xrealloc(to->ports, had + n, sizeof(*to->ports));
	while (to->n < had + n) {
		int fd = reserve_in(lo, hi, what);

		if (fd < 0) {
			int rc = errno == EADDRINUSE && lo
					 ? hvd_err_set(err, HVD_E_NET, "too few ports from %u to %u are free", lo, hi)
					 : hvd_err_sys(err, "cannot reserve a port");

			keep(to, had);
			return rc;
		}
		to->fds[to->n] = fd;
		to->ports[to->n++] = hvd_addr_port_of(fd);
	}
	return 0;
}

void hvd_reserve_clear(struct hvd_reserve *reserved)
{
	keep(reserved, 0);
	free(reserved->fds);
	free(reserved->ports);
	memset(reserved, 0, sizeof(*reserved));
}
