/* SPDX-License-Identifier: Apache-2.0 */
/*
 * refused.h - notices processes of this host that try again and again to reach a port of this host where nobody
 * listens.
 *
 * The kernel reports each TCP socket of this network namespace that ends (NETLINK_SOCK_DIAG), whoever owned it. A
 * socket that was never connected is such an attempt. The report does not name the owner. If the kernel sends no
 * reports, or more than can be handled, nothing is noticed.
 */
#ifndef HVD_REFUSED_H
#define HVD_REFUSED_H

#include "lib/net/addr.h"

#include <event2/event.h>

/* From so many refused attempts on, a target is reported: they are no accident. */
#define HVD_REFUSED_ATTEMPTS 4

struct hvd_refused;

/* `report` is called for a port after HVD_REFUSED_ATTEMPTS attempts over `seconds` or longer and, while they go on, again
 * after as long. It may not destroy the object. NULL if this host cannot notice attempts. */
struct hvd_refused *hvd_refused_create(struct event_base *base, double seconds,
				       void (*report)(const struct hvd_addr *addr, in_port_t port, void *arg),
				       void *arg);
void hvd_refused_destroy(struct hvd_refused *refused); /* NULL is fine */

#endif
