/* SPDX-License-Identifier: Apache-2.0 */
/*
 * refused.h - processes of this host that try again and again to reach a port of this host where nobody listens.
 *
 * The kernel tells of each TCP socket of this network namespace that ends (NETLINK_SOCK_DIAG), whoever had it. One that
 * was never connected is an attempt. Whose it was is not told. Where the kernel does not tell, or tells of more sockets
 * than should be looked at, nothing is noticed.
 */
#ifndef HVD_REFUSED_H
#define HVD_REFUSED_H

#include "lib/net/addr.h"

#include <event2/event.h>

/* So many attempts are no accident. */
#define HVD_REFUSED_ATTEMPTS 4

struct hvd_refused;

/* A port is told of when there were HVD_REFUSED_ATTEMPTS over `seconds` or longer; and, while they go on, again after
 * as long. `told` may not destroy it. NULL when it cannot be noticed here. */
struct hvd_refused *hvd_refused_create(struct event_base *base, double seconds,
				       void (*told)(const struct hvd_addr *addr, in_port_t port, void *arg), void *arg);
void hvd_refused_destroy(struct hvd_refused *refused); /* NULL is fine */

#endif
