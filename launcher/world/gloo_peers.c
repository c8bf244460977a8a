/* SPDX-License-Identifier: Apache-2.0 */
#include "gloo_peers.h"

#include "lib/base/digits.h"
#include "lib/base/xalloc.h"
#include "lib/net/portset.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct hvd_gloo_peers {
	struct hvd_rv *rv;
	struct hvd_portset now, before; /* stored since the last generation began, and before that */
};

/* ---- what Gloo stores ---- */

static const char *address_at(const void *data, size_t i)
{
	return (const char *)data + i * HVD_MESH_ADDRESS;
}

/* The address that rank `own` has for rank `other`. It has none for itself. */
static void address_for(const void *data, size_t own, size_t other, struct sockaddr_storage *ss)
{
	memcpy(ss, address_at(data, other < own ? other : other - 1), sizeof(*ss));
}

size_t hvd_mesh_size(const void *data, size_t len)
{
	struct hvd_addr first, addr;
	struct sockaddr_storage ss;
	in_port_t port;
	size_t n = len / HVD_MESH_ADDRESS;

	if (n < 1 || len % HVD_MESH_ADDRESS != 0 || n >= HVD_MESH_MAX)
		return 0;
	for (size_t i = 0; i < n; i++) {
		memcpy(&ss, address_at(data, i), sizeof(ss));
		if (hvd_addr_from_sockaddr((struct sockaddr *)&ss, &addr, &port) != 0 || port == 0)
			return 0;
		if (i == 0)
			first = addr;
		else if (!hvd_addr_equal(&first, &addr))
			return 0; /* Gloo listens at one interface for all ranks */
	}
	return n + 1;
}

/* Compare as Gloo does, which takes ports in network byte order for numbers. */
static int compare(const struct sockaddr_storage *a, const struct sockaddr_storage *b)
{
	int c;

	if (a->ss_family == AF_INET) {
		const struct sockaddr_in *x = (const void *)a, *y = (const void *)b;

		c = memcmp(&x->sin_addr, &y->sin_addr, sizeof(x->sin_addr));
		return c ? c : x->sin_port - y->sin_port;
	}
	const struct sockaddr_in6 *x = (const void *)a, *y = (const void *)b;

	c = memcmp(&x->sin6_addr, &y->sin6_addr, sizeof(x->sin6_addr));
	return c ? c : x->sin6_port - y->sin6_port;
}

int hvd_mesh_pair(const void *a_data, size_t a, const void *b_data, size_t b, size_t n, struct hvd_mesh_end *end)
{
	struct sockaddr_storage at_a, at_b;
	int c;

	if (a >= n || b >= n || a == b)
		return -1;
	address_for(a_data, a, b, &at_a);
	address_for(b_data, b, a, &at_b);
	if (at_a.ss_family != at_b.ss_family || (at_a.ss_family != AF_INET && at_a.ss_family != AF_INET6))
		return -1;
	c = compare(&at_a, &at_b);
	if (c == 0)
		return -1;
	hvd_addr_from_sockaddr((struct sockaddr *)(c < 0 ? &at_a : &at_b), &end->addr, &end->port);
	return end->port ? 0 : -1;
}

/* ---- what is stored at the rendezvous ---- */

static void on_put(void *arg, struct hvd_slice scope, struct hvd_slice key, const void *data, size_t len)
{
	struct hvd_gloo_peers *peers = arg;
	const int64_t number = key.n > 1 && key.p[0] == '0' ? -1 : hvd_digits(key.p, key.n, INT32_MAX);
	const size_t rank = (size_t)number, n = hvd_mesh_size(data, len);
	char *name;

	if (number < 0 || rank >= n)
		return;
	name = hvd_xstrndup(scope.p, scope.n);
	for (size_t other = 0; other < n; other++) {
		const struct hvd_rv_value *v;
		struct hvd_mesh_end end;
		char text[24];

		snprintf(text, sizeof(text), "%zu", other);
		v = other == rank ? NULL : hvd_rv_get(peers->rv, name, text);
		if (v && v->len == len && hvd_mesh_pair(data, rank, v->data, other, n, &end) == 0)
			hvd_portset_add(&peers->now, &end.addr, end.port);
	}
	free(name);
}

void hvd_gloo_peers_watch(struct hvd_gloo_peers *peers, struct hvd_rv *rv)
{
	peers->rv = rv;
	hvd_rv_watch(rv, on_put, peers);
}

void hvd_gloo_peers_begin(struct hvd_gloo_peers *peers)
{
	hvd_portset_merge(&peers->before, &peers->now);
	hvd_portset_clear(&peers->now);
}

void hvd_gloo_peers_answered(struct hvd_gloo_peers *peers)
{
	hvd_portset_clear(&peers->before);
}

/* A loopback address may be of any host. */
static bool is_of(const struct hvd_addr *addr, const struct hvd_host_info *node)
{
	return hvd_addr_loopback(addr) || hvd_host_info_find_addr(node, addr) >= 0;
}

json_t *hvd_gloo_peers_at(const struct hvd_gloo_peers *peers, const struct hvd_host_info *node)
{
	const struct hvd_portset *sets[] = {&peers->before, &peers->now};
	json_t *obj = NULL;
	char text[HVD_ADDR_TEXT];

	for (size_t s = 0; s < sizeof(sets) / sizeof(sets[0]); s++)
		for (size_t i = 0; i < sets[s]->n; i++) {
			const struct hvd_addr *addr = &sets[s]->v[i].addr;
			json_t *more, *ports;

			if (!is_of(addr, node))
				continue;
			if (!obj)
				obj = json_object();
			more = hvd_portset_list(sets[s], addr);
			ports = json_object_get(obj, hvd_addr_text(addr, text));
			if (ports)
				json_array_extend(ports, more);
			else
				json_object_set(obj, text, more);
			json_decref(more);
		}
	return obj;
}

struct hvd_gloo_peers *hvd_gloo_peers_create(void)
{
	return hvd_xcalloc(1, sizeof(struct hvd_gloo_peers));
}

void hvd_gloo_peers_destroy(struct hvd_gloo_peers *peers)
{
	if (!peers)
		return;
	hvd_portset_clear(&peers->now);
	hvd_portset_clear(&peers->before);
	free(peers);
}
