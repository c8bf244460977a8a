/* SPDX-License-Identifier: Apache-2.0 */
#include "portset.h"

#include "lib/base/xalloc.h"

#include <stdlib.h>
#include <string.h>

#define PORTS 65536

/* The index of the address, or the index to insert it at when it is not there. */
static size_t index_of(const struct hvd_portset *set, const struct hvd_addr *addr, bool *there)
{
	size_t lo = 0, hi = set->n;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (hvd_addr_compare(&set->v[mid].addr, addr) < 0)
			lo = mid + 1;
		else
			hi = mid;
	}
	*there = lo < set->n && hvd_addr_compare(&set->v[lo].addr, addr) == 0;
	return lo;
}

/* The entry of the address, made if there is none; NULL: there is no room for one more. */
static struct hvd_portset_addr *entry(struct hvd_portset *set, const struct hvd_addr *addr)
{
	bool there;
	size_t at = index_of(set, addr, &there);

	if (there)
		return &set->v[at];
	if (set->n == HVD_PORTSET_MAX)
		return NULL;
	set->v = hvd_xgrow(set->v, set->n, &set->room, sizeof(*set->v));
	memmove(&set->v[at + 1], &set->v[at], (set->n - at) * sizeof(*set->v));
	set->n++;
	set->v[at] = (struct hvd_portset_addr){.addr = *addr, .bits = hvd_xcalloc(PORTS / 8, 1)};
	return &set->v[at];
}

static bool is_set(const struct hvd_portset_addr *e, unsigned port)
{
	return e->bits[port / 8] >> (port % 8) & 1;
}

void hvd_portset_clear(struct hvd_portset *set)
{
	if (!set)
		return;
	for (size_t i = 0; i < set->n; i++)
		free(set->v[i].bits);
	free(set->v);
	memset(set, 0, sizeof(*set));
}

int hvd_portset_add(struct hvd_portset *set, const struct hvd_addr *addr, in_port_t port)
{
	struct hvd_portset_addr *e = entry(set, addr);

	if (!e)
		return -1;
	e->bits[port / 8] |= (uint8_t)(1U << (port % 8));
	return 0;
}

void hvd_portset_merge(struct hvd_portset *set, const struct hvd_portset *from)
{
	for (size_t i = 0; i < from->n; i++) {
		struct hvd_portset_addr *e = entry(set, &from->v[i].addr);

		for (size_t k = 0; e && k < PORTS / 8; k++)
			e->bits[k] |= from->v[i].bits[k];
	}
}

bool hvd_portset_has(const struct hvd_portset *set, const struct hvd_addr *addr, in_port_t port)
{
	bool there;
	size_t at = index_of(set, addr, &there);

	return there && is_set(&set->v[at], port);
}

json_t *hvd_portset_list(const struct hvd_portset *set, const struct hvd_addr *addr)
{
	bool there;
	size_t at = index_of(set, addr, &there);
	json_t *ports = there ? json_array() : NULL;

	for (unsigned port = 0; there && port < PORTS; port++)
		if (is_set(&set->v[at], port))
			json_array_append_new(ports, json_integer((json_int_t)port));
	return ports;
}

int hvd_portset_from_json(const json_t *obj, struct hvd_portset *set, struct hvd_err *err)
{
	const char *text;
	json_t *ports, *port;
	size_t i;

	if (!json_is_object(obj))
		return hvd_err_set(err, HVD_E_PROTO, "ports by address are not an object");
	json_object_foreach((json_t *)obj, text, ports)
	{
		struct hvd_addr addr;

		if (hvd_addr_parse(text, &addr) != 0 || !json_is_array(ports))
			return hvd_err_set(err, HVD_E_PROTO, "\"%.64s\" is not an address with ports", text);
		json_array_foreach(ports, i, port)
		{
			json_int_t p = json_is_integer(port) ? json_integer_value(port) : -1;

			if (p < 1 || p >= PORTS)
				return hvd_err_set(err, HVD_E_PROTO, "there is no such port of %.64s", text);
			if (hvd_portset_add(set, &addr, (in_port_t)p) != 0)
				return hvd_err_set(err, HVD_E_PROTO, "more than %d addresses", HVD_PORTSET_MAX);
		}
	}
	return 0;
}
