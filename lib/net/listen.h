/* SPDX-License-Identifier: Apache-2.0 */
/*
 * listen.h - a listening socket for both address families, inside a port range.
 */
#ifndef HVD_LISTEN_H
#define HVD_LISTEN_H

#include "lib/base/err.h"

#include <netinet/in.h>
#include <stdbool.h>

/* Listen on every address of this host (IPv6 and IPv4 on one socket; IPv4 alone where the kernel has no IPv6), or on
 * 127.0.0.1 only, at the first free port of lo … hi, beginning at a random one; 0, 0 lets the kernel choose. The
 * backlog is as deep as the kernel allows. Returns a non-blocking, close-on-exec socket with *port set; -1 with
 * HVD_E_NET when all ports of the range are taken. */
int hvd_listen_any(bool loopback, in_port_t lo, in_port_t hi, in_port_t *port, struct hvd_err *err);

#endif
