/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as what two ranks have put, cut in the middle, and as a set of ports. */
#include "fuzz.h"
#include "launcher/world/gloo_peers.h"
#include "lib/net/portset.h"

/* Copies, so that one byte too many is found. */
static void *copy_of(const uint8_t *data, size_t size)
{
	void *copy = malloc(size ? size : 1);

	must(copy != NULL);
	if (size)
		memcpy(copy, data, size);
	return copy;
}

static void as_values(const uint8_t *data, size_t size)
{
	size_t half = size / 2, n;
	void *a = copy_of(data, half), *b = copy_of(data + half, half);
	struct hvd_mesh_end one, other;

	n = hvd_mesh_size(a, half);
	must(n == 0 || (n - 1) * HVD_MESH_ADDRESS == half);
	/* The other value need not be one. */
	for (size_t i = 0; i < n; i++)
		for (size_t k = 0; k < n; k++) {
			if (hvd_mesh_pair(a, i, b, k, n, &one) != 0)
				continue;
			must(i != k && one.port != 0);
			must(hvd_mesh_pair(b, k, a, i, n, &other) == 0);
			must(hvd_addr_equal(&one.addr, &other.addr) && one.port == other.port);
		}
	free(a);
	free(b);
}

static void as_ports(const uint8_t *data, size_t size)
{
	json_t *obj = json_loadb((const char *)data, size, JSON_DECODE_ANY, NULL);
	struct hvd_portset set = {0};
	struct hvd_err err = {0};
	int rc = hvd_portset_from_json(obj, &set, &err);

	must((rc == 0) == (err.code == HVD_OK) && set.n <= HVD_PORTSET_MAX);
	for (size_t i = 0; i < set.n; i++) {
		json_t *ports = hvd_portset_list(&set, &set.v[i].addr), *port;
		size_t k;

		must(json_is_array(ports));
		json_array_foreach(ports, k, port)
		{
			must(hvd_portset_has(&set, &set.v[i].addr, (in_port_t)json_integer_value(port)));
		}
		json_decref(ports);
	}
	hvd_portset_clear(&set);
	json_decref(obj);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	as_values(data, size);
	as_ports(data, size);
	return 0;
}
