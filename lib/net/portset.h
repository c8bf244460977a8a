/* SPDX-License-Identifier: Apache-2.0 */
/*
 * portset.h - a set of TCP ports by address: the local ends of connections.
 *
 * An address takes 8 KiB, however many of its ports are in the set. On the wire a set is
 *   {"10.77.0.2":[41234,…],…}
 * A zeroed struct is an empty set. One thread at a time.
 */
#ifndef HVD_PORTSET_H
#define HVD_PORTSET_H

#include "addr.h"
#include "lib/base/err.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HVD_PORTSET_MAX 4096 /* addresses */

struct hvd_portset_addr {
	struct hvd_addr addr;
	uint8_t *bits; /* one bit for each port */
};

struct hvd_portset {
	struct hvd_portset_addr *v; /* sorted by address */
	size_t n, room;
};

void hvd_portset_clear(struct hvd_portset *set); /* leaves an empty set; NULL is fine */
/* Add a port (host order). -1 when the set has HVD_PORTSET_MAX other addresses. */
int hvd_portset_add(struct hvd_portset *set, const struct hvd_addr *addr, in_port_t port);
/* Add all ports of `from`, except those of addresses for which there is no room. */
void hvd_portset_merge(struct hvd_portset *set, const struct hvd_portset *from);
bool hvd_portset_has(const struct hvd_portset *set, const struct hvd_addr *addr, in_port_t port);

/* The ports of an address, ascending, as a new reference; NULL when the set does not have the address. */
json_t *hvd_portset_list(const struct hvd_portset *set, const struct hvd_addr *addr);
/* Add the set in the message `obj`. -1 with HVD_E_PROTO when it is not an object as above; some of its ports may have
 * been added then. Untrusted input is fine. */
int hvd_portset_from_json(const json_t *obj, struct hvd_portset *set, struct hvd_err *err);

#endif
