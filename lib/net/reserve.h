/* SPDX-License-Identifier: Apache-2.0 */
/*
 * reserve.h - ports that are kept for servers in other processes, which will listen later.
 *
 * A reserved port belongs to a socket that is bound to all addresses of this host, and does not listen. The kernel
 * gives the port's number to nobody, and refuses to bind it to a socket that lacks the option of the reservation. A
 * server that sets the option and names the port can listen at it, any number of times. So a reservation may last as
 * long as the server is to live. A connection to the port is refused while nobody listens.
 *
 * A reservation may have both options, for a server whose options are not known. While connections of a server with one of
 * them are in TIME_WAIT, a server with the other one alone does not get the port.
 *
 * With SO_REUSEPORT, which gRPC sets, the kernel also requires that both sockets belong to the same user. With
 * SO_REUSEADDR, the only option that PyTorch's TCPStore sets, it does not: any program of any user that names the port
 * can listen at it before the server does. A program that searches a range of ports for a free one must bind without
 * either option first (listen.h does).
 */
#ifndef HVD_RESERVE_H
#define HVD_RESERVE_H

#include "lib/base/err.h"

#include <netinet/in.h>
#include <stddef.h>

/* The option that a server must set on its socket to get the port. */
enum hvd_reserve_for {
	HVD_RESERVE_REUSEPORT = 1, /* the server must also be of the same user */
	HVD_RESERVE_REUSEADDR = 2,
	HVD_RESERVE_EITHER = 3,
};

/* A zeroed struct has no ports. */
struct hvd_reserve {
	size_t n;
	int *fds;         /* owned; close-on-exec */
	in_port_t *ports; /* owned; host order */
};

/* Reserve `n` further ports: free ones from lo to hi, or with 0 and 0 ports of the kernel's choice. The caller clears
 * *to; an error leaves *to unchanged. HVD_E_NET: the range has too few free ports. */
int hvd_reserve(struct hvd_reserve *to, size_t n, enum hvd_reserve_for what, in_port_t lo, in_port_t hi,
		struct hvd_err *err);
/* Give the ports up. Leaves an empty struct. */
void hvd_reserve_clear(struct hvd_reserve *reserved);

#endif
