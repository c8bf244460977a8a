/* SPDX-License-Identifier: Apache-2.0 */
/*
 * reserve.h - ports that are kept for servers in other processes, which will listen later.
 *
 * A reserved port belongs to a socket that is bound to all addresses of this host, and does not listen. The kernel
 * gives its number to nobody, and refuses to bind it to a socket that lacks SO_REUSEADDR. A server that sets
 * SO_REUSEADDR and names the port can listen at it, any number of times (as PyTorch's TCPStore and gRPC do). So a
 * reservation may last as long as the server is to live. A connection to the port is refused while nobody listens.
 *
 * Any other program that sets SO_REUSEADDR can take the port too, if it names it: who searches a range of ports for a
 * free one must bind without it first (listen.h does).
 *
 * Uses nothing but libc: the SPANK plugin links it.
 */
#ifndef HVD_RESERVE_H
#define HVD_RESERVE_H

#include "lib/base/err.h"

#include <netinet/in.h>
#include <stddef.h>

/* A zeroed struct has no ports. */
struct hvd_reserve {
	size_t n;
	int *fds;         /* owned; close-on-exec */
	in_port_t *ports; /* owned; host order */
};

/* Reserve `n` ports, free ones from lo to hi, or with 0 and 0 those of the kernel's choice. On success the caller
 * clears *out; after an error it is empty. HVD_E_NET: the range has too few free ports. */
int hvd_reserve(struct hvd_reserve *out, size_t n, in_port_t lo, in_port_t hi, struct hvd_err *err);
/* Give the ports up. Leaves an empty struct. */
void hvd_reserve_clear(struct hvd_reserve *reserved);

#endif
