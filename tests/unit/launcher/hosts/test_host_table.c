/* SPDX-License-Identifier: Apache-2.0 */
/* The driver's bookkeeping and what it plans from it, without sockets. Host I has its relay at port 5000 + I. */
#include "launcher/world/rank_plan.h"

#include "tests/unit/unit.h"

static const struct hvd_launch_spec no_spec = {.frameworks = HVD_FW_HOROVOD};
static const struct hvd_driver_opts no_opts = {.spec = &no_spec};
static const struct hvd_log quiet = {.prog = "test", .level = HVD_LOG_ERROR, .fd = -1};

/* Host `i` of `n` with one rank per number in `ranks`, ib0 and eth0 with an address of each family. */
static json_t *registration(int i, int n, const char *ranks)
{
	char text[1024];

	snprintf(
		text, sizeof(text),
		"{\"t\":\"register\",\"node\":%d,\"nodes\":%d,\"size\":0,\"name\":\"n%d\",\"host\":\"h%d\",\"machine\":"
		"\"%032d\",\"ranks\":%s,\"port\":%d,\"relay\":%d,\"dropped\":\"\",\"ifaces\":["
		"{\"n\":\"ib0\",\"k\":\"infiniband\",\"s\":100000,\"r\":1,\"u\":0,\"a\":[\"10.1.0.%d\",\"fd01::%d\"]},"
		"{\"n\":\"eth0\",\"k\":\"ethernet\",\"s\":1000,\"r\":9,\"u\":-1,\"a\":[\"10.0.0.%d\"]}]}",
		i, n, i, i, i, ranks, 4000 + i, 5000 + i, i + 1, i + 1, i + 1);
	return json_loads(text, 0, NULL);
}

static int put(struct hvd_host_table *roster, json_t *msg, struct hvd_err *err)
{
	uint32_t index = 99;
	int rc = hvd_host_table_register(roster, msg, &index, err);

	if (rc == 0)
		assert_int_equal(index, json_integer_value(json_object_get(msg, "node")));
	json_decref(msg);
	return rc;
}

static int report(struct hvd_host_table *roster, uint32_t host, const char *text, struct hvd_err *err)
{
	json_t *msg = json_loads(text, 0, NULL);
	int rc;

	assert_non_null(msg);
	rc = hvd_host_table_report(roster, host, msg, err);
	json_decref(msg);
	return rc;
}

/* All hosts reach all addresses of all their neighbours from the interface at the same place. */
static void all_report(struct hvd_host_table *roster, int family_only)
{
	static const int iface_of[] = {0, 0, 1}, family_of[] = {4, 6, 4};
	uint32_t to[HVD_MAX_NEIGHBOURS];

	for (uint32_t h = 0; h < roster->n; h++) {
		json_t *edges = json_array(), *msg;
		int n = hvd_network_neighbours(h, roster->n, to);

		for (int k = 0; k < n; k++)
			for (int a = 0; a < 3; a++)
				if (!family_only || family_of[a] == family_only)
					json_array_append_new(edges, json_pack("[I,i,i,i,i]", (json_int_t)to[k], a,
									       iface_of[a], HVD_REACH_OK, 10));
		msg = json_pack("{s:o}", "edges", edges);
		hvd_host_table_enter(roster, h, HVD_STAGE_PROBING);
		assert_int_equal(hvd_host_table_report(roster, h, msg, NULL), 0);
		json_decref(msg);
	}
}

static void filled(struct hvd_host_table *roster, int n)
{
	char ranks[32];

	hvd_host_table_init(roster, 0, 0);
	for (int i = 0; i < n; i++) {
		snprintf(ranks, sizeof(ranks), "[%d,%d]", i, n + i); /* cyclic */
		assert_int_equal(put(roster, registration(i, n, ranks), NULL), 0);
	}
	assert_int_equal(hvd_host_table_count(roster, HVD_STAGE_REGISTERED), n);
}

static const char *value(const json_t *env, const char *name)
{
	const char *text = json_string_value(json_object_get(env, name));

	return text ? text : "(not set)";
}

/* ---- registration ---- */

TEST(the_first_decides)
{
	struct hvd_host_table roster;
	struct hvd_err err = {0};
	char buf[32];

	hvd_host_table_init(&roster, 0, 0);
	assert_int_equal(roster.n, 0);
	assert_int_equal(put(&roster, registration(1, 3, "[1]"), &err), 0);
	assert_int_equal(roster.n, 3);
	assert_int_equal(roster.hosts[1].stage, HVD_STAGE_REGISTERED);
	assert_string_equal(hvd_host_table_name(&roster, 1, buf), "n1");
	assert_fails(put(&roster, registration(0, 2, "[0]"), &err), err, "n0 knows of 2 hosts");
	assert_fails(put(&roster, registration(1, 3, "[0]"), &err), err, "already");
	assert_int_equal(hvd_host_table_count(&roster, HVD_STAGE_REGISTERED), 1);
	hvd_host_table_clear(&roster);
	assert_int_equal(roster.n, 0);
}

TEST(registrations_that_are_refused)
{
	struct hvd_host_table roster;
	struct hvd_err err = {0};
	json_t *msg;

	hvd_host_table_init(&roster, 3, 0);
	for (int i = 0; i < 6; i++) {
		static const char *const keys[] = {"node", "node", "nodes", "nodes", "ranks", "name"};
		json_t *values[] = {json_integer(3),       json_integer(-1), json_integer(0),
				    json_integer(1 << 30), json_string("x"), json_string("")};

		msg = registration(1, 3, "[1]");
		for (int k = 0; k < 6; k++)
			if (k == i)
				json_object_set_new(msg, keys[k], values[k]);
			else
				json_decref(values[k]);
		assert_int_equal(put(&roster, msg, &err), -1);
		assert_true(err.msg[0] != '\0');
		assert_int_equal(hvd_host_table_count(&roster, HVD_STAGE_REGISTERED), 0);
	}
	hvd_host_table_clear(&roster);
}

TEST(restricting)
{
	char *eth[] = {(char *)"eth0", NULL}, *none[] = {(char *)"eth0", (char *)"wlan0", NULL};
	struct hvd_host_table roster;
	struct hvd_err err = {0};
	uint8_t iface = 9;

	filled(&roster, 2);
	assert_fails_with(hvd_host_table_restrict(&roster, 0, none, &err), err, HVD_E_USAGE, "wlan0");
	assert_string_equal(err.host, "n0");
	assert_int_equal(roster.hosts[0].node.n_ifaces, 2); /* nothing was left out */
	assert_int_equal(hvd_host_table_restrict(&roster, 0, eth, &err), 0);
	assert_int_equal(roster.hosts[0].node.n_ifaces, 1);
	assert_string_equal(roster.hosts[0].node.ifaces[0].name, "eth0");
	assert_non_null(hvd_host_table_addr(&roster.hosts[0].node, 0, &iface));
	assert_int_equal(iface, 0);
	assert_null(hvd_host_table_addr(&roster.hosts[0].node, 1, &iface));
	/* The agent's number 1 is our 0; what left by its number 0 counts as unknown. */
	hvd_host_table_enter(&roster, 0, HVD_STAGE_PROBING);
	assert_int_equal(report(&roster, 0, "{\"edges\":[[1,0,1,0,5],[1,0,0,0,5]]}", &err), 0);
	assert_int_equal(roster.edges[0].from_if, 0);
	assert_int_equal(roster.edges[1].from_if, HVD_NO_IFACE);
	hvd_host_table_clear(&roster);
}

/* What one host of two keeps, as hvd_host_info_ifaces_text() has it without what is in brackets. */
static char *kept(const char *a, const char *b)
{
	char *nics[] = {(char *)a, (char *)b, NULL}, *text, *out;
	struct hvd_host_table roster;

	filled(&roster, 2);
	assert_int_equal(hvd_host_table_restrict(&roster, 0, nics, NULL), 0);
	text = hvd_host_info_ifaces_text(&roster.hosts[0].node);
	out = text;
	for (char *c = text, *to = text;; c++) {
		if (*c == '(')
			c = strchr(c, ')') + 1;
		*to++ = *c;
		if (!*c)
			break;
	}
	hvd_host_table_clear(&roster);
	return out;
}

TEST(nics_of_all_kinds)
{
	static const struct {
		const char *a, *b, *kept;
	} cases[] = {
		{"ib*", NULL, "ib0  10.1.0.1 fd01::1"},
		{"^ib*", NULL, "eth0  10.0.0.1"},
		{"10.1.0.0/16", NULL, "ib0  10.1.0.1"},
		{"fd01::/64", NULL, "ib0  fd01::1"},
		{"^10.1.0.0/16", NULL, "ib0  fd01::1; eth0  10.0.0.1"},
		{"eth0", "fd01::/64", "ib0  fd01::1; eth0  10.0.0.1"},
		{"*", "^eth0", "ib0  10.1.0.1 fd01::1"},
		{"lo", NULL, "no interface"},
		{"lo", "eth0", "eth0  10.0.0.1"},
	};
	char *none[] = {(char *)"wl*", (char *)"10.9.0.0/16", NULL};
	struct hvd_host_table roster;
	struct hvd_err err = {0};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char *text = kept(cases[i].a, cases[i].b);

		assert_string_equal(text, cases[i].kept);
		free(text);
	}
	filled(&roster, 2);
	assert_fails_with(hvd_host_table_restrict(&roster, 1, none, &err), err, HVD_E_USAGE, "");
	assert_string_equal(err.host, "n1");
	assert_in(err.msg, "there is no usable interface that matches wl*,10.9.0.0/16 there, only ib0");
	/* An interface is without the address that Gloo takes of it when that is not wanted. */
	none[0] = (char *)"fd01::/64";
	none[1] = NULL;
	assert_int_equal(hvd_host_table_restrict(&roster, 0, none, &err), 0);
	assert_int_equal(roster.hosts[0].node.ifaces[0].first, HVD_NO_ADDR);
	assert_true(roster.ipv6);
	hvd_host_table_clear(&roster);
}

/* A host with more interfaces than are probed: eth0 is the last of them. */
TEST(many_interfaces)
{
	char *nics[] = {(char *)"eth0", (char *)"lost9?", NULL};
	struct hvd_host_table roster;

	for (int named = 0; named < 2; named++) {
		json_t *msg = registration(0, 2, "[0]"), *list = json_object_get(msg, "ifaces");

		for (int i = 0; i < 300; i++)
			json_array_insert_new(list, 0,
					      json_pack("{s:o, s:s, s:i, s:i, s:i, s:[o]}", "n",
							json_sprintf("lost%d", 299 - i), "k", "bridge", "s", 1, "r", i,
							"u", -1, "a",
							json_sprintf("10.%d.%d.1", 20 + i / 200, i % 200)));
		hvd_host_table_init(&roster, 0, 0);
		assert_int_equal(put(&roster, msg, NULL), 0);
		assert_int_equal(roster.hosts[0].node.n_ifaces, 302);
		assert_int_equal(hvd_host_table_restrict(&roster, 0, named ? nics : NULL, NULL), 0);
		if (named) {
			assert_int_equal(roster.hosts[0].node.n_ifaces, 11);
			assert_string_equal(roster.hosts[0].node.ifaces[10].name, "eth0");
			assert_null(roster.hosts[0].node.dropped);
		} else {
			assert_int_equal(roster.hosts[0].node.n_ifaces, HVD_MAX_NICS);
			assert_string_equal(roster.hosts[0].node.dropped,
					    "238 slower than the first 64; name them to use them");
		}
		/* Its report has numbers of its own. */
		assert_int_equal(put(&roster, registration(1, 2, "[1]"), NULL), 0);
		hvd_host_table_enter(&roster, 0, HVD_STAGE_PROBING);
		assert_int_equal(report(&roster, 0,
					"{\"edges\":[[1,0,301,0,5],[1,0,95,0,5],[1,0,-1,2,0]],"
					"\"rendezvous\":[]}",
					NULL),
				 0);
		assert_int_equal(roster.edges[0].from_if, named ? 10 : HVD_NO_IFACE);
		assert_int_equal(roster.edges[1].from_if, named ? 5 : HVD_NO_IFACE);
		assert_int_equal(roster.edges[2].from_if, HVD_NO_IFACE);
		hvd_host_table_clear(&roster);
	}
}

/* Interfaces of one machine's ranks. */
TEST(one_machine_and_nics)
{
	static const struct {
		const char *nics, *gloo, *all;
	} cases[] = {
		{NULL, "lo", "lo"},        {"eth0", "eth0", "eth0"},        {"lo", "lo", "lo"},
		{"^ib0", "lo", "lo,eth0"}, {"10.0.0.0/24", "eth0", "eth0"},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char *nics[] = {(char *)cases[i].nics, NULL};
		struct hvd_host_table roster;
		struct hvd_network_plan plan = {0};
		struct hvd_rank_plan ranks = {.opts = &no_opts, .table = &roster, .networks = &plan};
		json_t *env;

		filled(&roster, 1);
		assert_int_equal(hvd_host_table_restrict(&roster, 0, nics, NULL), 0);
		hvd_host_table_enter(&roster, 0, HVD_STAGE_REPORTED);
		assert_int_equal(hvd_network_plan_make(&plan, &roster, true, &quiet, NULL), 0);
		assert_int_equal(hvd_host_table_layout(&roster, &ranks.layout, NULL), 0);
		env = hvd_rank_plan_env(&ranks, 0);
		assert_string_equal(value(env, "HOROVOD_GLOO_IFACE"), cases[i].gloo);
		assert_in(value(env, "NCCL_SOCKET_IFNAME"), cases[i].all);
		json_decref(env);
		hvd_rank_plan_clear(&ranks);
		hvd_network_plan_clear(&plan);
		hvd_host_table_clear(&roster);
	}
}

TEST(addresses_in_order)
{
	static const struct {
		const char *text;
		uint8_t iface;
	} want[] = {{"10.1.0.1", 0}, {"fd01::1", 0}, {"10.0.0.1", 1}};
	struct hvd_host_table roster;
	char text[HVD_ADDR_TEXT];
	uint8_t iface;

	filled(&roster, 1);
	for (size_t i = 0; i < 3; i++) {
		assert_string_equal(hvd_addr_text(hvd_host_table_addr(&roster.hosts[0].node, i, &iface), text),
				    want[i].text);
		assert_int_equal(iface, want[i].iface);
	}
	assert_null(hvd_host_table_addr(&roster.hosts[0].node, 3, &iface));
	assert_true(hvd_host_table_one_machine(&roster, HVD_STAGE_REGISTERED));
	hvd_host_table_clear(&roster);
	filled(&roster, 2);
	assert_false(hvd_host_table_one_machine(&roster, HVD_STAGE_REGISTERED));
	hvd_host_table_clear(&roster);
}

/* ---- reports ---- */

TEST(reports_that_are_refused)
{
	static const char *const texts[] = {
		"{}",
		"{\"edges\":{}}",
		"{\"edges\":[[]]}",
		"{\"edges\":[5]}",
		"{\"edges\":[[1,0,0,0]]}",
		"{\"edges\":[[1,0,0,0,\"x\"]]}",
		"{\"edges\":[[0,0,0,0,5]]}", /* itself */
		"{\"edges\":[[3,0,0,0,5]]}",
		"{\"edges\":[[1,3,0,0,5]]}",
		"{\"edges\":[[1,0,2,0,5]]}",
		"{\"edges\":[[1,0,0,99,5]]}",
		"{\"edges\":[[1,0,0,-1,5]]}",
		"{\"edges\":[[4294967297,0,0,0,5]]}",
	};
	struct hvd_host_table roster;
	struct hvd_err err;

	filled(&roster, 3);
	assert_fails(report(&roster, 0, "{\"edges\":[]}", &err), err, "without a request");
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		hvd_host_table_enter(&roster, 0, HVD_STAGE_PROBING);
		assert_fails_with(report(&roster, 0, texts[i], &err), err, HVD_E_PROTO, "");
		assert_int_equal(roster.n_edges, 0);
	}
	assert_int_equal(report(&roster, 0, "{\"edges\":[[1,0,-1,2,0]]}", &err), 0);
	assert_int_equal(roster.n_edges, 1);
	assert_int_equal(report(&roster, 0, "{\"edges\":[]}", &err), -1); /* once */
	hvd_host_table_clear(&roster);
}

TEST(what_is_missing)
{
	struct hvd_host_table roster;
	char *text;

	hvd_host_table_init(&roster, 0, 0);
	assert_text(hvd_host_table_missing(&roster), "no registration from any host");
	hvd_host_table_init(&roster, 4, 8);
	hvd_host_table_expect(&roster, 0, "n0");
	hvd_host_table_expect(&roster, 1, "n1");
	put(&roster, registration(2, 4, "[2]"), NULL);
	put(&roster, registration(3, 4, "[3]"), NULL);
	hvd_host_table_enter(&roster, 2, HVD_STAGE_PROBING);
	hvd_host_table_enter(&roster, 3, HVD_STAGE_HERE);
	text = hvd_host_table_missing(&roster);
	assert_in(text, "no registration from n[0-1]");
	assert_in(text, "no probe report from n2");
	assert_null(strstr(text, "n3"));
	free(text);
	hvd_host_table_clear(&roster);
}

/* ---- plans ---- */

TEST(a_plan)
{
	struct hvd_launch_spec spec = {.frameworks = HVD_FW_AUTO, .relay_fan_out = HVD_RELAY_FAN_OUT};
	struct hvd_driver_opts opts = {.spec = &spec};
	struct hvd_host_table roster;
	struct hvd_network_plan plan = {0};
	struct hvd_rank_plan ranks = {.opts = &opts, .table = &roster, .networks = &plan};

	hvd_strv_add(&spec.env, "X=a=b");
	hvd_strv_add(&spec.env, "HOROVOD_CONTROLLER=spec");
	hvd_strv_add(&opts.extra_env, "HOROVOD_CONTROLLER=mine"); /* the launcher's own word is the last */
	filled(&roster, 3);
	all_report(&roster, 0);
	assert_int_equal(hvd_network_plan_make(&plan, &roster, false, &quiet, NULL), 0);
	assert_false(plan.local);
	assert_int_equal(plan.networks.n, 2); /* ib0 speaks both families, and is one */
	assert_int_equal(hvd_host_table_layout(&roster, &ranks.layout, NULL), 0);
	hvd_relays_make(&ranks.relays, 0, &opts, &roster, &quiet);
	for (uint32_t r = 0; r < 6; r++) {
		json_t *env = hvd_rank_plan_env(&ranks, r);

		assert_int_equal(atoi(value(env, "HOROVOD_RANK")), r);
		assert_int_equal(atoi(value(env, "HOROVOD_LOCAL_RANK")), r / 3);
		assert_int_equal(atoi(value(env, "HOROVOD_CROSS_RANK")), r % 3);
		assert_string_equal(value(env, "HOROVOD_GLOO_IFACE"), "ib0");
		assert_string_equal(value(env, "GLOO_SOCKET_IFNAME"), "ib0");
		assert_string_equal(value(env, "NCCL_SOCKET_IFNAME"), "=ib0,eth0");
		assert_string_equal(value(env, "HOROVOD_GLOO_RENDEZVOUS_ADDR"), "127.0.0.1");
		assert_int_equal(atoi(value(env, "HOROVOD_GLOO_RENDEZVOUS_PORT")), 5000 + r % 3);
		assert_string_equal(value(env, "X"), "a=b");
		assert_string_equal(value(env, "HOROVOD_CONTROLLER"), "mine");
		json_decref(env);
	}
	hvd_rank_plan_clear(&ranks);
	hvd_network_plan_clear(&plan);
	hvd_host_table_clear(&roster);
	hvd_strv_free(&spec.env);
	hvd_strv_free(&opts.extra_env);
}

static void reserve(struct hvd_host_info *node, uint32_t n, in_port_t first)
{
	free(node->ports);
	node->ports = calloc(n, sizeof(in_port_t));
	node->n_ports = n;
	for (uint32_t i = 0; i < n; i++)
		node->ports[i] = (in_port_t)(first + i);
}

/* Ports for servers in ranks, which hosts have reserved: two for rank 0, and one for each rank. */
TEST(servers_in_ranks)
{
	struct hvd_launch_spec spec = {.frameworks = HVD_FW_AUTO | HVD_FW_TENSORFLOW,
				       .store = HVD_STORE_RANK0,
				       .relay_fan_out = HVD_RELAY_FAN_OUT};
	struct hvd_driver_opts opts = {.spec = &spec};
	struct hvd_host_table roster;
	struct hvd_network_plan plan = {0};
	struct hvd_rank_plan ranks = {.opts = &opts, .table = &roster, .networks = &plan};
	struct hvd_err err = {0};
	json_t *env;

	hvd_rank_plan_add_ports(&ranks, &ranks.ports);
	assert_int_equal(ranks.ports.stores, 1);
	assert_int_equal(ranks.ports.others, 1);
	assert_int_equal(ranks.ports.each, 1);
	filled(&roster, 3);
	all_report(&roster, 0);
	reserve(&roster.hosts[0].node, 4, 6000);
	reserve(&roster.hosts[1].node, 2, 6010);
	reserve(&roster.hosts[2].node, 2, 6020);
	assert_int_equal(hvd_network_plan_make(&plan, &roster, false, &quiet, NULL), 0);
	assert_int_equal(hvd_host_table_layout(&roster, &ranks.layout, NULL), 0);
	assert_int_equal(hvd_rank_plan_servers(&ranks, &err), 0);
	env = hvd_rank_plan_env(&ranks, 4);
	assert_string_equal(value(env, "MASTER_ADDR"), "10.1.0.1");
	assert_string_equal(value(env, "MASTER_PORT"), "6000");
	assert_string_equal(value(env, "JAX_COORDINATOR_ADDRESS?JAX_COORDINATOR_PORT"), "10.1.0.1:6001");
	assert_string_equal(value(env, "NODE_RANK"), "1");
	assert_string_equal(value(env, "GROUP_WORLD_SIZE"), "3");
	assert_string_equal(value(env, "TF_CONFIG?"),
			    "{\"cluster\": {\"worker\": [\"10.1.0.1:6002\", \"10.1.0.2:6010\", \"10.1.0.3:6020\", "
			    "\"10.1.0.1:6003\", \"10.1.0.2:6011\", \"10.1.0.3:6021\"]}, "
			    "\"task\": {\"type\": \"worker\", \"index\": 4}}");
	json_decref(env);
	/* A host that has too few. */
	reserve(&roster.hosts[2].node, 1, 6020);
	assert_fails_with(hvd_rank_plan_servers(&ranks, &err), err, HVD_E_NET, "");
	assert_string_equal(err.host, "n2");
	/* PyTorch's store in rank 0 cannot do without its port, JAX can. */
	reserve(&roster.hosts[0].node, 0, 0);
	spec.frameworks = HVD_FW_AUTO;
	assert_fails(hvd_rank_plan_servers(&ranks, &err), err, "--store=rank0");
	spec.store = HVD_STORE_AGENT;
	assert_int_equal(hvd_rank_plan_servers(&ranks, &err), 0);
	hvd_relays_make(&ranks.relays, 0, &opts, &roster, &quiet);
	env = hvd_rank_plan_env(&ranks, 4);
	assert_null(json_object_get(env, "JAX_COORDINATOR_ADDRESS?JAX_COORDINATOR_PORT"));
	assert_string_equal(value(env, "MASTER_PORT"), "5001");
	json_decref(env);
	/* In an elastic job rank 0's host may be lost in this moment. */
	hvd_host_table_leave(&roster, 0);
	env = hvd_rank_plan_env(&ranks, 4);
	assert_string_equal(value(env, "RANK"), "4");
	assert_null(json_object_get(env, "JAX_COORDINATOR_ADDRESS?JAX_COORDINATOR_PORT"));
	json_decref(env);
	hvd_rank_plan_clear(&ranks);
	hvd_network_plan_clear(&plan);
	hvd_host_table_clear(&roster);
}

/* Two worlds have their rank 0 on one host: PyTorch's stores come first. */
TEST(servers_of_two_worlds)
{
	struct hvd_launch_spec specs[] = {{.frameworks = HVD_FW_AUTO, .store = HVD_STORE_AGENT},
					  {.frameworks = HVD_FW_AUTO, .store = HVD_STORE_RANK0}};
	struct hvd_driver_opts opts[] = {{.spec = &specs[0]}, {.spec = &specs[1]}};
	struct hvd_host_table roster;
	struct hvd_network_plan plan = {0};
	struct hvd_rank_plan worlds[2];
	struct hvd_rank_ports ports = {0};
	json_t *env;

	filled(&roster, 3);
	all_report(&roster, 0);
	reserve(&roster.hosts[0].node, 3, 6000);
	assert_int_equal(hvd_network_plan_make(&plan, &roster, false, &quiet, NULL), 0);
	for (int w = 0; w < 2; w++) {
		worlds[w] = (struct hvd_rank_plan){.opts = &opts[w], .table = &roster, .networks = &plan};
		hvd_rank_plan_add_ports(&worlds[w], &ports);
		assert_int_equal(hvd_host_table_layout(&roster, &worlds[w].layout, NULL), 0);
	}
	assert_int_equal(ports.stores, 1);
	assert_int_equal(ports.others, 2);
	for (int w = 0; w < 2; w++) {
		worlds[w].ports = ports;
		assert_int_equal(hvd_rank_plan_servers(&worlds[w], NULL), 0);
		env = hvd_rank_plan_env(&worlds[w], 0);
		assert_string_equal(value(env, "JAX_COORDINATOR_ADDRESS?JAX_COORDINATOR_PORT"),
				    w ? "10.1.0.1:6002" : "10.1.0.1:6001");
		if (w)
			assert_string_equal(value(env, "MASTER_PORT"), "6000");
		json_decref(env);
		hvd_rank_plan_clear(&worlds[w]);
	}
	hvd_network_plan_clear(&plan);
	hvd_host_table_clear(&roster);
}

/* Two worlds of which each rank has ports of its own: two of the first, three of the second. */
TEST(ports_of_ranks)
{
	struct hvd_launch_spec spec = {.store = HVD_STORE_OFF};
	struct hvd_driver_opts opts[] = {{.spec = &spec, .role_ports = {.each = 2, .ranks = 2}},
					 {.spec = &spec, .role_ports = {.each = 3, .ranks = 1}}};
	struct hvd_host_table roster;
	struct hvd_network_plan plan = {0};
	struct hvd_rank_plan worlds[2];
	struct hvd_rank_ports ports = {0};
	json_t *env;

	filled(&roster, 2);
	all_report(&roster, 0);
	for (int h = 0; h < 2; h++) {
		struct hvd_host_info *node = &roster.hosts[h].node;

		node->n_role_ports = 7;
		node->role_ports = calloc(7, sizeof(in_port_t));
		for (int i = 0; i < 7; i++)
			node->role_ports[i] = (in_port_t)(7000 + 100 * h + i);
	}
	assert_int_equal(hvd_network_plan_make(&plan, &roster, false, &quiet, NULL), 0);
	for (int w = 0; w < 2; w++) {
		worlds[w] = (struct hvd_rank_plan){.opts = &opts[w], .table = &roster, .networks = &plan};
		hvd_rank_plan_add_ports(&worlds[w], &ports);
		assert_int_equal(hvd_host_table_layout(&roster, &worlds[w].layout, NULL), 0);
	}
	assert_int_equal(ports.roles, 7);
	assert_int_equal(ports.stores + ports.others + ports.each, 0);
	env = hvd_rank_plan_env(&worlds[0], 3); /* the second on host 1 */
	assert_string_equal(value(env, "HVD_PORTS"), "7102,7103");
	json_decref(env);
	env = hvd_rank_plan_env(&worlds[1], 0);
	assert_string_equal(value(env, "HVD_PORTS"), "7004,7005,7006");
	json_decref(env);
	/* There is one rank of this world on a host, and no third host. */
	env = hvd_rank_plan_env(&worlds[1], 3);
	assert_string_equal(value(env, "HVD_PORTS"), "(not set)");
	json_decref(env);
	assert_int_equal(hvd_rank_plan_port(&worlds[1], 1, 0, 2), 7106);
	assert_int_equal(hvd_rank_plan_port(&worlds[1], 1, 0, 3), 0);
	assert_int_equal(hvd_rank_plan_port(&worlds[1], 2, 0, 0), 0);
	for (int w = 0; w < 2; w++)
		hvd_rank_plan_clear(&worlds[w]);
	hvd_network_plan_clear(&plan);
	hvd_host_table_clear(&roster);
}

/* Ranks of an elastic job of Horovod's keep their processes while their numbers change. */
TEST(elastic_jobs)
{
	struct hvd_launch_spec spec = {
		.frameworks = HVD_FW_AUTO | HVD_FW_TENSORFLOW, .elastic = {.on = true}, .max_restarts = -1};
	struct hvd_driver_opts opts = {.spec = &spec};
	struct hvd_rank_plan ranks = {.opts = &opts};
	struct hvd_rank_ports ports = {0};

	hvd_rank_plan_add_ports(&ranks, &ports);
	assert_int_equal(ports.stores + ports.others + ports.each, 0);
	spec.max_restarts = 0;
	hvd_rank_plan_add_ports(&ranks, &ports);
	assert_int_equal(ports.stores, 0);
	assert_int_equal(ports.others, 1); /* JAX's */
	assert_int_equal(ports.each, 0);
}

TEST(a_list_of_workers_that_is_too_long)
{
	struct hvd_launch_spec spec = {.frameworks = HVD_FW_TENSORFLOW};
	struct hvd_rank_slot *slots = calloc(6000, sizeof(*slots));
	struct hvd_host_entry host = {0};
	struct hvd_host_table table = {.n = 1, .hosts = &host};
	struct hvd_driver_opts opts = {.spec = &spec};
	struct hvd_network_plan plan = {.local = true};
	struct hvd_rank_plan ranks = {.opts = &opts,
				      .table = &table,
				      .networks = &plan,
				      .layout = {.size = 6000, .n_hosts = 1, .rank_slots = slots}};
	struct hvd_err err = {0};

	for (int i = 0; i < 6000; i++)
		slots[i] = (struct hvd_rank_slot){.rank = i, .size = 6000, .local_rank = i, .local_size = 1};
	reserve(&host.node, 6000, 10000);
	assert_fails_with(hvd_rank_plan_servers(&ranks, &err), err, HVD_E_USAGE, "TF_CONFIG");
	free(host.node.ports);
	free(ranks.tf_workers);
	free(slots);
}

TEST(no_network_no_plan)
{
	struct hvd_host_table roster;
	struct hvd_err err = {0};
	struct hvd_network_plan plan = {0};

	filled(&roster, 3);
	for (uint32_t h = 0; h < 3; h++)
		hvd_host_table_enter(&roster, h, HVD_STAGE_REPORTED);
	assert_fails_with(hvd_network_plan_make(&plan, &roster, false, &quiet, &err), err, HVD_E_NET, "all 3 hosts");
	assert_in(err.msg, "ib0: does not connect all hosts");
	assert_in(err.msg, "eth0: does not connect all hosts");
	hvd_network_plan_clear(&plan);
	hvd_host_table_clear(&roster);
}

TEST(ranks_that_are_no_layout)
{
	static const char *const second[] = {"[1]", "[3]", "[0]", "[1,1]", "[]"};
	struct hvd_host_table roster;
	struct hvd_err err = {0};
	struct hvd_layout layout = {0};

	for (size_t i = 0; i < sizeof(second) / sizeof(second[0]); i++) {
		hvd_host_table_init(&roster, 2, 0);
		put(&roster, registration(0, 2, "[0,2]"), NULL);
		put(&roster, registration(1, 2, second[i]), NULL);
		assert_int_equal(hvd_host_table_layout(&roster, &layout, &err), i == 0 ? 0 : -1);
		hvd_layout_clear(&layout);
		hvd_host_table_clear(&roster);
	}
}

/* As all_report(), and no address of IPv4 answers. */
static void report_ipv4_silent(struct hvd_host_table *roster)
{
	static const int address[] = {0, 2};
	uint32_t to[HVD_MAX_NEIGHBOURS];

	all_report(roster, 6);
	for (uint32_t h = 0; h < roster->n; h++) {
		json_t *edges = json_array(), *msg = json_pack("{s:o}", "edges", edges);
		int n = hvd_network_neighbours(h, roster->n, to);

		for (int k = 0; k < n; k++)
			for (int a = 0; a < 2; a++)
				json_array_append_new(edges, json_pack("[I,i,i,i,i]", (json_int_t)to[k], address[a], -1,
								       HVD_REACH_SILENT, 0));
		hvd_host_table_enter(roster, h, HVD_STAGE_PROBING);
		assert_int_equal(hvd_host_table_report(roster, h, msg, NULL), 0);
		json_decref(msg);
	}
}

TEST(ipv6_alone_does_not_carry_horovod)
{
	struct hvd_host_table roster;
	struct hvd_network_plan plan = {0};
	struct hvd_err err = {0};

	filled(&roster, 3);
	report_ipv4_silent(&roster);
	assert_fails_with(hvd_network_plan_make(&plan, &roster, false, &quiet, &err), err, HVD_E_NET,
			  "no network interface connects all 3 hosts over IPv4, which Horovod needs");
	assert_in(err.msg, "ib0: n0 -> n1 (10.1.0.2): no answer; IPv6 alone connects all hosts");
	assert_in(err.msg, "eth0: n0 -> n1 (10.0.0.2): no answer");
	hvd_network_plan_clear(&plan);
	/* An MPI brings its own rendezvous. */
	plan.mpi = true;
	assert_int_equal(hvd_network_plan_make(&plan, &roster, false, &quiet, NULL), 0);
	assert_int_equal(plan.networks.n, 1);
	assert_int_equal(plan.networks.v[0].family, 6);
	hvd_network_plan_clear(&plan);
	hvd_host_table_clear(&roster);
}

TEST(what_got_lost_is_asked_for_again)
{
	struct hvd_host_table roster;
	struct hvd_network_plan plan = {.mpi = true};

	filled(&roster, 3);
	report_ipv4_silent(&roster);
	assert_int_equal(hvd_network_plan_make(&plan, &roster, true, &quiet, NULL), 1);
	assert_true(plan.mpi && plan.networks.n == 0);
	hvd_host_table_probe_again(&roster);
	assert_int_equal(hvd_host_table_count(&roster, HVD_STAGE_REPORTED), 0);
	for (uint32_t h = 0; h < 3; h++)
		assert_int_equal(roster.hosts[h].stage, HVD_STAGE_REGISTERED);
	/* Now some IPv4 comes through, and another part of it in the round after that. */
	for (uint32_t part = 0; part < 2; part++) {
		for (uint32_t h = 0; h < 3; h++) {
			char text[256];

			/* ib0, to the next host, then to the one after it. */
			snprintf(text, sizeof(text), "{\"edges\":[[%u,0,0,0,9],[%u,0,-1,2,0]]}", (h + 1 + part) % 3,
				 (h + 2 - part) % 3);
			hvd_host_table_enter(&roster, h, HVD_STAGE_PROBING);
			assert_int_equal(report(&roster, h, text, NULL), 0);
		}
		if (part == 0) {
			assert_int_equal(hvd_network_plan_make(&plan, &roster, true, &quiet, NULL), 1);
			hvd_host_table_probe_again(&roster);
		}
	}
	assert_int_equal(hvd_network_plan_make(&plan, &roster, true, &quiet, NULL), 0);
	assert_int_equal(plan.networks.v[0].family, 4);
	assert_true(plan.networks.v[0].by_name);
	hvd_network_plan_clear(&plan);
	hvd_host_table_clear(&roster);
}

RUN_TESTS()
