/* SPDX-License-Identifier: Apache-2.0 */
/* Which networks the hosts of an elastic job use, and which later ones can join in. */
#include "launcher/hosts/planner.h"
#include "lib/base/xalloc.h"

#include "tests/unit/unit.h"

struct world {
	struct hvd_host_table roster;
	struct hvd_network_plan plan;
	struct hvd_err err;
};

SETUP(setup, struct world, w)
{
}

TEARDOWN(teardown, struct world, w)
{
	hvd_network_plan_clear(&w->plan);
	hvd_host_table_clear(&w->roster);
}

/* Host `h` registers. It is on this machine, and has interfaces of these names ("eth0,ib0") with an address each. */
static void comes(struct world *w, uint32_t h, int machine, const char *names)
{
	json_t *ifaces = json_array(), *msg;
	char copy[64], addr[32], machine_text[HVD_MACHINE_LEN + 1], name[16], *save = NULL;
	const uint32_t had = w->roster.n;
	int i = 0;

	snprintf(copy, sizeof(copy), "%s", names);
	for (char *one = strtok_r(copy, ",", &save); one; one = strtok_r(NULL, ",", &save), i++) {
		snprintf(addr, sizeof(addr), "10.%d.0.%d", strcmp(one, "eth0") == 0 ? 0 : i + 1, machine + 1);
		json_array_append_new(ifaces, json_pack("{s:s, s:s, s:i, s:i, s:i, s:[s]}", "n", one, "k", "ethernet",
							"s", 1000, "r", 9 + i, "u", -1, "a", addr));
	}
	snprintf(machine_text, sizeof(machine_text), "%032d", machine);
	snprintf(name, sizeof(name), "name%u", h);
	msg = json_pack("{s:s, s:i, s:i, s:i, s:s, s:s, s:s, s:[i], s:i, s:i, s:o, s:s}", "t", "register", "node",
			(int)h, "nodes", 1, "size", 1, "name", name, "host", name, "machine", machine_text, "ranks", 0,
			"port", 4000 + (int)h, "relay", 5000 + (int)h, "ifaces", ifaces, "dropped", "");
	assert_non_null(msg);
	hvd_host_table_expect(&w->roster, h, name);
	hvd_network_plan_grow(&w->plan, had, w->roster.n);
	assert_int_equal(hvd_host_table_register(&w->roster, msg, &h, NULL), 0);
	json_decref(msg);
}

/* It does what it is told: each of the others' addresses, if `reaches`, over the interface of the same place. Returns
 * how many hosts it was told to try. */
static size_t reports(struct world *w, uint32_t h, bool reaches)
{
	uint32_t present, from = 0, *hosts = hvd_host_table_list(&w->roster, HVD_STAGE_REGISTERED, &present);
	json_t *edges = json_array(), *report, *order, *target, *entry;
	json_t **addrs = calloc(present, sizeof(json_t *));
	size_t i, a, n;

	assert_non_null(addrs);
	while (hosts[from] != h)
		from++;
	order = hvd_probe_order(&w->roster, hosts, present, from, 100, false, addrs);
	for (i = 0; i < present; i++)
		json_decref(addrs[i]);
	free(addrs);
	free(hosts);
	n = json_array_size(json_object_get(order, "targets"));

	json_array_foreach(json_object_get(order, "targets"), i, target)
	{
		json_array_foreach(json_object_get(target, "a"), a, entry)
		{
			if (a >= w->roster.hosts[h].node.n_ifaces)
				continue;
			json_array_append_new(edges, json_pack("[O,i,i,i,i]", json_object_get(target, "n"), (int)a,
							       (int)a, reaches ? HVD_REACH_OK : HVD_REACH_SILENT, 50));
		}
	}
	report = json_pack("{s:o}", "edges", edges);
	hvd_host_table_enter(&w->roster, h, HVD_STAGE_PROBING);
	assert_int_equal(hvd_host_table_report(&w->roster, h, report, &w->err), 0);
	json_decref(report);
	json_decref(order);
	return n;
}

/* What host 0 is told to try of host 1, with commas between the addresses. The caller frees it. */
static char *told_to_try(struct world *w, bool every)
{
	const uint32_t hosts[] = {0, 1};
	json_t *addrs[2] = {NULL, NULL}, *order, *list, *entry;
	char *text = hvd_xstrdup("");
	size_t i;

	order = hvd_probe_order(&w->roster, hosts, 2, 0, 100, every, addrs);
	list = json_object_get(json_array_get(json_object_get(order, "targets"), 0), "a");
	json_array_foreach(list, i, entry)
	{
		hvd_xappendf(&text, "%s%s", i ? "," : "", json_string_value(entry));
	}
	json_decref(order);
	json_decref(addrs[1]);
	return text;
}

static void tries(struct world *w, bool every, const char *addrs)
{
	char *text = told_to_try(w, every);

	assert_string_equal(text, addrs);
	free(text);
}

/* Packets of IPv6 that somebody drops would hold up each start for the whole time of a round. */
TEST_IN(ipv6_beside_ipv4_is_tried_where_that_does_not_do, struct world *w)
{
	static const char all[] = "10.0.0.2,fd00::2,fd01::2";
	struct hvd_host_iface *ifaces;

	comes(w, 0, 0, "eth0,ib0");
	comes(w, 1, 1, "eth0,ib0");
	ifaces = w->roster.hosts[1].node.ifaces;
	ifaces[0].addrs = hvd_xrealloc(ifaces[0].addrs, 2, sizeof(struct hvd_addr));
	ifaces[0].n_addrs = 2;
	assert_int_equal(hvd_addr_parse("fd00::2", &ifaces[0].addrs[1]), 0);
	assert_int_equal(hvd_addr_parse("fd01::2", &ifaces[1].addrs[0]), 0); /* it has no other */
	tries(w, false, "10.0.0.2,,fd01::2");
	tries(w, true, all);
	w->roster.ipv6 = true;
	tries(w, false, all);
	w->roster.ipv6 = false;
	w->roster.rounds = 1;
	tries(w, false, all);
}

static int first(struct world *w, bool local)
{
	struct hvd_log log = hvd_log_make("test", HVD_LOG_ERROR);
	int rc;

	w->plan.elastic = true;
	w->plan.loopback = local;
	rc = hvd_network_plan_make(&w->plan, &w->roster, false, &log, &w->err);

	for (uint32_t h = 0; rc == 0 && h < w->roster.n; h++)
		if (w->roster.hosts[h].stage == HVD_STAGE_REPORTED)
			hvd_host_table_enter(&w->roster, h, HVD_STAGE_HERE);
	return rc;
}

static int late(struct world *w, uint32_t h)
{
	int rc = hvd_network_plan_join(&w->plan, &w->roster, h, &w->err);

	if (rc == 0)
		hvd_host_table_enter(&w->roster, h, HVD_STAGE_HERE);
	return rc;
}

static const char *iface_of(const struct world *w, uint32_t h)
{
	return w->roster.hosts[h].node.ifaces[w->plan.networks.v[0].iface[h]].name;
}

TEST_IN(second_name_of_the_machine_comes_later, struct world *w)
{
	comes(w, 0, 0, "eth0,wlan0");
	assert_int_equal(reports(w, 0, true), 0);
	assert_int_equal(first(w, false), 0);
	assert_false(w->plan.local);
	assert_string_equal(iface_of(w, 0), "eth0");
	comes(w, 1, 0, "wlan0,eth0"); /* in another order */
	assert_int_equal(reports(w, 1, true), 0);
	assert_int_equal(late(w, 1), 0);
	assert_string_equal(iface_of(w, 1), "eth0");
}

TEST_IN(second_name_of_a_machine_among_several, struct world *w)
{
	comes(w, 0, 0, "eth0");
	comes(w, 1, 1, "eth0");
	reports(w, 0, true);
	reports(w, 1, true);
	assert_int_equal(first(w, false), 0);
	comes(w, 2, 1, "lan1,eth0");
	reports(w, 2, false);
	assert_int_equal(late(w, 2), 0);
	assert_string_equal(iface_of(w, 2), "eth0");
}

/* It lacks what the first name had: the cable was pulled. */
TEST_IN(second_name_without_the_interface, struct world *w)
{
	comes(w, 0, 0, "eth0");
	reports(w, 0, true);
	assert_int_equal(first(w, false), 0);
	comes(w, 1, 0, "wlan0");
	reports(w, 1, true);
	assert_int_equal(late(w, 1), -1);
	assert_int_equal(w->err.code, HVD_E_NET);
	assert_in(w->err.msg, "it does not reach the other hosts over their network; it has wlan0");
	assert_string_equal(w->err.host, "name1");
}

/* Names of one machine do not stand in the way of another machine that comes later. */
TEST_IN(another_machine_after_two_names_of_one, struct world *w)
{
	comes(w, 0, 0, "eth0");
	comes(w, 1, 0, "eth0");
	reports(w, 0, true);
	reports(w, 1, true);
	assert_int_equal(first(w, false), 0);
	assert_false(w->plan.local);
	comes(w, 2, 1, "eth0");
	assert_int_equal(reports(w, 2, true), 2);
	assert_int_equal(late(w, 2), 0);
	assert_string_equal(iface_of(w, 2), "eth0");
}

TEST_IN(machine_without_a_network, struct world *w)
{
	comes(w, 0, 0, "");
	reports(w, 0, true);
	assert_int_equal(first(w, false), 0);
	assert_true(w->plan.local);
	comes(w, 1, 0, "");
	reports(w, 1, true);
	assert_int_equal(late(w, 1), 0);
}

TEST_IN(over_loopback, struct world *w)
{
	comes(w, 0, 0, "eth0");
	reports(w, 0, true);
	assert_int_equal(first(w, true), 0);
	assert_int_equal(w->plan.networks.n, 0);
	comes(w, 1, 0, "eth0");
	reports(w, 1, true);
	assert_int_equal(late(w, 1), 0);
	comes(w, 2, 1, "eth0");
	reports(w, 2, true);
	assert_int_equal(late(w, 2), -1);
	assert_in(w->err.msg, "it is another machine, and the ranks of this job are connected over loopback");
	assert_string_equal(w->err.host, "name2");
}

TEST_IN(two_machines_over_loopback, struct world *w)
{
	comes(w, 0, 0, "eth0");
	comes(w, 1, 1, "eth0");
	reports(w, 0, true);
	reports(w, 1, true);
	assert_int_equal(first(w, true), -1);
	assert_int_equal(w->err.code, HVD_E_NET);
}

TEST_IN(networks_of_the_first, struct world *w)
{
	comes(w, 0, 0, "eth0,eth1");
	comes(w, 2, 2, "eth0,eth1"); /* 1 has not come, or is gone */
	assert_int_equal(reports(w, 0, true), 1);
	assert_int_equal(reports(w, 2, true), 1);
	assert_int_equal(first(w, false), 0);
	assert_int_equal(w->plan.networks.n, 2);
	assert_string_equal(iface_of(w, 2), "eth0");

	comes(w, 1, 1, "eth0");
	reports(w, 1, true);
	assert_int_equal(late(w, 1), 0);
	assert_string_equal(iface_of(w, 1), "eth0");
	/* The second network does not keep it out; it has but one interface. */
	assert_int_equal(w->plan.networks.v[1].iface[1], 0);

	comes(w, 3, 3, "eth0");
	reports(w, 3, false);
	assert_int_equal(late(w, 3), -1);
	assert_string_equal(w->err.host, "name3");
	assert_in(w->err.msg, "it does not reach the other hosts over their network; it has eth0");
	assert_in(w->err.hint, "the job goes on without it");
}

TEST_IN(hosts_without_a_network_in_common, struct world *w)
{
	comes(w, 0, 0, "eth0");
	comes(w, 1, 1, "eth0");
	reports(w, 0, true);
	reports(w, 1, false);
	assert_int_equal(first(w, false), -1);
	assert_int_equal(w->err.code, HVD_E_NET);
	assert_in(w->err.msg, "no network interface connects all 2 hosts");
}

/* The others are gone when it comes: their network cannot be tried, but has to be of its kind. */
TEST_IN(comes_when_the_others_are_gone, struct world *w)
{
	comes(w, 0, 0, "eth0");
	reports(w, 0, true);
	assert_int_equal(first(w, false), 0);
	hvd_host_table_leave(&w->roster, 0);
	comes(w, 1, 1, "eth0");
	reports(w, 1, true);
	assert_int_equal(late(w, 1), 0);
	hvd_host_table_leave(&w->roster, 1);
	comes(w, 2, 2, "");
	reports(w, 2, true);
	assert_int_equal(late(w, 2), -1);
}

RUN_TESTS(.setup = setup, .teardown = teardown)
