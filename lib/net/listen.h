/* SPDX-License-Identifier: Apache-2.0 */
/*
 * listen.h - listening sockets, inside a port range. They are non-blocking and close-on-exec, and their backlog is as
 * deep as the kernel allows.
 */
#ifndef HVD_LISTEN_H
#define HVD_LISTEN_H

#include "lib/base/err.h"

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>

/* Listen on every address of this host (IPv6 and IPv4 on one socket; IPv4 alone where the kernel has no IPv6), or on
 * 127.0.0.1 only, at the first free port of lo … hi, beginning at a random one; 0, 0 lets the kernel choose. Returns
 * the socket with *port set; -1 with HVD_E_NET when all ports of the range are taken. */
int hvd_listen_any(bool loopback, in_port_t lo, in_port_t hi, in_port_t *port, struct hvd_err *err);

/* Listen on `n` addresses ("::" takes IPv4, too), all at one port that is free on each of them, chosen likewise. The
 * addresses' own ports do not count. Returns 0 with the sockets in `fds`; -1 with errno, and nothing open: EADDRINUSE
 * when no port is left, else it is of address `which`. */
int hvd_listen_all(const struct sockaddr_storage *addrs, size_t n, in_port_t lo, in_port_t hi, int *fds, size_t *which);

/* The port of a socket; 0 when it has none. */
in_port_t hvd_listen_port(int fd);

#endif
