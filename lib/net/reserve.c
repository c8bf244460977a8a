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

/* A socket that is bound to the port at all addresses; -1 with errno set. A port that another process has reserved
 * would look free to a socket that has SO_REUSEADDR already. */
static int bind_port(sa_family_t family, in_port_t port)
{
	struct sockaddr_storage ss;
	socklen_t len = hvd_addr_to_sockaddr(&(struct hvd_addr){.family = family}, port, &ss);
	int off = 0, on = 1, saved, fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return -1;
	if (family == AF_INET6)
		setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
	if (bind(fd, (struct sockaddr *)&ss, len) == 0 &&
	    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) == 0)
		return fd;
	saved = errno;
	close(fd);
	errno = saved;
	return -1;
}

static int reserve_one(in_port_t port)
{
	int fd = bind_port(AF_INET6, port);

	if (fd < 0 && (errno == EAFNOSUPPORT || errno == EADDRNOTAVAIL))
		fd = bind_port(AF_INET, port);
	return fd;
}

static int reserve_in(in_port_t lo, in_port_t hi)
{
	unsigned count = lo ? (unsigned)hi - lo + 1 : 1, start = 0;
	int fd = -1;

	/* Not all launches of a host try the same ports first. */
	hvd_random(&start, sizeof(start), NULL);
	for (unsigned i = 0; i < count && fd < 0; i++) {
		fd = reserve_one(lo ? (in_port_t)(lo + (start % count + i) % count) : 0);
		if (fd < 0 && errno != EADDRINUSE)
			break;
	}
	return fd;
}

int hvd_reserve(struct hvd_reserve *out, size_t n, in_port_t lo, in_port_t hi, struct hvd_err *err)
{
	*out = (struct hvd_reserve){.fds = hvd_xcalloc(n, sizeof(int)), .ports = hvd_xcalloc(n, sizeof(in_port_t))};
	while (out->n < n) {
		int fd = reserve_in(lo, hi);

		if (fd < 0) {
			int rc = errno == EADDRINUSE && lo
					 ? hvd_err_set(err, HVD_E_NET, "too few ports from %u to %u are free", lo, hi)
					 : hvd_err_sys(err, "cannot reserve a port");

			hvd_reserve_clear(out);
			return rc;
		}
		out->fds[out->n] = fd;
		out->ports[out->n++] = hvd_addr_port_of(fd);
	}
	return 0;
}

void hvd_reserve_clear(struct hvd_reserve *reserved)
{
	for (size_t i = 0; i < reserved->n; i++)
		close(reserved->fds[i]);
	free(reserved->fds);
	free(reserved->ports);
	memset(reserved, 0, sizeof(*reserved));
}
