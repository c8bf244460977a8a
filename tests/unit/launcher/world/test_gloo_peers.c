/* SPDX-License-Identifier: Apache-2.0 */
/* Where pairs are connected: captured values, and others, put at a rendezvous that listens here. */
#include "launcher/world/gloo_peers.h"
#include "lib/net/portset.h"
#include "mesh_bytes.h"
#include "tests/unit/loopback.h"

#include "tests/unit/unit.h"

#include <arpa/inet.h>
#include <endian.h>
#include <poll.h>

#define LEN_V4 (sizeof(mesh_v4[0]) - 1)
#define LEN_V6 (sizeof(mesh_v6[0]) - 1)

struct world {
	struct event_base *base;
	struct hvd_rv *rv;
	struct hvd_gloo_peers *pairs;
	struct hvd_host_info node;
	struct hvd_host_iface iface;
	struct hvd_addr addr;
};

SETUP(begin, struct world, w)
{
	static const char *const ips[] = {"127.0.0.1"};
	struct hvd_rv_config cfg;

	hvd_rv_config_init(&cfg);
	w->base = event_base_new();
	w->rv = hvd_rv_create(w->base, &cfg, NULL, NULL);
	assert_non_null(w->rv);
	assert_int_equal(hvd_rv_listen(w->rv, ips, 1, 0, 0, NULL), 0);
	w->pairs = hvd_gloo_peers_create();
	hvd_gloo_peers_watch(w->pairs, w->rv);
	assert_int_equal(hvd_addr_parse("10.77.0.2", &w->addr), 0);
	w->iface = (struct hvd_host_iface){.name = "eth0", .n_addrs = 1, .addrs = &w->addr};
	w->node = (struct hvd_host_info){.n_ifaces = 1, .ifaces = &w->iface};
}

TEARDOWN(end, struct world, w)
{
	hvd_rv_destroy(w->rv);
	hvd_gloo_peers_destroy(w->pairs);
	event_base_free(w->base);
}

/* As a client does; the answer must be 200. */
static void put(struct world *w, const char *path, const void *data, size_t len)
{
	int fd = dial_loopback(hvd_rv_port(w->rv));
	struct pollfd pfd = {.fd = fd, .events = POLLIN};
	hvd_time until = hvd_deadline_in(30);
	char head[256], answer[256] = "";
	int n = snprintf(head, sizeof(head), "PUT %s HTTP/1.1\r\nContent-Length: %zu\r\n\r\n", path, len);

	assert_int_equal(write(fd, head, (size_t)n), n);
	assert_int_equal(write(fd, data, len), len);
	while (poll(&pfd, 1, 1) == 0 && hvd_left(until) > 0)
		event_base_loop(w->base, EVLOOP_NONBLOCK);
	assert_true(read(fd, answer, sizeof(answer) - 1) > 0);
	assert_in(answer, " 200 ");
	close(fd);
}

/* The ends at the node, as text; "" for none. */
static void ends_are(const struct world *w, const char *want)
{
	json_t *at = hvd_gloo_peers_at(w->pairs, &w->node);
	char *text = at ? json_dumps(at, JSON_COMPACT | JSON_SORT_KEYS) : strdup("");

	assert_string_equal(text, want);
	free(text);
	json_decref(at);
}

/* What a rank with that address puts, whose port for the next other rank is one higher. */
static void *value(const char *ip, unsigned port, size_t others, size_t *len)
{
	char *data = calloc(others, HVD_MESH_ADDRESS);
	struct sockaddr_storage ss;
	struct hvd_addr addr;

	assert_int_equal(hvd_addr_parse(ip, &addr), 0);
	for (size_t i = 0; i < others; i++) {
		hvd_addr_to_sockaddr(&addr, (in_port_t)(port + i), &ss);
		memcpy(data + i * HVD_MESH_ADDRESS, &ss, sizeof(ss));
	}
	*len = others * HVD_MESH_ADDRESS;
	return data;
}

static void put_value(struct world *w, const char *path, const char *ip, unsigned port, size_t others)
{
	size_t len;
	void *data = value(ip, port, others, &len);

	put(w, path, data, len);
	free(data);
}

TEST(captured_values_are_read)
{
	static const in_port_t want[3][3] = {{0, 0xb12b, 0xb459}, {0xb12b, 0, 0x8d15}, {0xb459, 0x8d15, 0}};
	struct hvd_mesh_end at;
	char text[HVD_ADDR_TEXT];

	if (BYTE_ORDER != LITTLE_ENDIAN)
		skip_because("the values are of little-endian machines");
	assert_int_equal(hvd_mesh_size(mesh_v4[0], LEN_V4), 2);
	assert_int_equal(hvd_mesh_pair(mesh_v4[0], 0, mesh_v4[1], 1, 2, &at), 0);
	assert_string_equal(hvd_addr_text(&at.addr, text), "127.0.0.1");
	assert_int_equal(at.port, 0xab3d);
	for (size_t a = 0; a < 3; a++) {
		assert_int_equal(hvd_mesh_size(mesh_v6[a], LEN_V6), 3);
		for (size_t b = 0; b < 3; b++) {
			if (a == b)
				continue;
			assert_int_equal(hvd_mesh_pair(mesh_v6[a], a, mesh_v6[b], b, 3, &at), 0);
			assert_string_equal(hvd_addr_text(&at.addr, text), "::1");
			assert_int_equal(at.port, want[a][b]);
		}
	}
}

TEST(other_values_are_none)
{
	size_t len;
	char *data = value("10.77.0.2", 40000, 3, &len);
	struct hvd_mesh_end at;
	struct sockaddr_storage ss;

	assert_int_equal(hvd_mesh_size(data, len), 4);
	assert_int_equal(hvd_mesh_size(data, 0), 0);
	assert_int_equal(hvd_mesh_size(data, len - 1), 0);
	assert_int_equal(hvd_mesh_size("host", 4), 0);
	/* A rank has no pair with itself, and none with one beyond the last. */
	assert_int_equal(hvd_mesh_pair(data, 1, data, 1, 4, &at), -1);
	assert_int_equal(hvd_mesh_pair(data, 1, data, 4, 4, &at), -1);
	/* Twice the same end. */
	assert_int_equal(hvd_mesh_pair(data, 0, data, 1, 4, &at), -1);
	memcpy(&ss, data + HVD_MESH_ADDRESS, sizeof(ss));
	((struct sockaddr_in *)&ss)->sin_addr.s_addr ^= 1;
	memcpy(data + HVD_MESH_ADDRESS, &ss, sizeof(ss));
	assert_int_equal(hvd_mesh_size(data, len), 0); /* two addresses */
	memset(data + HVD_MESH_ADDRESS, 0, HVD_MESH_ADDRESS);
	assert_int_equal(hvd_mesh_size(data, len), 0); /* none */
	free(data);
	data = value("10.77.0.2", 0, 1, &len);
	assert_int_equal(hvd_mesh_size(data, len), 0);
	free(data);
	data = calloc(HVD_MESH_MAX, HVD_MESH_ADDRESS);
	assert_int_equal(hvd_mesh_size(data, (size_t)HVD_MESH_MAX * HVD_MESH_ADDRESS), 0);
	free(data);
}

TEST_IN(one_end_of_each_pair_is_known, struct world *w)
{
	put(w, "/global/rank_0", "host", 4);
	put_value(w, "/global/0", "10.77.0.2", 0x9bff, 2);
	put_value(w, "/global/2", "10.77.0.2", 0x9d00, 2); /* the port is the higher one in either order of bytes */
	ends_are(w, "{\"10.77.0.2\":[39936]}");
	put_value(w, "/global/1", "10.77.0.1", 50000, 2); /* the lowest address: accepts from both */
	ends_are(w, "{\"10.77.0.2\":[39936]}");
	put_value(w, "/cross_0/1", "10.77.0.3", 60000, 1);
	put_value(w, "/cross_0/0", "10.77.0.2", 42000, 1);
	ends_are(w, "{\"10.77.0.2\":[39936,42000]}");
	/* Scopes have nothing to do with each other, nor do values of another size or rank. */
	put_value(w, "/cross_1/0", "10.77.0.2", 43000, 1);
	put_value(w, "/cross_1/2", "10.77.0.3", 43000, 1);
	put_value(w, "/cross_1/01", "10.77.0.3", 43000, 1);
	put_value(w, "/cross_1/123456", "10.77.0.3", 43000, 1);
	put_value(w, "/cross_1/1", "10.77.0.3", 43000, 2);
	ends_are(w, "{\"10.77.0.2\":[39936,42000]}");
	/* A loopback address may be this host's. */
	put(w, "/local_a/0", mesh_v6[0], LEN_V6);
	put(w, "/local_a/1", mesh_v6[1], LEN_V6);
	ends_are(w, "{\"10.77.0.2\":[39936,42000],\"::1\":[45355]}");
}

TEST_IN(ends_last_as_long_as_their_generation, struct world *w)
{
	ends_are(w, "");
	hvd_gloo_peers_begin(w->pairs);
	put_value(w, "/a/0", "10.77.0.2", 40000, 1);
	put_value(w, "/a/1", "10.77.0.3", 40000, 1);
	hvd_gloo_peers_answered(w->pairs); /* new ranks need no answer to meet */
	ends_are(w, "{\"10.77.0.2\":[40000]}");
	hvd_rv_clear(w->rv, NULL);
	hvd_gloo_peers_begin(w->pairs);
	put_value(w, "/a/0", "10.77.0.2", 40001, 1);
	put_value(w, "/a/1", "10.77.0.3", 40000, 1);
	ends_are(w, "{\"10.77.0.2\":[40000,40001]}");
	hvd_gloo_peers_answered(w->pairs);
	ends_are(w, "{\"10.77.0.2\":[40001]}");
	hvd_gloo_peers_begin(w->pairs);
	hvd_gloo_peers_answered(w->pairs);
	ends_are(w, "");
}

static int from_text(struct hvd_portset *set, const char *text)
{
	json_t *obj = json_loads(text, JSON_DECODE_ANY, NULL);
	struct hvd_err err = {0};
	int rc;

	assert_non_null(obj);
	rc = hvd_portset_from_json(obj, set, &err);
	assert_int_equal(rc == 0, err.code == HVD_OK);
	json_decref(obj);
	return rc;
}

TEST(sets_of_ports)
{
	struct hvd_portset set = {0}, more = {0};
	struct hvd_addr addr = {.family = AF_INET};
	json_t *list;

	assert_int_equal(from_text(&set, "{\"10.77.0.2\":[65535,1,40000,40000],\"fd00::1\":[7],\"10.0.0.1\":[]}"), 0);
	hvd_addr_parse("10.77.0.2", &addr);
	assert_true(hvd_portset_has(&set, &addr, 1));
	assert_true(hvd_portset_has(&set, &addr, 65535));
	assert_false(hvd_portset_has(&set, &addr, 7));
	list = hvd_portset_list(&set, &addr);
	assert_int_equal(json_array_size(list), 3);
	assert_int_equal(json_integer_value(json_array_get(list, 1)), 40000);
	json_decref(list);
	hvd_addr_parse("10.77.0.3", &addr);
	assert_false(hvd_portset_has(&set, &addr, 1));
	assert_null(hvd_portset_list(&set, &addr));
	assert_int_equal(hvd_portset_add(&more, &addr, 9), 0);
	hvd_portset_merge(&set, &more);
	assert_true(hvd_portset_has(&set, &addr, 9));
	hvd_addr_parse("fd00::1", &addr);
	assert_true(hvd_portset_has(&set, &addr, 7));

	assert_int_equal(from_text(&set, "null"), -1);
	assert_int_equal(from_text(&set, "{\"host\":[1]}"), -1);
	assert_int_equal(from_text(&set, "{\"10.0.0.1\":1}"), -1);
	assert_int_equal(from_text(&set, "{\"10.0.0.1\":[0]}"), -1);
	assert_int_equal(from_text(&set, "{\"10.0.0.1\":[65536]}"), -1);
	assert_int_equal(from_text(&set, "{\"10.0.0.1\":[\"1\"]}"), -1);
	hvd_portset_clear(&set);
	assert_int_equal(set.n, 0);

	/* In any order, up to the limit. */
	for (uint32_t i = 0; i < HVD_PORTSET_MAX; i++) {
		addr = (struct hvd_addr){.family = AF_INET};
		addr.u.v4.s_addr = i * 2654435761U;
		assert_int_equal(hvd_portset_add(&set, &addr, (in_port_t)i), 0);
	}
	assert_int_equal(hvd_portset_add(&set, &addr, 1), 0);
	addr.family = AF_INET6;
	assert_int_equal(hvd_portset_add(&set, &addr, 1), -1);
	for (uint32_t i = 0; i < HVD_PORTSET_MAX; i++) {
		addr = (struct hvd_addr){.family = AF_INET};
		addr.u.v4.s_addr = i * 2654435761U;
		assert_true(hvd_portset_has(&set, &addr, (in_port_t)i));
	}
	hvd_portset_merge(&more, &set); /* as far as there is room */
	assert_int_equal(more.n, HVD_PORTSET_MAX);
	hvd_portset_clear(&set);
	hvd_portset_clear(&more);
	hvd_portset_clear(NULL);
}

RUN_TESTS(.setup = begin, .teardown = end)
