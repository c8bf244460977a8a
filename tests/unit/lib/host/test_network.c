/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Networks found in synthetic probe results. A graph is built from "what is plugged into what": each interface of each
 * host hangs on a segment, and interfaces of one segment reach each other.
 */
#include "lib/host/network.h"

#include "tests/unit/unit.h"

#define HOSTS  9
#define IFACES 4
#define EDGES  4096

struct graph {
	uint32_t n;
	struct hvd_host_info nodes[HOSTS];
	struct hvd_host_iface ifaces[HOSTS][IFACES];
	struct hvd_addr addrs[HOSTS][IFACES][2];
	char names[HOSTS][16];
	struct hvd_edge edges[EDGES];
	size_t n_edges;
};

static void graph_init(struct graph *g, uint32_t n)
{
	memset(g, 0, sizeof(*g));
	g->n = n;
	for (uint32_t h = 0; h < n; h++) {
		snprintf(g->names[h], sizeof(g->names[h]), "h%u", h);
		g->nodes[h].name = g->names[h];
		g->nodes[h].ifaces = g->ifaces[h];
	}
}

/* `addr` may be two, separated by a blank. */
static int plug(struct graph *g, uint32_t h, const char *name, int64_t ranking, const char *addr)
{
	int i = g->nodes[h].n_ifaces++;
	struct hvd_host_iface *iface = &g->ifaces[h][i];
	char one[64], two[64] = "";

	snprintf(iface->name, sizeof(iface->name), "%s", name);
	iface->ranking = ranking;
	iface->addrs = g->addrs[h][i];
	sscanf(addr, "%63s %63s", one, two);
	assert_int_equal(hvd_addr_parse(one, &iface->addrs[iface->n_addrs++]), 0);
	if (*two)
		assert_int_equal(hvd_addr_parse(two, &iface->addrs[iface->n_addrs++]), 0);
	return i;
}

static struct hvd_edge *edge(struct graph *g, uint32_t from, int from_if, uint32_t to, int to_if, int family,
			     enum hvd_reach result)
{
	struct hvd_edge *e = &g->edges[g->n_edges++];

	assert_true(g->n_edges <= EDGES);
	*e = (struct hvd_edge){.from = from,
			       .to = to,
			       .from_if = (uint8_t)from_if,
			       .to_if = (uint8_t)to_if,
			       .family = (uint8_t)family,
			       .result = result,
			       .rtt_us = result == HVD_REACH_OK ? 100 : 0};
	return e;
}

/* Every neighbour reaches interface `ifs[to]` from its own ifs[from]. */
static void segment(struct graph *g, const int *ifs, int family)
{
	uint32_t to[HVD_MAX_NEIGHBOURS];

	for (uint32_t h = 0; h < g->n; h++) {
		int k = hvd_network_neighbours(h, g->n, to);

		for (int i = 0; i < k; i++)
			edge(g, h, ifs[h], to[i], ifs[to[i]], family, HVD_REACH_OK);
	}
}

static struct hvd_networks solve(struct graph *g)
{
	struct hvd_networks nets;

	hvd_networks_find(g->nodes, g->n, g->edges, g->n_edges, &nets);
	return nets;
}

static struct hvd_networks solve_to(struct graph *g, int n)
{
	struct hvd_networks nets = solve(g);

	assert_int_equal(nets.n, n);
	return nets;
}

static char *explain(const struct graph *g, const struct hvd_networks *nets)
{
	return hvd_networks_explain(g->nodes, g->n, g->edges, g->n_edges, nets);
}

/* The reasons for what is no network have this part, or are this text. */
static void explains(const struct graph *g, const struct hvd_networks *nets, const char *part)
{
	char *why = explain(g, nets);

	assert_in(why, part);
	free(why);
}

static void explains_only(const struct graph *g, const struct hvd_networks *nets, const char *text)
{
	char *why = explain(g, nets);

	assert_string_equal(why, text);
	free(why);
}

/* ---- neighbours ---- */

static bool is_neighbour(uint32_t i, uint32_t k, uint32_t n)
{
	uint32_t to[HVD_MAX_NEIGHBOURS];
	int count = hvd_network_neighbours(i, n, to);

	for (int c = 0; c < count; c++)
		if (to[c] == k)
			return true;
	return false;
}

TEST(neighbours)
{
	static const uint32_t sizes[] = {1, 2, 3, 4, 5, 7, 8, 9, 16, 31, 100, 1023, 65536};
	uint32_t to[HVD_MAX_NEIGHBOURS];

	for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++) {
		uint32_t n = sizes[s];

		for (uint32_t i = 0; i<n; i += n> 1000 ? n / 100 : 1) {
			int count = hvd_network_neighbours(i, n, to);

			assert_int_in_range(count, n > 1 ? 1 : 0, HVD_MAX_NEIGHBOURS);
			for (int c = 0; c < count; c++) {
				assert_true(to[c] < n && to[c] != i);
				assert_true(is_neighbour(to[c], i, n)); /* both directions are probed */
				for (int d = 0; d < c; d++)
					assert_int_not_equal(to[c], to[d]);
			}
			if (n > 1)
				assert_true(is_neighbour(i, (i + 1) % n, n));
		}
	}
}

/* ---- examples ---- */

TEST(one_network)
{
	static const int ifs[HOSTS] = {0};
	struct hvd_networks nets;
	struct graph g;

	for (uint32_t n = 2; n <= HOSTS; n++) {
		graph_init(&g, n);
		for (uint32_t h = 0; h < n; h++)
			plug(&g, h, "eth0", 5 + h, "10.0.0.1");
		segment(&g, ifs, 4);
		nets = solve_to(&g, 1);
		assert_int_equal(nets.v[0].family, 4);
		assert_int_equal(nets.v[0].ranking, 5 + n - 1); /* as good as its worst member */
		assert_int_equal(nets.v[0].rtt_us, 100);
		explains_only(&g, &nets, "");
		hvd_networks_clear(&nets);
	}
	hvd_networks_clear(&nets);
	hvd_networks_clear(NULL);
}

/* docker0 has the same address on every host, and each finds itself there. */
TEST(equal_docker_addresses)
{
	static const int eth[HOSTS] = {0};
	struct hvd_networks nets;
	struct graph g;

	graph_init(&g, 3);
	for (uint32_t h = 0; h < 3; h++) {
		plug(&g, h, "eth0", 10, "10.0.0.1");
		plug(&g, h, "docker0", 1, "172.17.0.1"); /* would be the better one */
	}
	segment(&g, eth, 4);
	for (uint32_t h = 0; h < 3; h++)
		for (uint32_t d = 1; d < 3; d++)
			edge(&g, h, HVD_NO_IFACE, (h + d) % 3, 1, 4, HVD_REACH_DUPLICATE);
	nets = solve_to(&g, 1);
	assert_int_equal(nets.v[0].iface[0], 0);
	explains(&g, &nets, "docker0: h");
	explains(&g, &nets, "(172.17.0.1)");
	explains(&g, &nets, "same address");
	hvd_networks_clear(&nets);
}

TEST(names_differ_from_host_to_host)
{
	static const char *const names[] = {"eth0", "ens3", "enp1s0f0"};
	static const int ifs[HOSTS] = {0, 1, 0};
	struct hvd_networks nets;
	struct graph g;

	graph_init(&g, 3);
	for (uint32_t h = 0; h < 3; h++) {
		if (ifs[h])
			plug(&g, h, "eth0", 1, "192.168.0.1"); /* the name of another host's good one, but elsewhere */
		plug(&g, h, names[h], 10, "10.0.0.1");
	}
	segment(&g, ifs, 4);
	nets = solve_to(&g, 1);
	for (uint32_t h = 0; h < 3; h++)
		assert_int_equal(nets.v[0].iface[h], ifs[h]);
	hvd_networks_clear(&nets);
}

/* Any single attempt that fails, in one direction only, ends the network. */
TEST(one_way_edges)
{
	static const int ifs[HOSTS] = {0};
	struct hvd_networks nets;
	struct graph g;
	size_t n_edges;

	graph_init(&g, 5);
	for (uint32_t h = 0; h < 5; h++)
		plug(&g, h, "eth0", 10, "10.0.0.1");
	segment(&g, ifs, 4);
	n_edges = g.n_edges;
	for (size_t e = 0; e < n_edges; e++)
		for (int result = HVD_REACH_REFUSED; result < HVD_REACH_N; result++) {
			struct graph bad = g;

			bad.edges[e].result = (uint8_t)result;
			for (uint32_t h = 0; h < 5; h++) {
				bad.nodes[h].ifaces = bad.ifaces[h];
				bad.ifaces[h][0].addrs = bad.addrs[h][0];
			}
			nets = solve_to(&bad, 0);
			explains(&bad, &nets, hvd_reach_text((enum hvd_reach)result));
		}
	/* An attempt that never was made explains it, too. */
	g.edges[3] = g.edges[--g.n_edges];
	nets = solve_to(&g, 0);
	explains(&g, &nets, "eth0: does not connect all hosts");
}

TEST(an_interface_that_one_host_lacks)
{
	struct hvd_networks nets;
	struct graph g;

	graph_init(&g, 4);
	for (uint32_t h = 0; h < 4; h++)
		if (h != 2)
			plug(&g, h, "ib0", 1, "10.1.0.1");
	g.nodes[2].dropped = (char *)"ib0 (is down)";
	for (uint32_t h = 0; h < 4; h++)
		for (uint32_t k = 0; k < 4; k++)
			if (h != k && h != 2 && k != 2)
				edge(&g, h, 0, k, 0, 4, HVD_REACH_OK);
	nets = solve_to(&g, 0);
	explains(&g, &nets, "ib0: not usable on h2");
	explains(&g, &nets, "on h2 not checked: ib0 (is down)");
}

TEST(ipv6_only)
{
	static const int ifs[HOSTS] = {0};
	struct hvd_networks nets;
	struct graph g;

	graph_init(&g, 4);
	for (uint32_t h = 0; h < 4; h++)
		plug(&g, h, "eth0", 10, "fd00::1");
	segment(&g, ifs, 6);
	nets = solve_to(&g, 1);
	assert_int_equal(nets.v[0].family, 6);
	hvd_networks_clear(&nets);
}

/* Gloo is told an interface's name, and takes the first address of it. */
TEST(the_address_that_gloo_takes)
{
	static const int zero[HOSTS] = {0}, one[HOSTS] = {1, 1, 1};
	struct hvd_networks nets;
	struct graph g;

	graph_init(&g, 3);
	for (uint32_t h = 0; h < 3; h++) {
		plug(&g, h, "ib0", 1, "192.168.9.9 10.2.0.1");
		plug(&g, h, "eth0", 20, "10.0.0.1 fd00::1");
	}
	segment(&g, zero, 4);
	for (size_t e = 0; e < g.n_edges; e++)
		g.edges[e].to_addr = 1; /* the second address of each is what was reached */
	edge(&g, 0, HVD_NO_IFACE, 1, 0, 4, HVD_REACH_DUPLICATE);
	segment(&g, one, 4);
	nets = solve_to(&g, 2);
	assert_int_equal(nets.v[0].iface[0], 1);
	assert_true(nets.v[0].by_name && !nets.v[1].by_name);
	assert_true(hvd_networks_serve_horovod(&nets));
	explains(&g, &nets, "ib0: h0 -> h1 (192.168.9.9): the asking host has the same address");
	hvd_networks_clear(&nets);
	/* Neither does what nobody else could use, such as an address of IPv6 that is bound to the link. */
	for (size_t e = 0; e < g.n_edges; e++)
		if (g.edges[e].to_if == 1)
			g.ifaces[g.edges[e].to][1].first = HVD_NO_ADDR;
	nets = solve_to(&g, 2);
	assert_false(hvd_networks_serve_horovod(&nets));
	explains(&g, &nets, "eth0: Gloo uses its first address on h0, which other hosts cannot reach");
	hvd_networks_clear(&nets);
}

/* Every address answers, and yet it is no network: the hosts and the reason are named. */
TEST(why_a_rail_connects_nobody)
{
	struct hvd_networks nets;
	struct graph g;

	/* Routed by another interface. */
	graph_init(&g, 3);
	for (uint32_t h = 0; h < 3; h++) {
		plug(&g, h, "eth0", 20, "10.0.0.1");
		plug(&g, h, "rail1", 1, "10.1.0.1");
	}
	for (uint32_t h = 0; h < 3; h++)
		for (uint32_t d = 1; d < 3; d++)
			for (int to = 0; to < 2; to++)
				edge(&g, h, 0, (h + d) % 3, to, 4, HVD_REACH_OK);
	nets = solve_to(&g, 1);
	explains_only(&g, &nets, "  rail1: does not connect all hosts: h0 -> h1: the connection leaves by eth0");
	hvd_networks_clear(&nets);
	/* Plugged into the other rail on one host. */
	graph_init(&g, 2);
	for (uint32_t h = 0; h < 2; h++) {
		plug(&g, h, "rail0", 1, "10.1.0.1");
		plug(&g, h, "rail1", 1, "10.2.0.1");
	}
	edge(&g, 0, 0, 1, 1, 4, HVD_REACH_OK);
	edge(&g, 1, 1, 0, 0, 4, HVD_REACH_OK);
	nets = solve_to(&g, 1);
	explains(&g, &nets, "rail0: does not connect all hosts: h0 -> h1: it connects to rail1 there");
	explains(&g, &nets, "rail1: does not connect all hosts: h0 -> h1: the connection leaves by rail0");
	hvd_networks_clear(&nets);
}

/* IPv4 before IPv6, then what the interfaces are, then latency. */
TEST(order)
{
	static const int zero[HOSTS] = {0}, one[HOSTS] = {1, 1, 1}, two[HOSTS] = {2, 2, 2}, three[HOSTS] = {3, 3, 3};
	struct hvd_networks nets;
	struct graph g;

	graph_init(&g, 3);
	for (uint32_t h = 0; h < 3; h++) {
		plug(&g, h, "slow0", 20, "10.0.0.1");
		plug(&g, h, "far0", 10, "10.1.0.1");
		plug(&g, h, "near0", 10, "10.2.0.1 fd00::1");
		plug(&g, h, "best6", 1, "fd01::1");
	}
	segment(&g, zero, 4);
	segment(&g, one, 4);
	for (size_t e = g.n_edges / 2; e < g.n_edges; e++)
		g.edges[e].rtt_us = 900;
	segment(&g, two, 4);
	segment(&g, two, 6);
	segment(&g, three, 6);
	nets = solve(&g);
	/* near0 is one network, though it speaks both. */
	assert_int_equal(nets.n, 4);
	assert_int_equal(nets.v[0].iface[0], 2);
	assert_int_equal(nets.v[0].family, 4);
	assert_int_equal(nets.v[1].iface[0], 1);
	assert_int_equal(nets.v[1].rtt_us, 900);
	assert_int_equal(nets.v[2].iface[0], 0);
	assert_int_equal(nets.v[3].iface[0], 3);
	assert_int_equal(nets.v[3].family, 6);
	hvd_networks_clear(&nets);
}

TEST(nothing_at_all)
{
	struct hvd_networks nets;
	struct graph g;

	graph_init(&g, 0);
	nets = solve_to(&g, 0);
	graph_init(&g, 3);
	nets = solve_to(&g, 0);
	explains_only(&g, &nets, "");
	assert_string_equal(hvd_reach_text((enum hvd_reach)99), "?");
}

/* ---- at random, against brute force ---- */

static bool met(const struct graph *g, uint32_t from, int from_if, uint32_t to, int to_if, int family)
{
	for (size_t e = 0; e < g->n_edges; e++)
		if (g->edges[e].from == from && g->edges[e].to == to && g->edges[e].from_if == from_if &&
		    g->edges[e].to_if == to_if && g->edges[e].family == family && g->edges[e].result == HVD_REACH_OK)
			return true;
	return false;
}

static bool is_network(const struct graph *g, const int *ifs, int family)
{
	uint32_t to[HVD_MAX_NEIGHBOURS];

	for (uint32_t h = 0; h < g->n; h++) {
		int k = hvd_network_neighbours(h, g->n, to);

		for (int i = 0; i < k; i++)
			if (!met(g, h, ifs[h], to[i], ifs[to[i]], family))
				return false;
	}
	return true;
}

static void picks(const struct hvd_network *net, uint32_t n, int *ifs)
{
	for (uint32_t h = 0; h < n; h++)
		ifs[h] = net->iface[h];
}

/* Try every choice of an interface per host; how many are networks. The last found is in *ifs. */
static int brute_force(const struct graph *g, int family, int *ifs)
{
	int choice[HOSTS] = {0}, count = 0;

	for (;;) {
		uint32_t h = 0;

		if (is_network(g, choice, family)) {
			memcpy(ifs, choice, sizeof(choice));
			count++;
		}
		while (h < g->n && ++choice[h] >= g->nodes[h].n_ifaces)
			choice[h++] = 0;
		if (h == g->n)
			return count;
	}
}

/* Each interface hangs on some segment, at most one interface of a host on each; some attempts get lost. */
static void random_cabling(struct graph *g, uint32_t *seed)
{
	int at[HOSTS][IFACES];
	uint32_t to[HVD_MAX_NEIGHBOURS];

	graph_init(g, 2 + dice(seed) % 4);
	for (uint32_t h = 0; h < g->n; h++) {
		bool taken[6] = {false};
		int n = 1 + (int)(dice(seed) % 3);

		for (int i = 0; i < n; i++) {
			int s = (int)(dice(seed) % (2 + dice(seed) % 3));

			while (taken[s])
				s = (s + 1) % 6;
			taken[s] = true;
			at[h][i] = s;
			plug(g, h, "if", (int64_t)(dice(seed) % 5), "10.0.0.1");
		}
	}
	for (uint32_t h = 0; h < g->n; h++) {
		int k = hvd_network_neighbours(h, g->n, to);

		for (int t = 0; t < k; t++)
			for (int i = 0; i < g->nodes[h].n_ifaces; i++)
				for (int j = 0; j < g->nodes[to[t]].n_ifaces; j++)
					if (at[h][i] == at[to[t]][j])
						edge(g, h, i, to[t], j, 4,
						     dice(seed) % 40 ? HVD_REACH_OK : HVD_REACH_SILENT);
	}
}

TEST(random_cablings)
{
	uint32_t seed = 20240229;
	int with = 0, without = 0, several = 0;

	for (int round = 0; round < 3000; round++) {
		struct hvd_networks nets;
		struct graph g;
		int ifs[HOSTS], other[HOSTS], count;

		random_cabling(&g, &seed);
		count = brute_force(&g, 4, ifs);
		nets = solve_to(&g, count);
		for (int i = 0; i < nets.n; i++) {
			picks(&nets.v[i], g.n, ifs);
			assert_true(is_network(&g, ifs, 4));
			if (i > 0) {
				assert_true(nets.v[i - 1].ranking <= nets.v[i].ranking);
				picks(&nets.v[i - 1], g.n, other);
				assert_memory_not_equal(ifs, other, g.n * sizeof(int));
			}
		}
		with += count > 0;
		without += count == 0;
		several += count > 1;
		hvd_networks_clear(&nets);
	}
	/* The dice made all kinds. */
	assert_true(with > 100 && without > 100 && several > 50);
}

/* Any graph whatever: what is found is a network. (That all are found holds for cablings only.) */
TEST(random_graphs)
{
	uint32_t seed = 7;
	int found = 0;

	for (int round = 0; round < 3000; round++) {
		struct hvd_networks nets;
		struct graph g;
		uint32_t to[HVD_MAX_NEIGHBOURS];
		int ifs[HOSTS];

		graph_init(&g, 2 + dice(&seed) % 3);
		for (uint32_t h = 0; h < g.n; h++)
			for (uint32_t i = 0; i <= dice(&seed) % 3; i++)
				plug(&g, h, "if", (int64_t)(dice(&seed) % 3), "10.0.0.1");
		for (uint32_t h = 0; h < g.n; h++) {
			int k = hvd_network_neighbours(h, g.n, to);

			for (int t = 0; t < k; t++)
				for (int i = 0; i < g.nodes[h].n_ifaces; i++)
					for (int j = 0; j < g.nodes[to[t]].n_ifaces; j++)
						if (dice(&seed) % 3)
							edge(&g, h, dice(&seed) % 20 ? i : HVD_NO_IFACE, to[t], j,
							     dice(&seed) % 2 ? 4 : 6,
							     dice(&seed) % 8 ? HVD_REACH_OK : HVD_REACH_REFUSED);
		}
		nets = solve(&g);
		for (int i = 0; i < nets.n; i++) {
			picks(&nets.v[i], g.n, ifs);
			assert_true(is_network(&g, ifs, nets.v[i].family));
		}
		found += nets.n > 0;
		free(explain(&g, &nets));
		hvd_networks_clear(&nets);
	}
	assert_true(found > 50);
}

RUN_TESTS()
