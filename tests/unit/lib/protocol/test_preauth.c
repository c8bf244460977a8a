/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Strangers at a driver's port, over loopback: ::1 and 127.0.0.1 are two addresses to come from.
 */
#include "lib/protocol/preauth.h"

#include "lib/net/listen.h"
#include "lib/process/rlimits.h"
#include "tests/unit/unit.h"

#include <errno.h>
#include <event2/event.h>
#include <fcntl.h>
#include <malloc.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>

static const struct hvd_key key = {"the launch's own key, 32 bytes."}, other = {"another launch's key, 32 bytes."};

struct door {
	struct event_base *base;
	struct event *watchdog;
	struct hvd_session session;
	struct hvd_preauth *pending;
	in_port_t port;
	unsigned proven, refused, dropped, full;
	struct hvd_conn *last;
	struct hvd_addr from;
	struct hvd_err why;
	int fds_before;
	bool too_long;
};

static void on_later_message(struct hvd_conn *conn, json_t *msg, void *arg)
{
}

static void on_later_closed(struct hvd_conn *conn, const struct hvd_err *why, void *arg)
{
}

static void on_proven(struct hvd_conn *conn, void *arg)
{
	static const struct hvd_conn_ops ops = {.message = on_later_message, .closed = on_later_closed};
	struct door *d = arg;

	hvd_conn_set_ops(conn, &ops, d);
	d->proven++;
	hvd_conn_free(d->last);
	d->last = conn;
}

static void on_refused(const struct hvd_addr *from, const struct hvd_err *why, void *arg)
{
	struct door *d = arg;

	d->refused++;
	d->from = *from;
	d->why = *why;
}

static void on_dropped(const struct hvd_addr *from, const struct hvd_err *why, void *arg)
{
	struct door *d = arg;

	d->dropped++;
	d->from = *from;
	d->why = *why;
}

static void on_full(void *arg)
{
	((struct door *)arg)->full++;
}

static void on_watchdog(evutil_socket_t fd, short what, void *arg)
{
	((struct door *)arg)->too_long = true;
}

static void open_door(struct door *d, unsigned max)
{
	static const struct hvd_preauth_ops ops = {on_proven, on_refused, on_dropped, on_full};
	struct hvd_identity id = {.kind = HVD_ID_KEY, .key = key};
	struct timeval tv = {.tv_sec = 40};
	struct hvd_err err = {0};
	int fd;

	memset(d, 0, sizeof(*d));
	d->fds_before = open_fds();
	d->base = event_base_new();
	d->watchdog = evtimer_new(d->base, on_watchdog, d);
	evtimer_add(d->watchdog, &tv);
	assert_int_equal(hvd_session_create(&d->session, &id, &err), 0);
	fd = hvd_listen_any(false, 0, 0, &d->port, &err);
	assert_true(fd >= 0);
	d->pending = hvd_preauth_create(d->base, fd, &d->session, max, &ops, d, &err);
	assert_non_null(d->pending);
}

static void close_door(struct door *d)
{
	hvd_preauth_destroy(d->pending);
	hvd_conn_free(d->last);
	event_free(d->watchdog);
	event_base_dispatch(d->base); /* goodbyes on their way out */
	event_base_free(d->base);
	assert_int_equal(open_fds(), d->fds_before);
}

static int knock(const struct door *d, const char *at)
{
	struct sockaddr_storage ss;
	struct hvd_addr addr;
	socklen_t len;
	int fd;

	assert_int_equal(hvd_addr_parse(at, &addr), 0);
	len = hvd_addr_to_sockaddr(&addr, d->port, &ss);
	fd = socket(addr.family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd >= 0 && connect(fd, (struct sockaddr *)&ss, len) == 0)
		return fd;
	if (fd >= 0)
		close(fd);
	return -1;
}

static void turn(struct door *d)
{
	event_base_loop(d->base, EVLOOP_ONCE | EVLOOP_NONBLOCK);
	assert_false(d->too_long);
}

#define until(d, condition)                                                                                            \
	while (!(condition)) {                                                                                         \
		event_base_loop((d)->base, EVLOOP_ONCE);                                                               \
		assert_false((d)->too_long);                                                                           \
	}

/* What has become of a connection: 'g' greeted, 'c' closed, 0 nothing yet. */
static char fate(int fd)
{
	char byte;
	ssize_t n = recv(fd, &byte, 1, MSG_DONTWAIT | MSG_PEEK);

	return n > 0 ? 'g' : n == 0 || errno != EAGAIN ? 'c' : 0;
}

static bool closed(int fd)
{
	char text[1024];
	ssize_t n;

	while ((n = recv(fd, text, sizeof(text), MSG_DONTWAIT)) > 0)
		;
	return n == 0 || errno != EAGAIN;
}

/* A shim's side, in the same loop. */
struct shim {
	struct hvd_session session;
	struct hvd_handshake hs;
	struct hvd_conn *conn;
	bool done, failed;
};

static void on_message(struct hvd_conn *conn, json_t *msg, void *arg)
{
	struct shim *shim = arg;
	int rc = hvd_handshake_message(&shim->hs, conn, msg, NULL);

	shim->done |= rc > 0;
	shim->failed |= rc < 0;
}

static void on_closed(struct hvd_conn *conn, const struct hvd_err *why, void *arg)
{
	((struct shim *)arg)->failed = true;
}

static void come(struct shim *shim, struct door *d, const char *at, const struct hvd_key *with)
{
	static const struct hvd_conn_ops ops = {.message = on_message, .closed = on_closed};
	int fd = knock(d, at);

	assert_true(fd >= 0);
	memset(shim, 0, sizeof(*shim));
	memcpy(shim->session.id, d->session.id, sizeof(shim->session.id));
	shim->session.identity = (struct hvd_identity){.kind = HVD_ID_KEY, .key = *with};
	hvd_session_bind_key(&shim->session);
	shim->conn = hvd_conn_new(d->base, fd, false, &ops, shim);
	assert_int_equal(hvd_handshake_start(&shim->hs, &shim->session, NULL), 0);
}

static bool have_ipv6(void)
{
	struct sockaddr_in6 at = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
	int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
	bool have = fd >= 0 && bind(fd, (struct sockaddr *)&at, sizeof(at)) == 0;

	if (fd >= 0)
		close(fd);
	return have;
}

/* ---- */

TEST(one_that_proves_who_it_is)
{
	struct door d;
	struct shim shim;

	open_door(&d, 8);
	come(&shim, &d, "127.0.0.1", &key);
	until(&d, shim.done);
	assert_int_equal(d.proven, 1);
	hvd_conn_free(shim.conn);
	assert_int_equal(d.refused + d.dropped, 0);
	close_door(&d);
}

TEST(one_that_cannot)
{
	struct door d;
	struct shim shim;

	open_door(&d, 8);
	come(&shim, &d, "127.0.0.1", &other);
	until(&d, shim.failed);
	assert_int_equal(d.refused, 1);
	assert_int_equal(d.proven, 0);
	assert_int_equal(d.why.code, HVD_E_AUTH);
	assert_true(hvd_addr_loopback(&d.from));
	hvd_conn_free(shim.conn);
	close_door(&d);
}

TEST(one_that_talks_rubbish)
{
	struct door d;
	int fd;

	open_door(&d, 8);
	fd = knock(&d, "127.0.0.1");
	assert_int_equal(write(fd, "GET / HTTP/1.1\r\n\r\n", 18), 18);
	until(&d, d.dropped);
	assert_int_equal(d.why.code, HVD_E_PROTO);
	until(&d, closed(fd));
	close(fd);
	/* Who says nothing and goes is nobody's concern. */
	fd = knock(&d, "127.0.0.1");
	until(&d, fate(fd) == 'g');
	close(fd);
	for (int i = 0; i < 20; i++)
		turn(&d);
	assert_int_equal(d.dropped + d.refused, 1);
	close_door(&d);
}

/* Too many from one address: theirs go, the oldest first, and nobody else's. */
TEST(a_crowd_drives_out_its_own)
{
	enum {
		MAX = 10,
		CROWD = 25 /* all of them within the time that one has to prove who it is, also on a slow machine */
	};
	struct door d;
	int fds[CROWD], late[2];

	if (!have_ipv6())
		skip_because("this machine has no ::1");
	open_door(&d, MAX);
	late[0] = knock(&d, "::1");
	until(&d, fate(late[0]) == 'g');
	for (int i = 0; i < CROWD; i++) {
		fds[i] = knock(&d, "127.0.0.1");
		until(&d, fate(fds[i]) == 'g');
	}
	late[1] = knock(&d, "::1");
	until(&d, fate(late[1]) == 'g');
	until(&d, closed(fds[CROWD - MAX + 1]));
	for (int i = 0; i < CROWD; i++)
		assert_int_equal(closed(fds[i]), i <= CROWD - MAX + 1);
	assert_false(closed(late[0]));
	assert_false(closed(late[1]));
	for (int i = 0; i < CROWD; i++)
		close(fds[i]);
	close(late[0]);
	close(late[1]);
	close_door(&d);
}

/* Without descriptors the crowd makes room, too; with nobody to go it is told, once. */
TEST(no_descriptor_left)
{
	enum {
		CROWD = 40
	};
	struct rlimit before, few;
	struct door d;
	struct shim shim;
	int fds[CROWD];

	open_door(&d, 1000);
	for (int i = 0; i < CROWD; i++)
		assert_true((fds[i] = knock(&d, "127.0.0.1")) >= 0);
	getrlimit(RLIMIT_NOFILE, &before);
	few = before;
	few.rlim_cur = (rlim_t)dup(fds[0]) + 1;
	close((int)few.rlim_cur - 1);
	few.rlim_cur += 5;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
	until(&d, fate(fds[CROWD - 1]) == 'g');
	assert_int_equal(d.full, 0);
	assert_true(closed(fds[0]));
	setrlimit(RLIMIT_NOFILE, &before);
	come(&shim, &d, "127.0.0.1", &key);
	until(&d, shim.done);
	hvd_conn_free(shim.conn);
	for (int i = 0; i < CROWD; i++)
		close(fds[i]);
	for (int i = 0; i < 50; i++)
		turn(&d);
	fds[0] = knock(&d, "127.0.0.1");
	few.rlim_cur = 3; /* below all that are open */
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
	until(&d, d.full);
	for (hvd_time end = hvd_deadline_in(0.3); hvd_left(end) > 0;)
		turn(&d);
	assert_int_equal(d.full, 1);
	setrlimit(RLIMIT_NOFILE, &before);
	until(&d, fate(fds[0]) == 'g');
	close(fds[0]);
	close_door(&d);
}

/* Their messages, of which the last byte is missing, are not in this process's memory. */
TEST(a_crowd_with_long_messages_holds_no_memory)
{
	enum {
		CROWD = 400
	};
	static char text[8100];
	unsigned char *message;
	struct hvd_wire wire;
	struct door d;
	struct shim shim;
	int fds[CROWD];
	size_t before, after, len;
	json_t *long_one;

	memset(text, 'x', sizeof(text) - 1);
	long_one = json_pack("{s:s}", "cred", text);
	hvd_wire_init(&wire, false);
	assert_int_equal(hvd_wire_encode(&wire, long_one, &message, &len, NULL), 0);
	json_decref(long_one);
	open_door(&d, 2 * CROWD);
	for (int i = 0; i < CROWD; i++) {
		assert_true((fds[i] = knock(&d, "127.0.0.1")) >= 0);
		until(&d, fate(fds[i]) == 'g');
	}
	before = mallinfo2().uordblks;
	for (int i = 0; i < CROWD; i++) {
		assert_int_equal(write(fds[i], message, 100), 100);
		turn(&d);
		assert_int_equal(write(fds[i], message + 100, len - 101), len - 101);
		turn(&d);
	}
	for (int i = 0; i < 100; i++)
		turn(&d);
	after = mallinfo2().uordblks;
	print_message("%zu bytes for each\n", (after - before) / CROWD);
	assert_true(after < before + CROWD * 128);
	assert_int_equal(d.dropped, 0);
	/* Others come in, the rest of a message counts, and so does an end within one. */
	come(&shim, &d, "127.0.0.1", &key);
	until(&d, shim.done);
	hvd_conn_free(shim.conn);
	assert_int_equal(write(fds[0], message + len - 1, 1), 1);
	until(&d, d.refused);
	assert_in(d.why.msg, "a message lacks the string");
	close(fds[1]);
	until(&d, d.dropped == 1);
	assert_in(d.why.msg, "closed the connection within a message");
	for (int i = 0; i < CROWD; i++)
		if (i != 1)
			close(fds[i]);
	until(&d, d.dropped == CROWD - 1);
	free(message);
	close_door(&d);
}

static void on_tick(evutil_socket_t fd, short what, void *arg)
{
	(*(unsigned *)arg)++;
}

/* Connects as fast as it can, and keeps `open` of them, until it is killed. */
static void flood(const struct door *d, size_t open)
{
	int *fds = calloc(open, sizeof(*fds));
	struct linger now = {.l_onoff = 1};

	/* Whatever becomes of the test. */
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	alarm(20);
	for (size_t i = 0;; i = (i + 1) % open) {
		if (fds[i] > 0) {
			setsockopt(fds[i], SOL_SOCKET, SO_LINGER, &now, sizeof(now));
			close(fds[i]);
		}
		fds[i] = knock(d, "127.0.0.1");
	}
}

/* Timers are kept and shims come in, while others connect without a pause. */
TEST(a_flood)
{
	static const size_t open[] = {1, 500};
	struct timeval tv = {.tv_usec = 10000};
	struct event *tick;
	struct door d;
	unsigned ticks;
	pid_t pids[2];

	for (size_t i = 0; i < 2; i++) {
		open_door(&d, 200);
		ticks = 0;
		tick = event_new(d.base, -1, EV_PERSIST, on_tick, &ticks);
		event_add(tick, &tv);
		for (int p = 0; p < 2; p++) {
			pids[p] = fork();
			if (pids[p] == 0)
				flood(&d, open[i]);
			assert_true(pids[p] > 0);
		}
		for (unsigned n = 0; n < 5;) {
			struct shim shim;

			come(&shim, &d, "127.0.0.1", &key);
			until(&d, shim.done || shim.failed);
			n += shim.done; /* one that was driven out tries again */
			hvd_conn_free(shim.conn);
		}
		until(&d, ticks > 5);
		for (int p = 0; p < 2; p++) {
			kill(pids[p], SIGKILL);
			waitpid(pids[p], NULL, 0);
		}
		assert_int_equal(d.full, 0);
		event_free(tick);
		close_door(&d);
	}
}

RUN_TESTS(.no_sigpipe = true)
