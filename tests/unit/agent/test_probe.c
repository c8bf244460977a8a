/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The probe between two agents in one process, in a network namespace of its own. The addresses of the second agent are
 * on the same interface; the first agent does not know that they are addresses of its own machine.
 */
#include "agent/probe.h"

#include "agent/probe_server.h"
#include "lib/base/xalloc.h"

#include "tests/unit/unit.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>

#define HERE  "10.9.0.1"
#define THERE "10.9.0.2"
#define FLOOD 300

static struct agents {
	struct event_base *base;
	struct hvd_host_info node;
	struct hvd_host_iface iface;
	struct hvd_addr addrs[1];
	struct hvd_key key;
	struct hvd_probe *probe;
	struct hvd_probe_server *other; /* of host 1 */
	json_t *report;
	int fds[FLOOD], n_fds;
	bool namespace;
} ag;

static int make_namespace(void **state)
{
	ag.namespace =
		unshare(CLONE_NEWNET) == 0 &&
		system("{ ip link set lo up && ip link add d0 type veth peer name d1 && ip link set d1 up && ip "
		       "addr add " HERE "/24 dev d0 && "
		       "ip addr add " THERE
		       "/24 dev d0 && ip addr add 172.17.0.1/16 dev lo && ip link set d0 up; } >/dev/null 2>&1") == 0;
	return 0;
}

static int open_agents(void **state)
{
	struct hvd_key key;

	if (!ag.namespace)
		return 0;
	ag.base = event_base_new();
	memset(&ag.key, 3, sizeof(ag.key));
	hvd_addr_parse(HERE, &ag.addrs[0]);
	strcpy(ag.iface.name, "d0");
	ag.iface.addrs = ag.addrs;
	ag.iface.n_addrs = 1;
	ag.node.ifaces = &ag.iface;
	ag.node.n_ifaces = 1;
	key = hvd_key_derive(&ag.key, "probe", NULL, 0);
	ag.probe = hvd_probe_create(ag.base, &ag.key, 0, &ag.node, NULL);
	ag.other = hvd_probe_server_create(ag.base, &key, 1, NULL);
	return ag.probe && ag.other ? 0 : -1;
}

static int close_agents(void **state)
{
	if (!ag.namespace)
		return 0;
	while (ag.n_fds)
		close(ag.fds[--ag.n_fds]);
	hvd_probe_destroy(ag.probe);
	hvd_probe_server_destroy(ag.other);
	json_decref(ag.report);
	ag.report = NULL;
	event_base_free(ag.base);
	return 0;
}

static void on_report(json_t *report, void *arg)
{
	assert_null(ag.report);
	ag.report = json_incref(report);
	event_base_loopbreak(ag.base);
}

/* Probe host `to` at an address and port. Returns the result. */
static int64_t probe_at(const char *addr, uint32_t to, in_port_t port, int ms)
{
	json_t *order = json_pack("{s:[{s:I, s:i, s:[s]}], s:i}", "targets", "n", (json_int_t)to, "p", (int)port, "a",
				  addr, "timeout_ms", ms);
	json_t *edge;

	json_decref(ag.report);
	ag.report = NULL;
	assert_int_equal(hvd_probe_run(ag.probe, order, on_report, NULL, NULL), 0);
	json_decref(order);
	event_base_dispatch(ag.base);
	edge = json_array_get(json_object_get(ag.report, "edges"), 0);
	assert_int_equal(json_integer_value(json_array_get(edge, 0)), to);
	return json_integer_value(json_array_get(edge, 3));
}

static int64_t probe(uint32_t to, in_port_t port, int ms)
{
	return probe_at(THERE, to, port, ms);
}

/* Connections that send nothing. */
static void flood(int n)
{
	struct sockaddr_in sin = {.sin_family = AF_INET, .sin_port = htons(hvd_probe_server_port(ag.other))};

	inet_pton(AF_INET, THERE, &sin.sin_addr);
	for (int i = 0; i < n; i++) {
		int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

		assert_int_equal(connect(fd, (struct sockaddr *)&sin, sizeof(sin)), 0);
		ag.fds[ag.n_fds++] = fd;
	}
}

/* A listener that never accepts. */
static in_port_t silent_listener(const char *addr, in_port_t port)
{
	struct sockaddr_in sin = {.sin_family = AF_INET, .sin_port = htons(port)};
	socklen_t len = sizeof(sin);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	inet_pton(AF_INET, addr, &sin.sin_addr);
	assert_int_equal(bind(fd, (struct sockaddr *)&sin, sizeof(sin)), 0);
	assert_int_equal(listen(fd, 64), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&sin, &len), 0);
	ag.fds[ag.n_fds++] = fd;
	return ntohs(sin.sin_port);
}

#define need_namespace()                                                                                               \
	do {                                                                                                           \
		if (!ag.namespace)                                                                                     \
			skip_because("no network namespace can be made here");                                         \
	} while (0)

TEST(what_is_reached_and_what_not)
{
	need_namespace();
	assert_int_equal(probe(1, hvd_probe_server_port(ag.other), 5000), HVD_REACH_OK);
	assert_int_equal(json_integer_value(json_array_get(json_array_get(json_object_get(ag.report, "edges"), 0), 2)),
			 0); /* by its interface d0 */
	assert_int_equal(probe(2, hvd_probe_server_port(ag.other), 5000), HVD_REACH_STRANGER);
	assert_int_equal(probe(1, 1, 5000), HVD_REACH_REFUSED);
	assert_int_equal(probe(1, silent_listener(THERE, 0), 700), HVD_REACH_SILENT);
	/* Orders one after the other; one of them is empty. */
	assert_int_equal(probe(1, hvd_probe_server_port(ag.other), 5000), HVD_REACH_OK);
}

/* Every host has 172.17.0.1: an agent does not connect to it, and does not wait for it. */
TEST(nobody_asks_himself)
{
	struct hvd_addr own[2];
	json_t *order, *edges;
	in_port_t port;
	hvd_time began;

	need_namespace();
	hvd_addr_parse(HERE, &own[0]);
	hvd_addr_parse("172.17.0.1", &own[1]); /* of an interface that the probe does not use */
	ag.node.own = own;
	ag.node.n_own = 2;
	port = silent_listener(HERE, 0);
	silent_listener("172.17.0.1", port);
	silent_listener("127.0.0.1", port);
	order = json_pack("{s:[{s:i, s:i, s:[s,s,s]}], s:i}", "targets", "n", 1, "p", (int)port, "a", HERE,
			  "172.17.0.1", "127.0.0.1", "timeout_ms", 60000);
	began = hvd_now();
	assert_int_equal(hvd_probe_run(ag.probe, order, on_report, NULL, NULL), 0);
	event_base_dispatch(ag.base);
	assert_true(hvd_now() - began < 30 * INT64_C(1000000000));
	edges = json_object_get(ag.report, "edges");
	assert_int_equal(json_array_size(edges), 3);
	for (size_t i = 0; i < 3; i++)
		assert_int_equal(json_integer_value(json_array_get(json_array_get(edges, i), 3)), HVD_REACH_DUPLICATE);
	/* It does if the target is on this machine, as another name of it. */
	json_decref(ag.report);
	ag.report = NULL;
	json_object_set_new(json_array_get(json_object_get(order, "targets"), 0), "here", json_true());
	json_object_set_new(order, "timeout_ms", json_integer(100));
	assert_int_equal(hvd_probe_run(ag.probe, order, on_report, NULL, NULL), 0);
	event_base_dispatch(ag.base);
	edges = json_object_get(ag.report, "edges");
	assert_int_equal(json_integer_value(json_array_get(json_array_get(edges, 0), 3)), HVD_REACH_SILENT);
	for (size_t i = 1; i < 3; i++)
		assert_int_equal(json_integer_value(json_array_get(json_array_get(edges, i), 3)), HVD_REACH_SOURCE);
	json_decref(order);
	ag.node.own = NULL;
	ag.node.n_own = 0;
}

/* A process at an address that is taken for the other host's forwards all messages, even from this host's address. */
TEST(whoever_passes_it_on_is_found_out)
{
	in_port_t port = hvd_probe_server_port(ag.other);

	need_namespace();
	if (system("nft add table ip t && nft 'add chain ip t o { type nat hook output priority -100; }' && "
		   "nft 'add rule ip t o ip daddr 10.9.0.3 dnat to " THERE "' 2>/dev/null") != 0)
		skip_because("no address can be translated here");
	assert_int_equal(probe_at("10.9.0.3", 1, port, 5000), HVD_REACH_NAT);
	assert_int_equal(probe(1, port, 5000), HVD_REACH_OK);
}

/* One that is left out takes its place in the list, so the others keep their numbers. */
TEST(empty_addresses_are_not_tried)
{
	json_t *order, *edges;

	need_namespace();
	order = json_pack("{s:[{s:i, s:i, s:[s,s,s]}], s:i}", "targets", "n", 1, "p",
			  (int)hvd_probe_server_port(ag.other), "a", "", THERE, "", "timeout_ms", 5000);
	assert_int_equal(hvd_probe_run(ag.probe, order, on_report, NULL, NULL), 0);
	json_decref(order);
	event_base_dispatch(ag.base);
	edges = json_object_get(ag.report, "edges");
	assert_int_equal(json_array_size(edges), 1);
	assert_int_equal(json_integer_value(json_array_get(json_array_get(edges, 0), 1)), 1);
	assert_int_equal(json_integer_value(json_array_get(json_array_get(edges, 0), 3)), HVD_REACH_OK);
}

TEST(orders_that_are_refused)
{
	static const char *const orders[] = {
		"{}",
		"{\"targets\":[],\"timeout_ms\":0}",
		"{\"targets\":[{\"n\":1,\"p\":0,\"a\":[\"10.9.0.2\"]}],\"timeout_ms\":9}",
		"{\"targets\":[{\"n\":1,\"p\":9,\"a\":[\"10.9.0.2\",\"x\"]}],\"timeout_ms\":9}",
		"{\"targets\":[{\"n\":1,\"p\":9,\"a\":[1]}],\"timeout_ms\":9}",
		"{\"targets\":[{\"n\":1,\"p\":70000,\"a\":[\"10.9.0.2\"]}],\"timeout_ms\":9}",
		"{\"targets\":[[]],\"timeout_ms\":9}",
	};

	need_namespace();
	for (size_t i = 0; i < sizeof(orders) / sizeof(orders[0]); i++) {
		json_t *order = json_loads(orders[i], 0, NULL);
		struct hvd_err err = {0};

		assert_non_null(order);
		assert_fails_with(hvd_probe_run(ag.probe, order, on_report, NULL, &err), err, HVD_E_PROTO, "");
		json_decref(order);
	}
	/* Several attempts at the same time do not disturb each other. */
	assert_int_equal(probe(1, hvd_probe_server_port(ag.other), 5000), HVD_REACH_OK);
}

TEST(connections_wait_their_turn)
{
	int before;

	need_namespace();
	flood(100);
	before = open_fds();
	event_base_loop(ag.base, EVLOOP_ONCE | EVLOOP_NONBLOCK);
	assert_int_in_range(open_fds() - before, 1, 40);
}

TEST(strangers_push_out_themselves)
{
	int before = 0;

	need_namespace();
	before = open_fds();
	flood(FLOOD);
	for (int i = 0; i < 50; i++)
		event_base_loop(ag.base, EVLOOP_ONCE | EVLOOP_NONBLOCK);
	/* The responder keeps so many connections of one address at most. */
	assert_int_in_range(open_fds() - before - FLOOD, 1, 64);
	assert_int_equal(probe(1, hvd_probe_server_port(ag.other), 5000), HVD_REACH_OK);
}

RUN_TESTS(.setup = open_agents, .teardown = close_agents, .group_setup = make_namespace)
