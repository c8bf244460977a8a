/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Orders for the probe, which come from the driver: an order that is accepted is carried out and reported on once. In a
 * network namespace of its own, from which no address can be reached.
 */
#include "agent/probe.h"
#include "fuzz.h"

#include <sched.h>

static int reports;

static void on_report(json_t *report, void *arg)
{
	const json_t *order = arg;
	size_t lines = 0, i, a;
	json_t *target, *addr;

	json_array_foreach(json_object_get(order, "targets"), i, target)
	{
		json_array_foreach(json_object_get(target, "a"), a, addr)
		{
			lines += json_string_length(addr) > 0; /* an empty one is not tried */
		}
	}
	must(lines == json_array_size(json_object_get(report, "edges")));
	reports++;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static bool apart;
	struct hvd_host_iface iface = {.name = "d0", .n_addrs = 1};
	struct hvd_host_info node = {.n_ifaces = 1, .ifaces = &iface};
	struct hvd_key key = {{1}};
	struct event_base *base;
	struct hvd_probe *probe;
	struct hvd_addr addr;
	json_t *order;
	int rc;

	if (!apart)
		must(unshare(CLONE_NEWNET) == 0 || unshare(CLONE_NEWUSER | CLONE_NEWNET) == 0);
	apart = true;
	order = json_loadb((const char *)data, size, JSON_REJECT_DUPLICATES, NULL);
	if (!order)
		return 0;
	hvd_addr_parse("10.9.0.1", &addr);
	iface.addrs = &addr;
	base = event_base_new();
	probe = hvd_probe_create(base, &key, 0, &node, NULL);
	must(base && probe);
	reports = 0;
	rc = hvd_probe_run(probe, order, on_report, order, NULL);
	for (int i = 0; i < 3; i++)
		event_base_loop(base, EVLOOP_NONBLOCK);
	must(rc == 0 || reports == 0);
	must(reports <= 1);
	/* The probe may be destroyed in the middle of an order. */
	hvd_probe_destroy(probe);
	event_base_free(base);
	json_decref(order);
	return 0;
}
