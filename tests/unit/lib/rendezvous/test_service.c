/* SPDX-License-Identifier: Apache-2.0 */
/* A host's own description, listening sockets, and the rendezvous of a launch, through a relay on real sockets. */
#include "lib/base/deadline.h"
#include "lib/host/host_info.h"
#include "lib/net/listen.h"
#include "lib/rendezvous/server.h"
#include "lib/rendezvous/service.h"

#include "relay_conns.h"
#include "tests/unit/relay_count.h"
#include "tests/unit/unit.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/wait.h>

/* ---- node ---- */

static const char node_text[] =
	"{\"name\":\"n1\",\"host\":\"h1\",\"machine\":\"00\",\"ranks\":[3,1],\"port\":4000,\"relay\":4003,"
	"\"dropped\":\"eth2 (is down)\","
	"\"ifaces\":[{\"n\":\"eth0\",\"k\":\"ethernet\",\"s\":1000,\"r\":-5,\"u\":-1,\"a\":[\"10.0.0.1\",\"fd00::1\"],"
	"\"f\":1},"
	"{\"n\":\"ib0\",\"k\":\"infiniband\",\"s\":-1,\"r\":1,\"u\":2,\"a\":[],\"f\":255}],\"ports\":[4001,4002]}";

TEST(a_node_from_the_wire)
{
	json_t *msg = json_loads(node_text, 0, NULL), *out;
	struct hvd_addr addr;
	struct hvd_host_info node;

	json_object_set_new(msg, "job", json_integer(7));
	assert_int_equal(hvd_host_info_from_json(msg, &node, NULL), 0);
	assert_string_equal(node.name, "n1");
	assert_int_equal(node.n_ranks, 2);
	assert_int_equal(node.ranks[0], 3);
	assert_int_equal(node.n_ifaces, 2);
	assert_int_equal(node.n_ports, 2);
	assert_int_equal(node.ports[1], 4002);
	assert_int_equal(node.n_relays, 1);
	assert_int_equal(hvd_host_info_relay(&node, 0).loopback, 4003);
	assert_int_equal(hvd_host_info_relay(&node, 1).loopback, 0);
	assert_int_equal(node.ifaces[0].ranking, -5);
	assert_int_equal(node.ifaces[1].numa, 2);
	assert_int_equal(hvd_host_info_find_iface(&node, "ib0"), 1);
	assert_int_equal(hvd_host_info_find_iface(&node, "ib"), -1);
	hvd_addr_parse("fd00::1", &addr);
	assert_int_equal(hvd_host_info_find_addr(&node, &addr), 0);
	hvd_addr_parse("fd00::2", &addr);
	assert_int_equal(hvd_host_info_find_addr(&node, &addr), -1);
	assert_true(hvd_host_info_has_family(&node.ifaces[0], AF_INET6));
	assert_false(hvd_host_info_has_family(&node.ifaces[1], AF_INET));
	assert_text(hvd_host_info_ifaces_text(&node),
		    "eth0 (ethernet, 1000 Mb/s) 10.0.0.1 fd00::1; ib0 (infiniband, NUMA node 2)");
	out = hvd_host_info_to_json(&node, 1, 2, 4);
	assert_int_equal(json_integer_value(json_object_get(out, "nodes")), 2);
	assert_true(json_equal(json_object_get(out, "ifaces"), json_object_get(msg, "ifaces")));
	assert_true(json_equal(json_object_get(out, "ranks"), json_object_get(msg, "ranks")));
	assert_true(json_equal(json_object_get(out, "ports"), json_object_get(msg, "ports")));
	assert_true(json_equal(json_object_get(out, "relay"), json_object_get(msg, "relay")));
	json_decref(out);
	json_decref(msg);
	hvd_host_info_clear(&node);
	hvd_host_info_clear(&node);
	hvd_host_info_clear(NULL);
}

/* Each part of the text, replaced by something that is not right. */
TEST(nodes_that_are_refused)
{
	static const char *const changes[][2] = {
		{"\"n1\"", "\"\""},
		{"\"n1\"", "7"},
		{"[3,1]", "[-1]"},
		{"[3,1]", "[1.5]"},
		{"[3,1]", "[1048576]"},
		{"4000", "65536"},
		{"4003", "65536"},
		{"4003", "\"4003\""},
		{"\"relay\"", "\"other\""},
		{"4003", "-1"},
		{"4003", "4,\"relay_children\":-1"},
		{"4003", "4,\"relay_children\":70000"},
		{"4003", "4,\"nccl_ras\":0"},
		{"4003", "4,\"nccl_ras\":70000"},
		{"4003", "4,\"relay_network\":0"},
		{"4003", "4,\"worlds\":[{\"world\":1}]"},
		{"4003", "4,\"worlds\":[{\"world\":1,\"relay\":65536}]"},
		{"4003", "4,\"job\":0"},
		{"\"00\"", "\"000000000000000000000000000000000\""},
		{"\"eth0\"", "\"a-name-of-16-chr\""},
		{"\"ethernet\"", "\"carrier pigeon\""},
		{"\"10.0.0.1\"", "\"10.0.0\""},
		{"\"10.0.0.1\"", "5"},
		{"1000", "-2"},
		{"\"u\":2", "\"u\":40000"},
		{"\"dropped\"", "\"other\""},
		{"4001", "0"},
		{"4001", "65536"},
		{"[4001,4002]", "4001"},
	};

	for (size_t i = 0; i < sizeof(changes) / sizeof(changes[0]); i++) {
		const char *at = strstr(node_text, changes[i][0]);
		char text[1024];
		struct hvd_host_info node;
		struct hvd_err err = {0};
		json_t *msg;

		assert_non_null(at);
		snprintf(text, sizeof(text), "%.*s%s%s", (int)(at - node_text), node_text, changes[i][1],
			 at + strlen(changes[i][0]));
		msg = json_loads(text, 0, NULL);
		assert_non_null(msg);
		assert_int_equal(hvd_host_info_from_json(msg, &node, &err), -1);
		assert_true(err.code == HVD_E_PROTO || err.code == HVD_E_LIMIT);
		assert_null(node.name);
		assert_null(node.ifaces);
		json_decref(msg);
	}
}

TEST(machines)
{
	struct hvd_host_info a = {0}, b = {0};

	assert_int_equal(hvd_machine_id(a.machine, NULL), 0);
	assert_int_equal(hvd_machine_id(b.machine, NULL), 0);
	assert_string_equal(a.machine, b.machine);
	assert_int_equal(strlen(a.machine), HVD_MACHINE_LEN);
}

/* ---- listen ---- */

static int connect_to(const char *ip, in_port_t port)
{
	struct sockaddr_storage ss;
	struct hvd_addr addr;
	socklen_t len;
	int fd;

	assert_int_equal(hvd_addr_parse(ip, &addr), 0);
	len = hvd_addr_to_sockaddr(&addr, port, &ss);
	fd = socket(addr.family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_true(fd >= 0);
	if (connect(fd, (struct sockaddr *)&ss, len) == 0)
		return fd;
	close(fd);
	return -1;
}

TEST(any_port)
{
	in_port_t port = 0;
	int fd = hvd_listen_any(false, 0, 0, &port, NULL), c;

	assert_true(fd >= 0 && port > 0);
	assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
	assert_true(fcntl(fd, F_GETFL) & O_NONBLOCK);
	c = connect_to("127.0.0.1", port); /* IPv4 on the socket of both */
	assert_true(c >= 0);
	close(c);
	close(fd);
	fd = hvd_listen_any(true, 0, 0, &port, NULL);
	c = connect_to("127.0.0.1", port);
	assert_true(c >= 0);
	close(c);
	close(fd);
	assert_int_equal(connect_to("127.0.0.1", port), -1);
}

/* The queue is as long as the administrator allows, not as the C library thinks. In a network of its own, by a
 * child. */
TEST(a_queue_as_long_as_may_be)
{
	int status = -1;
	pid_t pid = fork();

	if (pid == 0) {
		struct tcp_info info = {0};
		socklen_t len = sizeof(info);
		in_port_t port;
		FILE *f;
		int fd;

		if (unshare(CLONE_NEWNET) != 0 || system("ip link set lo up") != 0 ||
		    !(f = fopen("/proc/sys/net/core/somaxconn", "w")))
			_exit(77);
		fputs("9000", f);
		fd = fclose(f) == 0 ? hvd_listen_any(true, 0, 0, &port, NULL) : -1;
		/* Of a socket that listens the kernel has the length there. */
		_exit(fd >= 0 && getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &len) == 0 && info.tcpi_sacked == 9000
			      ? 0
			      : 1);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	if (WEXITSTATUS(status) == 77)
		skip_because("needs root, and a network of its own");
	assert_int_equal(status, 0);
}

/* A range of three ports is filled, to the last, and no further. */
TEST(a_range_that_is_exhausted)
{
	int fds[3], probe, n = 0;
	in_port_t base = 0, port, seen[3];
	struct hvd_err err = {0};

	/* Where there are three in a row: tried upwards from one that the kernel gave. */
	for (int attempt = 0; attempt < 50 && n < 3; attempt++) {
		while (n > 0)
			close(fds[--n]);
		probe = hvd_listen_any(true, 0, 0, &base, NULL);
		assert_true(probe >= 0);
		close(probe);
		while (base < 65533 && n < 3 && (fds[n] = hvd_listen_any(true, base, base + 2, &port, NULL)) >= 0) {
			assert_int_in_range(port, base, base + 2);
			seen[n] = port;
			for (int i = 0; i < n; i++)
				assert_int_not_equal(seen[i], port);
			n++;
		}
	}
	assert_int_equal(n, 3);
	assert_fails_with(hvd_listen_any(true, base, base + 2, &port, &err), err, HVD_E_NET, "are in use");
	assert_in(err.hint, "SrunPortRange");
	assert_true(err.host[0] != '\0');
	close(fds[1]);
	assert_true((fds[1] = hvd_listen_any(true, base, base + 2, &port, &err)) >= 0);
	assert_int_equal(port, seen[1]);
	for (int i = 0; i < 3; i++)
		close(fds[i]);
}

/* ---- service ---- */

struct place {
	struct event_base *base;
	struct hvd_rv_service service;
	struct hvd_rv *relay; /* of a host, to which clients connect */
	struct hvd_log log;
	int fds_before;
};

static void begin_relay(struct place *p)
{
	static const char *const loopback[] = {"127.0.0.1"};
	struct hvd_rv_config cfg;

	hvd_rv_config_init(&cfg);
	cfg.tcpstore = true;
	p->relay = relay_of(p->service.rv, p->base, &cfg, NULL);
	assert_int_equal(hvd_rv_listen(p->relay, loopback, 1, 0, 0, NULL), 0);
}

static int open_place(void **state)
{
	static const struct hvd_rv_service_ops no_ops = {0};
	struct place *p = calloc(1, sizeof(*p));

	assert_non_null(p);
	*state = p;
	p->fds_before = open_fds();
	p->base = event_base_new();
	p->log = hvd_log_make("test", HVD_LOG_ERROR);
	p->log.fd = -1;
	return hvd_rv_service_open(&p->service, p->base, 0, &no_ops, NULL, &p->log, NULL);
}

static int close_place(void **state)
{
	struct place *p = *state;
	int leaked;

	hvd_rv_destroy(p->relay);
	hvd_rv_service_close(&p->service);
	hvd_rv_service_close(&p->service);
	event_base_free(p->base);
	leaked = open_fds() - p->fds_before;
	free(p);
	return leaked ? -1 : 0;
}

/* What the relay answers to one request; it closes the connection after that. */
static const char *ask(struct place *p, const char *request)
{
	static char text[4096];
	int fd = connect_to("127.0.0.1", hvd_rv_port(p->relay));
	hvd_time end = hvd_deadline_in(10);
	size_t at = 0;
	ssize_t n;

	assert_true(fd >= 0);
	assert_int_equal(fcntl(fd, F_SETFL, O_NONBLOCK), 0);
	assert_int_equal(write(fd, request, strlen(request)), strlen(request));
	while ((n = read(fd, text + at, sizeof(text) - 1 - at)) != 0) {
		if (n > 0)
			at += (size_t)n;
		else
			assert_int_equal(errno, EAGAIN);
		assert_true(hvd_left(end) > 0);
		event_base_loop(p->base, EVLOOP_NONBLOCK);
	}
	close(fd);
	text[at] = '\0';
	return text;
}

static int listening(void)
{
	int n = 0;

	for (int fd = 0; fd < 1024; fd++) {
		int listens = 0;
		socklen_t len = sizeof(listens);

		n += getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &len) == 0 && listens;
	}
	return n;
}

/* It is reached by connections that others have made. */
TEST_IN(it_listens_nowhere, struct place *p)
{
	struct sockaddr_storage ss;

	assert_non_null(p->service.rv);
	assert_int_equal(listening(), 0);
	assert_int_equal(hvd_rv_port(p->service.rv), 0);
	assert_int_equal(hvd_rv_listener(p->service.rv, 0, &ss), -1);
	begin_relay(p);
	assert_int_equal(listening(), 1); /* the relay's */
}

TEST_IN(it_keeps_what_ranks_put_there, struct place *p)
{
	begin_relay(p);
	assert_in(ask(p, "PUT /global/0 HTTP/1.0\r\nContent-Length: 5\r\n\r\nhello"), " 200 ");
	assert_in(ask(p, "GET /global/0 HTTP/1.0\r\n\r\n"), "hello");
	assert_non_null(hvd_rv_get(p->service.rv, "global", "0"));
}

static void turn(struct place *p)
{
	for (int i = 0; i < 20; i++) {
		event_base_loop(p->base, EVLOOP_NONBLOCK);
		usleep(1000);
	}
}

/* The relay of a host that is none of the job's any longer. */
TEST_IN(it_lets_go_of_relays, struct place *p)
{
	const uint32_t first = 0, other = 1; /* the relay here is the first */

	begin_relay(p);
	hvd_rv_relay_admit(p->service.rv, &first, 1);
	turn(p);
	assert_int_equal(relay_count(p->service.rv), 1);
	hvd_rv_relay_admit(p->service.rv, &other, 1);
	turn(p);
	assert_int_equal(relay_count(p->service.rv), 0);
}

/* Two ranks meet in "global": the value is there until both have given up their keys. */
TEST_IN(it_learns_how_many_meet, struct place *p)
{
	struct hvd_layout_host host = {.name = (char *)"h", .n = 2};
	struct hvd_rank_slot slots[2] = {{.cross_size = 1}, {.local_rank = 1, .cross_size = 1}};
	struct hvd_layout layout = {.size = 2, .n_hosts = 1, .hosts = &host, .rank_slots = slots};
	struct hvd_rv_service closed = {0};

	begin_relay(p);
	hvd_rv_service_size(&p->service, &layout);
	assert_in(ask(p, "PUT /global/0 HTTP/1.0\r\nContent-Length: 5\r\n\r\nhello"), " 200 ");
	assert_in(ask(p, "DELETE /global/0 HTTP/1.0\r\n\r\n"), " 200 ");
	assert_in(ask(p, "GET /global/0 HTTP/1.0\r\n\r\n"), "hello");
	assert_in(ask(p, "DELETE /global/1 HTTP/1.0\r\n\r\n"), " 200 ");
	assert_in(ask(p, "HEAD /global/0 HTTP/1.0\r\n\r\n"), " 404 ");
	hvd_rv_service_size(&closed, &layout);
}

static char told[512];

static void on_told_join(void *arg, const struct hvd_rv_init_event *join)
{
	char text[HVD_ADDR_TEXT];
	size_t n = strlen(told);

	assert_ptr_equal(arg, told);
	snprintf(told + n, sizeof(told) - n, "%s %u %u;", hvd_addr_text(&join->from, text), (unsigned)join->pid,
		 (unsigned)join->epoch);
}

static void on_told_waits(char *text, void *arg)
{
	size_t n = strlen(told);

	assert_ptr_equal(arg, told);
	snprintf(told + n, sizeof(told) - n, "<%s>", text ? text : "");
	free(text);
}

/* Three clients call init_process_group(), two of them at once. */
TEST_IN(arrivals_are_told, struct place *p)
{
	static const struct hvd_rv_service_ops ops = {.init_event = on_told_join};
	unsigned char hello[] = {0, 0xce, 0xf7, 0x85, 0x3c, 13, 77, 1, 0, 0};
	static const unsigned char init[] = {4,   5,   0,   0, 0, 0, 0, 0, 0, 'i', 'n',
					     'i', 't', '/', 1, 0, 0, 0, 0, 0, 0,   0};
	int c[3];

	told[0] = '\0';
	hvd_rv_service_close(&p->service);
	assert_int_equal(hvd_rv_service_open(&p->service, p->base, 0, &ops, told, &p->log, NULL), 0);
	begin_relay(p);
	for (int i = 0; i < 3; i++) {
		c[i] = connect_to("127.0.0.1", hvd_rv_port(p->relay));
		assert_true(c[i] >= 0);
		hello[6] = (unsigned char)(77 + i);
		assert_int_equal(write(c[i], hello, sizeof(hello)), sizeof(hello));
		assert_int_equal(write(c[i], init, sizeof(init)), sizeof(init));
		if (i == 0)
			turn(p);
	}
	turn(p);
	assert_string_equal(told, "127.0.0.1 333 0;127.0.0.1 334 0;127.0.0.1 335 0;");
	assert_true(hvd_rv_service_ask_waits(&p->service, HVD_RV_WAITS_FEW, on_told_waits, told));
	turn(p);
	assert_in(told, ";<>"); /* nobody waits */
	assert_true(hvd_rv_service_changes(&p->service) > 0);
	for (int i = 0; i < 3; i++)
		close(c[i]);
	hvd_rv_destroy(p->relay);
	p->relay = NULL;
	hvd_rv_service_close(&p->service);
	assert_false(hvd_rv_service_ask_waits(&p->service, HVD_RV_WAITS_FEW, on_told_waits, told));
	assert_int_equal(hvd_rv_service_changes(&p->service), 0);
}

RUN_TESTS(.setup = open_place, .teardown = close_place)
