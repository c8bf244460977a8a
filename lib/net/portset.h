/* SPDX-License-Identifier: Apache-2.0 */
/*
 * portset.h - TCP ports by address: which local ends of connections are meant.
 *
 * An address costs 8 KiB, however many of its ports are in. On the wire:
 *   {"10.77.0.2":[41234,…],…}
 * A zeroed struct is an empty set. One thread.
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
	uint8_t *bits; /* one for each port */
};

struct hvd_portset {
	struct hvd_portset_addr *v; /* in order */
	size_t n, room;
};

void hvd_portset_clear(struct hvd_portset *set); /* leaves an empty set; NULL is fine */
/* -1 when there would be too many addresses. One that is in already is fine. */
int hvd_portset_add(struct hvd_portset *set, const struct hvd_addr *addr, in_port_t port);
/* All of `from`, as far as there is room. */
void hvd_portset_merge(struct hvd_portset *set, const struct hvd_portset *from);
bool hvd_portset_has(const struct hvd_portset *set, const struct hvd_addr *addr, in_port_t port);

/* The ports of an address, in order, as a new array; NULL when the address is not in. */
json_t *hvd_portset_list(const struct hvd_portset *set, const struct hvd_addr *addr);
/* Add what `obj` holds. -1 with HVD_E_PROTO when it is not an object as above; a part may have been added. */
int hvd_portset_from_json(const json_t *obj, struct hvd_portset *set, struct hvd_err *err);

#endif
