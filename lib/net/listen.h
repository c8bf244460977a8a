/* SPDX-License-Identifier: Apache-2.0 */
/*
 * listen.h - opens listening sockets within a range of ports. They are non-blocking and close-on-exec, and their
 * backlog is as long as the kernel allows. The caller closes them. They have TCP_SAVE_SYN (lib/rendezvous/access.h).
 */
#ifndef HVD_LISTEN_H
#define HVD_LISTEN_H

#include "lib/base/err.h"

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>

/* Listen on every address of this host, or with `loopback` on 127.0.0.1 only. One socket serves IPv6 and IPv4, or IPv4
 * alone where the kernel has no IPv6. The port is a free one from lo to hi, searched from a random start; with 0 and 0
 * the kernel chooses. Returns the socket, and its port in *port (host order); -1 with err set, HVD_E_NET when all ports
 * are in use. */
int hvd_listen_any(bool loopback, in_port_t lo, in_port_t hi, in_port_t *port, struct hvd_err *err);

/* Listen on each of `n` addresses, all at one port, which is chosen as above and is free on every address. "::" serves
 * IPv4 too. The ports in `addrs` are ignored. Returns 0 with a socket for each address in `fds`, or -1 with errno set
 * and no socket open: EADDRINUSE if no port is free on all addresses, else the error of addrs[*which]. */
int hvd_listen_all(const struct sockaddr_storage *addrs, size_t n, in_port_t lo, in_port_t hi, int *fds, size_t *which);

#endif
