/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Another user of this host, bob, tries to have the server take his requests for alice's, who runs it: on connections
 * that he has reset, whose port is then hers, and beside hers. Alice is root here, and all happens in a network of the
 * test's own, whose ports are few.
 *
 * HVD_TEST_FLOOD_SECONDS: how long each flood of test_store_owner_floods lasts.
 */
#include "lib/base/deadline.h"
#include "lib/net/addr.h"
#include "lib/net/listen.h"
#include "lib/net/sock_diag.h"
#include "lib/rendezvous/server.h"
#include "tests/unit/tcpstore_bytes.h"
#include "tests/unit/unit.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/wait.h>

#define BOB     65534
#define PORTS   "20000 20099" /* that the kernel gives to clients */
#define FILLERS 40000         /* ports from here on are those of connections that fill the queue */
#define BACKLOG 8

static bool namespace;

/* How clients connect, and how the server finds out whose they are. */
static const struct way {
	const char *name, *listen, *to;
	int family; /* of clients' sockets */
	bool proc;  /* not by netlink */
} ways[] = {
	{"IPv4", "127.0.0.1", "127.0.0.1", AF_INET, false},
	{"IPv4, /proc", "127.0.0.1", "127.0.0.1", AF_INET, true},
	{"IPv6", "::1", "::1", AF_INET6, false},
	{"IPv6, /proc", "::1", "::1", AF_INET6, true},
	{"IPv4 at an IPv6 socket", "::", "127.0.0.1", AF_INET, false},
	{"IPv4 at an IPv6 socket, /proc", "::", "127.0.0.1", AF_INET, true},
	{"IPv4 by IPv6 sockets", "::", "::ffff:127.0.0.1", AF_INET6, false},
	{"IPv4 by IPv6 sockets, /proc", "::", "::ffff:127.0.0.1", AF_INET6, true},
};
#define WAYS (sizeof(ways) / sizeof(ways[0]))

static struct world {
	struct event_base *base;
	struct hvd_rv *rv;
	struct hvd_rv_config cfg;
	struct sockaddr_storage to;
	socklen_t len;
	int fds[64];
	int n_fds;
} w;

/* ---- the network ---- */

static int make_namespace(void **state)
{
	namespace = geteuid() == 0 && unshare(CLONE_NEWNET) == 0 && system("ip link set lo up") == 0;
	return 0;
}

static void set_ipv4(const char *name, const char *value)
{
	char path[128];
	FILE *f;

	snprintf(path, sizeof(path), "/proc/sys/net/ipv4/%s", name);
	f = fopen(path, "w");
	assert_non_null(f);
	fputs(value, f);
	assert_int_equal(fclose(f), 0);
}

/* ---- the server ---- */

/* Without netlink where the way has none: the descriptor for it cannot be opened. */
static struct hvd_rv_access *make_access(bool proc)
{
	struct rlimit was, none = {0};
	struct hvd_rv_access *access;

	getrlimit(RLIMIT_NOFILE, &was);
	none.rlim_max = was.rlim_max;
	if (proc)
		assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
	access = hvd_rv_access_create();
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &was), 0);
	return access;
}

static void begin(const struct way *way)
{
	struct sockaddr_storage at;
	struct hvd_addr addr, to;
	size_t which;
	int fd;

	memset(&w, 0, sizeof(w));
	w.base = event_base_new();
	hvd_rv_config_init(&w.cfg);
	w.cfg.get_wait = 0;
	w.cfg.tcpstore = true;
	w.cfg.access = make_access(way->proc);
	w.rv = hvd_rv_create(w.base, &w.cfg, NULL, NULL);
	assert_non_null(w.rv);
	assert_int_equal(hvd_addr_parse(way->listen, &addr), 0);
	hvd_addr_to_sockaddr(&addr, 0, &at);
	assert_int_equal(hvd_listen_all(&at, 1, 0, 0, &fd, &which), 0);
	if (way->family == AF_INET6 && strchr(way->to, '.')) {
		struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)&w.to;

		in6->sin6_family = AF_INET6;
		in6->sin6_port = htons(hvd_addr_port_of(fd));
		assert_int_equal(inet_pton(AF_INET6, way->to, &in6->sin6_addr), 1);
		w.len = sizeof(*in6);
	} else {
		assert_int_equal(hvd_addr_parse(way->to, &to), 0);
		w.len = hvd_addr_to_sockaddr(&to, hvd_addr_port_of(fd), &w.to);
	}
	hvd_rv_listen_fd(w.rv, fd);
}

static void set_reset(int fd)
{
	static const struct linger now = {.l_onoff = 1};

	setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
}

/* No port stays in use. */
static void end(void)
{
	while (w.n_fds > 0) {
		set_reset(w.fds[--w.n_fds]);
		close(w.fds[w.n_fds]);
	}
	hvd_rv_destroy(w.rv);
	hvd_rv_access_destroy(w.cfg.access);
	event_base_free(w.base);
}

static void turn(double seconds)
{
	hvd_time until = hvd_deadline_in(seconds);

	do {
		event_base_loop(w.base, EVLOOP_NONBLOCK);
		usleep(200);
	} while (hvd_left(until) > 0);
}

static struct hvd_rv_stats stats(void)
{
	struct hvd_rv_stats s;

	hvd_rv_stats(w.rv, &s);
	return s;
}

/* Nothing that was asked for was done. */
static void nothing_was_done(const struct way *way)
{
	struct hvd_rv_stats s = stats();

	if (s.puts + s.gets + s.deletes + s.tcpstore_requests > 0)
		print_error("%s:\n", way->name);
	assert_int_equal(s.puts + s.gets + s.deletes, 0);
	assert_int_equal(s.tcpstore_requests, 0);
	assert_null(hvd_rv_get(w.rv, "s", "k"));
}

/* ---- clients ---- */

/* A socket of this user, with the port `port`; 0: the kernel chooses when it connects. */
static int open_as(uid_t uid, in_port_t port)
{
	struct sockaddr_storage from = w.to;
	int fd;

	assert_int_equal(seteuid(uid), 0);
	fd = socket(w.to.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(seteuid(0), 0);
	assert_true(fd >= 0);
	/* sin_port and sin6_port are at the same place. */
	((struct sockaddr_in *)&from)->sin_port = htons(port);
	if (port)
		assert_int_equal(bind(fd, (struct sockaddr *)&from, w.len), 0);
	return fd;
}

static in_port_t port_of(int fd)
{
	return hvd_addr_port_of(fd);
}

static int kept(int fd)
{
	assert_true(w.n_fds < (int)(sizeof(w.fds) / sizeof(w.fds[0])));
	w.fds[w.n_fds++] = fd;
	return fd;
}

static int connected(int fd)
{
	assert_int_equal(connect(fd, (struct sockaddr *)&w.to, w.len), 0);
	return fd;
}

#define PUT "PUT /s/k HTTP/1.1\r\nContent-Length: 5\r\n\r\nbob's"

/* A complete request: of HTTP, or of a TCPStore client. */
static struct bytes request(bool tcpstore)
{
	struct bytes b = {0};

	if (!tcpstore) {
		add_raw(&b, PUT, strlen(PUT));
		return b;
	}
	add_validate(&b);
	add_ping(&b, 77);
	add_pair(&b, HVD_TCPSTORE_SET, "k", "bob's");
	return b;
}

static void say(int fd, bool tcpstore)
{
	struct bytes b = request(tcpstore);

	assert_int_equal(send(fd, b.p, b.n, MSG_NOSIGNAL), b.n);
	free(b.p);
}

/* The client was answered, and what it has sent was done. */
static void was_served(int fd, bool tcpstore)
{
	uint64_t before = stats().puts + stats().tcpstore_requests;
	char text[64];
	hvd_time until = hvd_deadline_in(5);

	say(fd, tcpstore);
	while (hvd_left(until) > 0 && stats().puts + stats().tcpstore_requests == before)
		turn(0.001);
	turn(0.01);
	assert_true(stats().puts + stats().tcpstore_requests > before);
	assert_true(recv(fd, text, sizeof(text), MSG_DONTWAIT) > 0);
	assert_true(tcpstore || memcmp(text, "HTTP/1.1 200", 12) == 0);
}

/* ---- tests ---- */

#define NEEDS_NAMESPACE                                                                                                \
	do {                                                                                                           \
		if (!namespace)                                                                                        \
			skip_because("needs root, and a network of its own");                                          \
	} while (0)

static void a_port_that_changes_hands(void **state)
{
	NEEDS_NAMESPACE;
	set_ipv4("ip_local_port_range", PORTS);
	for (size_t i = 0; i < WAYS; i++)
		for (int tcpstore = 0; tcpstore < 2; tcpstore++) {
			in_port_t port;
			int bob, alice;

			begin(&ways[i]);
			bob = connected(open_as(BOB, 0));
			port = port_of(bob);
			say(bob, tcpstore);
			set_reset(bob);
			close(bob);
			/* His connection is in the queue, and the port is hers. */
			alice = kept(connected(open_as(0, port)));
			turn(0.02);
			nothing_was_done(&ways[i]);
			assert_int_equal(stats().refused_user, 1);
			send(alice, "HEAD /s/k HTTP/1.0\r\n\r\n", 22, MSG_NOSIGNAL);
			turn(0.02);
			assert_int_equal(stats().gets, 1);
			assert_int_equal(stats().refused_user, 1);
			end();
		}
}

/* A client that waits for its answer only is no stranger. */
static void one_that_has_sent_all(void **state)
{
	NEEDS_NAMESPACE;
	set_ipv4("ip_local_port_range", PORTS);
	for (size_t i = 0; i < WAYS; i++) {
		char text[64] = "";
		int fd;

		begin(&ways[i]);
		fd = kept(connected(open_as(0, 0)));
		say(fd, false);
		shutdown(fd, SHUT_WR);
		turn(0.02);
		assert_true(recv(fd, text, sizeof(text) - 1, MSG_DONTWAIT) > 0);
		assert_in(text, "HTTP/1.1 200");
		end();
	}
}

/* Where bob's socket is bound to a device the kernel does not find it, and answers with hers, which listens. */
static void a_port_at_which_alice_listens(void **state)
{
	NEEDS_NAMESPACE;
	set_ipv4("ip_local_port_range", "22000 22099"); /* without TIME_WAIT of the test before */
	for (size_t i = 0; i < WAYS; i++)
		for (int tcpstore = 0; tcpstore < 2; tcpstore++) {
			struct sockaddr_storage any = {0};
			int bob, alice, on = 1;

			begin(&ways[i]);
			bob = kept(open_as(BOB, 0));
			setsockopt(bob, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
			if (setsockopt(bob, SOL_SOCKET, SO_BINDTODEVICE, "lo", 3) != 0) {
				end();
				skip_because("the kernel binds sockets to devices for root only");
			}
			connected(bob);
			alice = kept(open_as(0, 0));
			setsockopt(alice, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
			any.ss_family = w.to.ss_family;
			((struct sockaddr_in *)&any)->sin_port = htons(port_of(bob));
			assert_int_equal(bind(alice, (struct sockaddr *)&any, w.len), 0);
			assert_int_equal(listen(alice, 1), 0);
			say(bob, tcpstore);
			turn(0.02);
			nothing_was_done(&ways[i]);
			assert_int_equal(stats().refused_user, 1);
			end();
		}
}

/* One that still connects may have the port of a connection that is not its own. */
static void one_that_still_connects_owns_nothing(void **state)
{
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	struct sockaddr_storage local = {0}, peer = {0};
	socklen_t len = sizeof(at);
	uid_t uid = 4242;
	int listener, nl = hvd_peer_uid_open(), fds[2];

	listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(listener, (struct sockaddr *)&at, len), 0);
	assert_int_equal(listen(listener, 0), 0);
	assert_int_equal(getsockname(listener, (struct sockaddr *)&at, &len), 0);
	memcpy(&local, &at, sizeof(at));
	for (int i = 0; i < 2; i++) {
		fds[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
		assert_true(connect(fds[i], (struct sockaddr *)&at, len) == 0 || errno == EINPROGRESS);
		len = sizeof(peer);
		assert_int_equal(getsockname(fds[i], (struct sockaddr *)&peer, &len), 0);
		len = sizeof(at);
		if (nl >= 0)
			assert_int_equal(hvd_peer_uid_diag(nl, (uint32_t)i, &peer, &local, &uid, NULL), i);
		/* The second one's SYN found the queue full. */
		assert_int_equal(hvd_peer_uid_proc(&peer, &local, &uid), i);
	}
	for (int i = 0; i < 2; i++)
		close(fds[i]);
	close(listener);
	close(nl);
}

/* Fill the queue of connections of which no data has come, so that the kernel makes cookies of all others. */
static void fill_queue(void)
{
	for (int i = 0; i < BACKLOG + 4; i++) {
		int fd = kept(open_as(BOB, (in_port_t)(FILLERS + i)));

		assert_int_equal(fcntl(fd, F_SETFL, O_NONBLOCK), 0);
		if (connect(fd, (struct sockaddr *)&w.to, w.len) != 0)
			assert_int_equal(errno, EINPROGRESS);
	}
	turn(0.01);
}

/* As begin(), with a short queue, that is full. */
static void begin_with_cookies(const struct way *way)
{
	struct sockaddr_storage at;
	struct hvd_addr addr;
	size_t which;
	int fd;

	begin(way);
	assert_int_equal(hvd_addr_parse(way->listen, &addr), 0);
	hvd_addr_to_sockaddr(&addr, 0, &at);
	assert_int_equal(hvd_listen_all(&at, 1, 0, 0, &fd, &which), 0);
	assert_int_equal(listen(fd, BACKLOG), 0);
	((struct sockaddr_in *)&w.to)->sin_port = htons(hvd_addr_port_of(fd));
	hvd_rv_listen_fd(w.rv, fd);
	fill_queue();
}

/* A counter of the kernel's, as nstat shows it: cookies that have come back. */
static long cookies_used(void)
{
	FILE *f = fopen("/proc/net/netstat", "r");
	char names[8192], values[8192], *at, *name;
	long used = -1;
	int column = 0;

	assert_non_null(f);
	assert_non_null(fgets(names, sizeof(names), f));
	assert_non_null(fgets(values, sizeof(values), f));
	fclose(f);
	for (name = strtok_r(names, " \n", &at); name && strcmp(name, "SyncookiesRecv") != 0;
	     name = strtok_r(NULL, " \n", &at))
		column++;
	assert_non_null(name);
	for (char *value = strtok_r(values, " \n", &at); value && column >= 0; value = strtok_r(NULL, " \n", &at))
		used = column-- == 0 ? atol(value) : used;
	return used;
}

/* The kernel delays the acknowledgement of this socket's connection until it sends something. */
static int quiet(int fd)
{
	int on = 1;

	setsockopt(fd, IPPROTO_TCP, TCP_DEFER_ACCEPT, &on, sizeof(on));
	return fd;
}

/* Both have a connection with one port, as far as they know, and bob is the first to send something. */
static void a_second_socket_with_the_port_of_hers(void **state)
{
	NEEDS_NAMESPACE;
	set_ipv4("tcp_syncookies", "1");
	for (size_t i = 0; i < WAYS; i++)
		for (int tcpstore = 0; tcpstore < 2; tcpstore++) {
			long before = cookies_used();
			char one_port[32];
			int bob, alice;

			set_ipv4("ip_local_port_range", PORTS);
			begin_with_cookies(&ways[i]);
			snprintf(one_port, sizeof(one_port), "%zu %zu", 21000 + 2 * i, 21000 + 2 * i);
			set_ipv4("ip_local_port_range", one_port);
			bob = kept(quiet(open_as(BOB, 0)));
			if (setsockopt(bob, SOL_SOCKET, SO_BINDTODEVICE, "lo", 3) != 0) {
				end();
				skip_because("the kernel binds sockets to devices for root only");
			}
			connected(bob);
			alice = kept(connected(quiet(open_as(0, 0))));
			assert_int_equal(port_of(alice), port_of(bob));
			say(bob, tcpstore);
			turn(0.02);
			assert_true(cookies_used() > before);
			nothing_was_done(&ways[i]);
			end();
		}
}

static void she_is_served_by_cookies(void **state)
{
	NEEDS_NAMESPACE;
	set_ipv4("tcp_syncookies", "1");
	set_ipv4("ip_local_port_range", PORTS);
	for (size_t i = 0; i < WAYS; i++) {
		uint64_t refused;
		long before;
		char text[256];
		int fd;

		if (ways[i].proc)
			continue;
		for (int tcpstore = 0; tcpstore < 2; tcpstore++) {
			begin_with_cookies(&ways[i]);
			before = cookies_used();
			fd = kept(connected(open_as(0, 0)));
			assert_int_equal(cookies_used(), before + 1);
			turn(0.02); /* it is accepted before it sends anything */
			was_served(fd, tcpstore);
			if (!tcpstore) {
				fd = kept(connected(quiet(open_as(0, 0))));
				was_served(fd, false);
				assert_int_equal(cookies_used(), before + 2);
			}
			/* Another user's is refused. */
			refused = stats().refused_user;
			fd = kept(connected(open_as(BOB, 0)));
			turn(0.02);
			assert_true(stats().refused_user > refused);
			assert_true(recv(fd, text, sizeof(text), MSG_DONTWAIT) > 0);
			assert_memory_equal(text, "HTTP/1.1 403", 12);
			end();
		}
	}
}

/* Alice's requests come one after the other, as fast as they are answered. Exit status 0 when there were some. */
static pid_t alice_asks(double seconds)
{
	static const char text[] = "HEAD /s/alice HTTP/1.0\r\n\r\n";
	hvd_time until = hvd_deadline_in(seconds), give_up = hvd_deadline_in(seconds + 20);
	pid_t pid = fork();
	int asked = 0;

	if (pid != 0)
		return pid;
	while (hvd_left(asked > 0 ? until : give_up) > 0) {
		int fd = socket(w.to.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
		struct pollfd p = {.fd = fd, .events = POLLIN};

		/* At a time when bob has all ports, or the queue is full, a little later. */
		if ((connect(fd, (struct sockaddr *)&w.to, w.len) == 0 || errno == EINPROGRESS) &&
		    send(fd, text, strlen(text), MSG_NOSIGNAL) > 0)
			asked += poll(&p, 1, 500) == 1;
		close(fd);
	}
	_exit(asked > 0 ? 0 : 1);
}

/* Bob's requests, with one port after the other. */
static pid_t bob_floods(double seconds, bool tcpstore)
{
	hvd_time until = hvd_deadline_in(seconds);
	struct bytes b = request(tcpstore);
	struct sockaddr_storage from = w.to;
	unsigned n = 0;
	pid_t pid = fork();

	if (pid != 0) {
		free(b.p);
		return pid;
	}
	if (setgid(BOB) != 0 || setuid(BOB) != 0)
		_exit(99);
	for (unsigned i = 0; hvd_left(until) > 0; i++) {
		int fd = socket(w.to.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

		((struct sockaddr_in *)&from)->sin_port = htons((in_port_t)(20000 + i % 100));
		if (bind(fd, (struct sockaddr *)&from, w.len) == 0 &&
		    (connect(fd, (struct sockaddr *)&w.to, w.len) == 0 || errno == EINPROGRESS) &&
		    send(fd, b.p, b.n, MSG_NOSIGNAL) > 0)
			n++;
		set_reset(fd);
		close(fd);
	}
	_exit(n > 100 ? 0 : 1);
}

static int exit_of(pid_t pid)
{
	int status = -1;

	while (waitpid(pid, &status, WNOHANG) == 0)
		turn(0.001);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void ports_that_change_hands_at_full_rate(void **state)
{
	const char *said = getenv("HVD_TEST_FLOOD_SECONDS");
	double seconds = said ? atof(said) : 0.3;

	NEEDS_NAMESPACE;
	set_ipv4("ip_local_port_range", PORTS);
	for (size_t i = 0; i < WAYS; i++)
		for (int tcpstore = 0; tcpstore < 2; tcpstore++) {
			struct hvd_rv_stats s;
			pid_t alice, bob;

			begin(&ways[i]);
			bob = bob_floods(seconds, tcpstore);
			alice = alice_asks(seconds);
			assert_int_equal(exit_of(alice), 0);
			assert_int_equal(exit_of(bob), 0);
			turn(0.05);
			s = stats();
			if (s.puts + s.tcpstore_requests > 0 || said)
				print_message("%s: %llu connections, %llu refused, %llu of alice's answered; %llu and "
					      "%llu of bob's\n",
					      ways[i].name, (unsigned long long)s.connections,
					      (unsigned long long)s.refused_user, (unsigned long long)s.gets,
					      (unsigned long long)s.puts, (unsigned long long)s.tcpstore_requests);
			assert_int_equal(s.puts + s.tcpstore_requests, 0);
			assert_null(hvd_rv_get(w.rv, "s", "k"));
			assert_true(s.gets > 0);
			assert_true(s.refused_user > 100);
			end();
		}
}

/* test_store_owner_floods.c is this file with another value. */
#ifndef FLOODS
#define FLOODS 0
#endif

int main(void)
{
	const struct CMUnitTest floods[] = {
		cmocka_unit_test(ports_that_change_hands_at_full_rate),
	};
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_port_that_changes_hands),
		cmocka_unit_test(one_that_has_sent_all),
		cmocka_unit_test(a_port_at_which_alice_listens),
		cmocka_unit_test(one_that_still_connects_owns_nothing),
		cmocka_unit_test(a_second_socket_with_the_port_of_hers),
		cmocka_unit_test(she_is_served_by_cookies),
	};

	if (FLOODS)
		return cmocka_run_group_tests_name("store_owner_floods", floods, make_namespace, NULL);
	return cmocka_run_group_tests_name("store_owner", tests, make_namespace, NULL);
}
