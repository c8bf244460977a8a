/* SPDX-License-Identifier: Apache-2.0 */
/* loopback.h - for tests: clients of servers on this machine. */
#ifndef HVD_TESTS_LOOPBACK_H
#define HVD_TESTS_LOOPBACK_H

#include "unit.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

/* A connection to this port of 127.0.0.1. What is sent arrives at once, as what PyTorch's clients send, and not when the
 * kernel has acknowledged what was sent before: a test with a clock of its own would be over by then. */
static inline int dial_loopback(in_port_t port)
{
	struct sockaddr_in to = {
		.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1;

	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof(to)), 0);
	return fd;
}

#endif
