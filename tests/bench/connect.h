/* SPDX-License-Identifier: Apache-2.0 */
/*
 * connect.h - what connect_flood and connect_hold share: open many connections, and break them off.
 */
#ifndef HVD_TESTS_BENCH_CONNECT_H
#define HVD_TESTS_BENCH_CONNECT_H

#include "lib/base/deadline.h"
#include "lib/net/addr.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

static volatile sig_atomic_t ended;

static inline void on_end(int sig)
{
	(void)sig;
	ended = 1;
}

static inline double seconds_since(hvd_time then)
{
	return (double)(hvd_now() - then) / 1e9;
}

/* ADDRESS PORT of the command line. Returns the length of *to, 0 when they are none. */
static inline socklen_t parse_target(char **argv, struct sockaddr_storage *to)
{
	struct hvd_addr addr;
	int port = atoi(argv[2]);

	if (hvd_addr_parse(argv[1], &addr) != 0 || port < 1 || port > 65535)
		return 0;
	return hvd_addr_to_sockaddr(&addr, (in_port_t)port, to);
}

static inline int open_socket(const struct sockaddr_storage *to)
{
	return socket(to->ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
}

/* Begin to connect. Returns 0, or the error after which the socket is closed. */
static inline int begin_connect(int fd, const struct sockaddr_storage *to, socklen_t len)
{
	int error;

	if (connect(fd, (const struct sockaddr *)to, len) == 0 || errno == EINPROGRESS)
		return 0;
	error = errno;
	close(fd);
	return error;
}

/* Close with a reset. */
static inline void break_off(int fd)
{
	static const struct linger now = {.l_onoff = 1};

	setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
	close(fd);
}

#endif
