/* SPDX-License-Identifier: Apache-2.0 */
/* Where relays are used, the tree that they make, and what hosts and ranks are told of it. */
#include "launcher/world/rank_plan.h"

#include "tests/unit/unit.h"

static const struct hvd_log quiet = {.prog = "test", .level = HVD_LOG_ERROR, .fd = -1};

/* ---- trees ---- */

struct launch {
	struct hvd_launch_spec spec;
	struct hvd_driver_opts opts;
	struct hvd_host_table table;
	struct hvd_relays relays;
};

/* `n` hosts. The rendezvous is on a machine of its own. */
static void begin(struct launch *l, uint32_t n)
{
	memset(l, 0, sizeof(*l));
	l->spec.frameworks = HVD_FW_AUTO;
	l->spec.relay_fan_out = HVD_RELAY_FAN_OUT;
	l->opts.spec = &l->spec;
	hvd_host_table_init(&l->table, n, n);
	for (uint32_t h = 0; h < n; h++) {
		struct hvd_host_info *node = &l->table.hosts[h].node;
		char name[16];

		snprintf(name, sizeof(name), "n%u", h);
		node->name = strdup(name);
		snprintf(node->machine, sizeof(node->machine), "%u", h);
		node->relays = calloc(1, sizeof(*node->relays));
		node->relays[node->n_relays++] = (struct hvd_relay_ports){.loopback = 4000, .children = 4001};
		hvd_host_table_enter(&l->table, h, HVD_STAGE_REPORTED);
	}
}

static void make(struct launch *l)
{
	hvd_relays_make(&l->relays, 0, &l->opts, &l->table, &quiet);
}

static void end(struct launch *l)
{
	hvd_relays_clear(&l->relays);
	hvd_host_table_clear(&l->table);
}

/* All relays reach the root, in so many steps at most, and no parent has more children than it may. */
static uint32_t check_tree(const struct launch *l, uint32_t fan_out)
{
	uint32_t *children = calloc(l->table.n, sizeof(*children)), of_root = 0, deepest = 0, n = 0;

	for (uint32_t h = 0; h < l->table.n; h++) {
		uint32_t depth = 1;

		if (!hvd_relays_at(&l->relays, h))
			continue;
		n++;
		for (int32_t at = (int32_t)h; l->relays.place[at].parent != HVD_RELAY_PARENT_ROOT; depth++) {
			at = l->relays.place[at].parent;
			assert_true(at >= 0 && (uint32_t)at < l->table.n && depth < 10);
		}
		if (l->relays.place[h].parent == HVD_RELAY_PARENT_ROOT)
			of_root++;
		else
			children[l->relays.place[h].parent]++;
		deepest = depth > deepest ? depth : deepest;
	}
	assert_true(of_root <= fan_out);
	for (uint32_t h = 0; h < l->table.n; h++) {
		assert_true(children[h] <= fan_out);
		assert_int_equal(children[h], l->relays.place[h].children);
	}
	free(children);
	assert_true(n > 0);
	return deepest;
}

TEST(trees)
{
	static const struct {
		uint32_t hosts, fan_out, deepest;
	} cases[] = {
		{1, 32, 1},    {32, 32, 1},    {33, 32, 2},    {1024, 32, 2}, {1056, 32, 2},
		{1057, 32, 3}, {10000, 32, 3}, {30000, 32, 3}, {7, 2, 3},     {5, 1, 5},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct launch l;

		begin(&l, cases[i].hosts);
		l.spec.relay_fan_out = (int)cases[i].fan_out;
		make(&l);
		assert_int_equal(check_tree(&l, cases[i].fan_out), cases[i].deepest);
		end(&l);
	}
}

/* Every host; and one that cannot have children gets none. */
TEST(who_has_a_relay)
{
	struct launch l;

	begin(&l, 7);
	l.spec.relay_fan_out = 2;
	snprintf(l.table.hosts[0].node.machine, sizeof(l.table.hosts[0].node.machine), "root");
	make(&l);
	assert_true(hvd_relays_at(&l.relays, 0));
	assert_false(hvd_relays_at(&l.relays, 7));
	check_tree(&l, 2);
	assert_int_equal(l.relays.place[0].parent, HVD_RELAY_PARENT_ROOT);
	assert_int_equal(l.relays.place[1].parent, HVD_RELAY_PARENT_ROOT);
	assert_int_equal(l.relays.place[2].parent, 0);
	assert_int_equal(l.relays.place[6].parent, 2);
	end(&l);

	begin(&l, 5);
	l.spec.relay_fan_out = 2;
	l.table.hosts[0].node.relays[0].children = 0;
	make(&l);
	assert_int_equal(l.relays.place[2].parent, HVD_RELAY_PARENT_ROOT);
	assert_int_equal(l.relays.place[4].parent, 1);
	end(&l);
}

/* ---- the network ---- */

/* What is decided; the tree is gone again. */
static bool open_to_network(struct launch *l)
{
	bool network;

	make(l);
	for (uint32_t h = 0; h < l->table.n; h++)
		assert_true(hvd_relays_at(&l->relays, h));
	network = l->relays.network;
	hvd_relays_clear(&l->relays);
	return network;
}

/* For ranks of PyTorch that use the launch's store. */
TEST(when_one_is_open_to_the_network)
{
	struct launch l;

	begin(&l, 3);
	assert_true(hvd_relays_have_network(&l.opts));
	assert_true(open_to_network(&l));
	l.spec.store = HVD_STORE_RANK0;
	assert_false(hvd_relays_have_network(&l.opts));
	assert_false(open_to_network(&l));
	l.spec.store = HVD_STORE_AGENT;
	l.spec.frameworks = HVD_FW_HOROVOD;
	assert_false(open_to_network(&l));
	l.spec.frameworks = HVD_FW_AUTO;
	l.spec.elastic.on = true;
	l.spec.max_restarts = -1; /* Horovod's kind */
	assert_false(open_to_network(&l));
	l.spec.max_restarts = 3;
	assert_true(open_to_network(&l));
	l.opts.loopback = true;
	assert_false(hvd_relays_have_network(&l.opts));
	assert_false(open_to_network(&l));
	end(&l);
}

/* ---- hosts that come and go ---- */

TEST(hosts_come_and_go)
{
	uint32_t first, *origins;
	struct launch l;
	size_t n;

	begin(&l, 3);
	l.spec.elastic.on = true;
	make(&l);
	first = l.relays.place[1].relay_id;
	origins = hvd_relays_ids(&l.relays, &n);
	assert_int_equal(n, 3);
	free(origins);
	hvd_relays_leave(&l.relays, 1);
	assert_false(hvd_relays_at(&l.relays, 1));
	origins = hvd_relays_ids(&l.relays, &n);
	assert_int_equal(n, 2);
	assert_true(origins[0] != first && origins[1] != first);
	free(origins);
	/* Comes again: another relay. */
	hvd_relays_join(&l.relays, &l.table, 1);
	assert_true(l.relays.place[1].relay_id != first);
	assert_int_equal(l.relays.place[1].parent, HVD_RELAY_PARENT_ROOT);
	/* A new one, in a longer table. */
	hvd_host_table_expect(&l.table, 6, "n6");
	hvd_relays_join(&l.relays, &l.table, 6);
	assert_true(hvd_relays_at(&l.relays, 6));
	assert_false(hvd_relays_at(&l.relays, 5));
	hvd_relays_leave(&l.relays, 99);
	end(&l);
}

/* ---- what hosts and ranks are told ---- */

static void register_host(struct hvd_host_table *table, int i, int n, const char *more)
{
	char text[1024];
	uint32_t index;
	json_t *msg;

	snprintf(text, sizeof(text),
		 "{\"t\":\"register\",\"node\":%d,\"nodes\":%d,\"size\":0,\"name\":\"n%d\",\"host\":\"h%d\","
		 "\"machine\":\"%032d\",\"ranks\":[%d],\"port\":4000,\"dropped\":\"\",\"ifaces\":[{\"n\":\"eth0\","
		 "\"k\":\"ethernet\",\"s\":1000,\"r\":9,\"u\":-1,\"a\":[\"10.0.0.%d\"]}]%s}",
		 i, n, i, i, i, i, i + 1, more);
	msg = json_loads(text, 0, NULL);
	assert_non_null(msg);
	assert_int_equal(hvd_host_table_register(table, msg, &index, NULL), 0);
	json_decref(msg);
}

static void all_report(struct hvd_host_table *table)
{
	uint32_t to[HVD_MAX_NEIGHBOURS];

	for (uint32_t h = 0; h < table->n; h++) {
		json_t *edges = json_array(), *msg;
		int n = hvd_network_neighbours(h, table->n, to);

		for (int k = 0; k < n; k++)
			json_array_append_new(edges,
					      json_pack("[I,i,i,i,i]", (json_int_t)to[k], 0, 0, HVD_REACH_OK, 10));
		msg = json_pack("{s:o}", "edges", edges);
		hvd_host_table_enter(table, h, HVD_STAGE_PROBING);
		assert_int_equal(hvd_host_table_report(table, h, msg, NULL), 0);
		json_decref(msg);
	}
}

static json_int_t number(const json_t *msg, const char *key)
{
	assert_true(json_is_integer(json_object_get(msg, key)));
	return json_integer_value(json_object_get(msg, key));
}

static const char *first(const json_t *msg, const char *key)
{
	assert_int_equal(json_array_size(json_object_get(msg, key)), 1);
	return json_string_value(json_array_get(json_object_get(msg, key), 0));
}

static void check_env(const struct hvd_rank_plan *plan, uint32_t rank, const char *port, const char *master,
		      const char *master_port)
{
	json_t *env = hvd_rank_plan_env(plan, rank);

	assert_string_equal(json_string_value(json_object_get(env, "MASTER_ADDR")), master);
	assert_string_equal(json_string_value(json_object_get(env, "MASTER_PORT")), master_port);
	assert_string_equal(json_string_value(json_object_get(env, "HOROVOD_GLOO_RENDEZVOUS_ADDR")), "127.0.0.1");
	assert_string_equal(json_string_value(json_object_get(env, "HOROVOD_GLOO_RENDEZVOUS_PORT")), port);
	json_decref(env);
}

/* Three hosts in a chain. */
struct told {
	struct hvd_launch_spec spec;
	struct hvd_driver_opts opts;
	struct hvd_host_table table;
	struct hvd_network_plan networks;
	struct hvd_rank_plan plan;
};

/* `network`: rank 0's host has the descriptors for a relay that listens on the network. */
static void plan_it(struct told *t, bool network)
{
	*t = (struct told){.spec = {.frameworks = HVD_FW_AUTO, .relay_fan_out = 1}};
	t->opts.spec = &t->spec;
	hvd_host_table_init(&t->table, 0, 0);
	register_host(&t->table, 0, 3,
		      network ? ",\"relay\":4442,\"relay_network\":4443,\"relay_children\":4441"
			      : ",\"relay\":4442,\"relay_children\":4441");
	register_host(&t->table, 1, 3, ",\"relay\":4444,\"relay_children\":4445");
	register_host(&t->table, 2, 3, ",\"relay\":4446");
	all_report(&t->table);
	assert_int_equal(hvd_network_plan_make(&t->networks, &t->table, false, &quiet, NULL), 0);
	t->plan = (struct hvd_rank_plan){.opts = &t->opts, .table = &t->table, .networks = &t->networks};
	assert_int_equal(hvd_host_table_layout(&t->table, &t->plan.layout, NULL), 0);
	assert_null(hvd_rank_plan_relay(&t->plan, 1));
	hvd_relays_make(&t->plan.relays, 0, &t->opts, &t->table, &quiet);
}

static void forget(struct told *t)
{
	hvd_rank_plan_clear(&t->plan);
	hvd_network_plan_clear(&t->networks);
	hvd_host_table_clear(&t->table);
}

TEST(what_is_told)
{
	struct told t;
	json_t *msg;

	plan_it(&t, false);
	msg = hvd_rank_plan_relay(&t.plan, 0);
	assert_string_equal(json_string_value(json_object_get(msg, "addr")), "10.0.0.1");
	assert_null(json_object_get(msg, "up")); /* it reaches the root by the connection to the driver */
	assert_null(json_object_get(msg, "network"));
	json_decref(msg);
	msg = hvd_rank_plan_relay(&t.plan, 1);
	assert_string_equal(json_string_value(json_object_get(msg, "addr")), "10.0.0.2");
	assert_string_equal(first(msg, "up"), "10.0.0.1");
	assert_int_equal(number(msg, "port"), 4441);
	assert_true(json_is_true(json_object_get(msg, "children")));
	json_decref(msg);
	msg = hvd_rank_plan_relay(&t.plan, 2);
	assert_string_equal(json_string_value(json_object_get(msg, "addr")), "10.0.0.3");
	assert_string_equal(first(msg, "up"), "10.0.0.2");
	assert_int_equal(number(msg, "port"), 4445);
	assert_true(json_is_false(json_object_get(msg, "children")));
	assert_int_equal(number(msg, "relay_id"), t.plan.relays.place[2].relay_id);
	json_decref(msg);

	check_env(&t.plan, 0, "4442", "127.0.0.1", "4442");
	check_env(&t.plan, 1, "4444", "127.0.0.1", "4444");
	check_env(&t.plan, 2, "4446", "127.0.0.1", "4446");
	forget(&t);
}

static int count_addrs(const struct hvd_rank_plan *plan)
{
	json_t *addrs = hvd_rank_plan_host_addrs(plan);
	const int n = (int)json_array_size(addrs);

	json_decref(addrs);
	return n;
}

/* Ranks of PyTorch find the store at rank 0's host, which only the job's hosts may come to. */
TEST(what_is_told_of_the_network)
{
	struct told t;
	json_t *msg, *from;

	plan_it(&t, true);
	assert_int_equal(hvd_rank_plan_open_relay(&t.plan), 0);
	msg = hvd_rank_plan_relay(&t.plan, 0);
	from = json_object_get(msg, "network");
	assert_int_equal(json_array_size(from), 3);
	for (size_t i = 0; i < 3; i++) {
		char text[16];

		snprintf(text, sizeof(text), "10.0.0.%zu", i + 1);
		assert_string_equal(json_string_value(json_array_get(from, i)), text);
	}
	json_decref(msg);
	msg = hvd_rank_plan_relay(&t.plan, 1);
	assert_null(json_object_get(msg, "network"));
	json_decref(msg);
	check_env(&t.plan, 0, "4442", "10.0.0.1", "4443");
	check_env(&t.plan, 2, "4446", "10.0.0.1", "4443");
	/* It has not the descriptors for all ranks. */
	t.table.hosts[0].node.relays[0].network = 0;
	assert_int_equal(hvd_rank_plan_open_relay(&t.plan), -1);
	check_env(&t.plan, 2, "4446", "127.0.0.1", "4446");
	/* Hosts of other worlds, where there are some. */
	t.plan.layout.hosts[2].n = 0;
	assert_int_equal(count_addrs(&t.plan), 2);
	t.plan.job_store = 2;
	assert_int_equal(count_addrs(&t.plan), 3);
	forget(&t);
}

RUN_TESTS()
