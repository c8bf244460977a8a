/* SPDX-License-Identifier: Apache-2.0 */
/* The server for HTTP clients. */
#include "lib/net/accept.h"
#include "lib/net/sock_diag.h"
#include "rv_world.h"

#include <ifaddrs.h>
#include <netinet/tcp.h>
#include <sys/wait.h>

#define NOBODY 65534
#define STAY   "Connection: keep-alive\r\n"

static int setup(void **state)
{
	struct world *w = make_world(state);

	w->cfg.get_wait = 0.2;
	w->cfg.rank_wait = 0.6;
	w->cfg.stall = 0.3;
	w->cfg.head_time = 0.8;
	w->cfg.idle = 0.5;
	return 0;
}

static void say(int fd, const char *text)
{
	assert_int_equal(send(fd, text, strlen(text), MSG_NOSIGNAL), strlen(text));
}

struct answer {
	int status; /* 0: closed without one; -1: nothing came in time */
	double took;
	size_t len;
	char head[512];
	char body[4096];
};

/* Read one answer. */
static struct answer hear(struct world *w, int fd, double patience)
{
	struct answer a = {.status = -1};
	hvd_time begun = hvd_now(), until = hvd_deadline_in(patience);
	size_t n = 0;

	while (hvd_left(until) > 0) {
		char *end = NULL, *length;
		ssize_t got;

		got = recv(fd, a.head + n, 1, MSG_DONTWAIT);
		if (got < 0 && errno == EAGAIN) {
			turn(w, 0);
			continue;
		}
		if (got <= 0) {
			a.status = 0;
			break;
		}
		n++;
		a.head[n] = '\0';
		end = strstr(a.head, "\r\n\r\n");
		if (!end)
			continue;
		a.status = atoi(a.head + 9);
		length = strstr(a.head, "Content-Length: ");
		a.len = length ? strtoul(length + 16, NULL, 10) : 0;
		for (size_t at = 0; at < a.len && at < sizeof(a.body) - 1 && hvd_left(until) > 0;) {
			turn(w, 0);
			got = recv(fd, a.body + at, (a.len < sizeof(a.body) ? a.len : sizeof(a.body) - 1) - at,
				   MSG_DONTWAIT);
			if (got == 0)
				break;
			at += got > 0 ? (size_t)got : 0;
		}
		break;
	}
	a.took = (double)(hvd_now() - begun) / 1e9;
	return a;
}

static struct answer ask(struct world *w, const char *text)
{
	int fd = dial(w);
	struct answer a;

	say(fd, text);
	a = hear(w, fd, 5);
	close(fd);
	turn(w, 0);
	return a;
}

static struct answer put(struct world *w, const char *path, const char *value)
{
	char text[4096];

	snprintf(text, sizeof(text), "PUT %s HTTP/1.1\r\nHost: h\r\nContent-Length: %zu\r\n\r\n%s", path, strlen(value),
		 value);
	return ask(w, text);
}

static struct answer get(struct world *w, const char *path)
{
	char text[512];

	snprintf(text, sizeof(text), "GET %s HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n", path);
	return ask(w, text);
}

TEST_IN(serves_workers, struct world *w)
{
	struct answer a;

	begin(w);
	assert_int_equal(put(w, "/global/0", "address").status, 200);
	a = get(w, "/global/0");
	assert_int_equal(a.status, 200);
	assert_string_equal(a.body, "address");
	assert_int_equal(ask(w, "HEAD /global/0 HTTP/1.0\r\n\r\n").status, 200);
	assert_int_equal(ask(w, "HEAD /global/none HTTP/1.0\r\n\r\n").status, 404);
	assert_int_equal(ask(w, "DELETE /global/0 HTTP/1.1\r\nContent-Length: 0\r\n\r\n").status, 200);
	assert_int_equal(get(w, "/global/0").status, 404);
	assert_int_equal(put(w, "/empty/0", "").status, 200);
	assert_int_equal(get(w, "/empty/0").len, 0);
	assert_int_equal(stats(w).puts, 2);
	assert_int_equal(stats(w).gets, 5);
	turn(w, 0.02);
	assert_int_equal(stats(w).conns_now, 0);
}

TEST_IN(refuses_with_a_status, struct world *w)
{
	static const struct {
		const char *text;
		int status;
	} cases[] = {
		{"GET /one HTTP/1.1\r\n\r\n", 400},
		{"GET /one/two/three HTTP/1.1\r\n\r\n", 400},
		{"PUT /a/b HTTP/1.1\r\n\r\n", 411},
		{"PUT /a/b HTTP/1.1\r\nContent-Length: 101\r\n\r\n", 413},
		{"PUT /a/b HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n", 501},
		{"POST /a/b HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc", 501},
		{"GET /a/b HTTP/3.0\r\n\r\n", 505},
		{"\x16\x03\x01\x02", 400},
		{"GET /a/b HTTP/1.1\r\nContent-Length: 70000\r\n\r\n", 413},
	};

	w->cfg.store.value_max = 100;
	begin(w);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		assert_int_equal(ask(w, cases[i].text).status, cases[i].status);
	turn(w, 0.1);
	assert_int_equal(stats(w).conns_now, 0);
	assert_int_equal(stats(w).store.bytes, 0);
}

TEST_IN(says_when_there_is_no_room, struct world *w)
{
	char value[1001], path[32];
	int i;

	memset(value, 'v', 1000);
	value[1000] = '\0';
	w->cfg.store.total_max = 10000;
	w->cfg.store.scope_keys_max = 5;
	begin(w);
	for (i = 0; i < 5; i++) {
		snprintf(path, sizeof(path), "/s/%d", i);
		assert_int_equal(put(w, path, value).status, 200);
	}
	assert_int_equal(put(w, "/s/more", value).status, 507);
	for (i = 0; i < 100; i++) {
		snprintf(path, sizeof(path), "/t%d/k", i);
		if (put(w, path, value).status == 507)
			break;
	}
	assert_int_in_range(i, 1, 5);
	if (w->relayed) /* the root needs room for what it knows of relays */
		return;
	assert_int_equal(get(w, "/s/0").status, 200);
	assert_int_equal(ask(w, "DELETE /s/0 HTTP/1.1\r\n\r\n").status, 200);
	assert_int_equal(put(w, "/s/5", value).status, 200);
	assert_int_equal(stats(w).refused_room, 2);
}

/* As another peer: all of 127/8 counts as one. */
static int dial6(struct world *w)
{
	struct sockaddr_in6 to = {.sin6_family = AF_INET6, .sin6_port = htons(hvd_rv_port(w->rv))};
	int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);

	to.sin6_addr = in6addr_loopback;
	assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof(to)), 0);
	return fd;
}

/* Heads that promise more than there is room for take no room from others. */
TEST_IN(promises_take_no_room, struct world *w)
{
	int fds[100];

	w->cfg.store.total_max = 1 << 20;
	w->cfg.store.value_max = 1 << 20;
	begin(w);
	for (size_t i = 0; i < 100; i++) {
		fds[i] = dial(w);
		say(fds[i], "PUT /s/k HTTP/1.1\r\nContent-Length: 1000000\r\n\r\n");
	}
	turn(w, 0.05);
	assert_int_equal(stats(w).conns_now, 100);
	assert_int_equal(put(w, "/s/small", "v").status, 200);
	assert_int_equal(get(w, "/s/small").status, 200);
	for (size_t i = 0; i < 100; i++)
		close(fds[i]);
	turn(w, 0.05);
	assert_int_equal(stats(w).conns_now, 0);
}

/* What is on its way takes room, from its address only so much. */
TEST_IN(what_is_on_its_way_is_bounded_by_address, struct world *w)
{
	static char part[60001];
	int fds[8], fd;

	memset(part, 'v', sizeof(part) - 1);
	w->cfg.store.total_max = 10 << 20;
	w->cfg.store.value_max = 100000;
	w->cfg.pending_max = 400000;
	w->cfg.stall = 5;
	begin_at(w, 2);
	/* Each is charged for up to 100,000 bytes: four of them. */
	for (int i = 0; i < 8; i++) {
		fds[i] = dial(w);
		say(fds[i], "PUT /s/k HTTP/1.1\r\nContent-Length: 100000\r\n\r\n");
		say(fds[i], part);
		turn(w, 0.02);
	}
	assert_int_equal(stats(w).refused_room, 4);
	for (int i = 4; i < 8; i++)
		assert_int_equal(hear(w, fds[i], 1).status, 507);
	/* Others are not concerned. */
	fd = dial6(w);
	say(fd, "PUT /s/k HTTP/1.1\r\nContent-Length: 60000\r\n\r\n");
	say(fd, part);
	assert_int_equal(hear(w, fd, 1).status, 200);
	close(fd);
	/* It may go on when one has gone, and what is complete is no longer on its way. */
	close(fds[0]);
	turn(w, 0.02);
	for (int i = 0; i < 3; i++) {
		fd = dial(w);
		say(fd, "PUT /s/k HTTP/1.1\r\nContent-Length: 60000\r\n\r\n");
		say(fd, part);
		assert_int_equal(hear(w, fd, 1).status, 200);
		close(fd);
	}
	for (int i = 1; i < 8; i++)
		close(fds[i]);
}

/* An address that takes all the places is the one that gives them up. */
TEST_IN(places_go_to_those_who_ask, struct world *w)
{
	int fds[200], held;

	w->cfg.conns_max = 150;
	w->cfg.get_wait = 20;
	begin_at(w, 2);
	held = dial6(w);
	say(held, "GET /s/k HTTP/1.1\r\n\r\n");
	turn(w, 0.02);
	/* Heads that are not complete; then bodies. */
	for (int i = 0; i < 200; i++) {
		fds[i] = dial(w);
		say(fds[i], "GET /s/");
		if (i % 50 == 49)
			turn(w, 0.02);
	}
	assert_int_equal(stats(w).conns_now, 150);
	assert_int_equal(ask(w, "HEAD /s/none HTTP/1.1\r\n\r\n").status, 404);
	assert_int_equal(stats(w).waiting_now, 1);
	for (int i = 0; i < 200; i++)
		close(fds[i]);
	turn(w, 0.05);
	for (int i = 0; i < 200; i++) {
		fds[i] = dial(w);
		say(fds[i], "PUT /s/x HTTP/1.1\r\nContent-Length: 9\r\n\r\nabc");
		if (i % 50 == 49)
			turn(w, 0.02);
	}
	assert_int_equal(put(w, "/s/k", "here").status, 200);
	assert_string_equal(hear(w, held, 1).body, "here");
	close(held);
	for (int i = 0; i < 200; i++)
		close(fds[i]);
}

TEST_IN(holds_until_it_comes, struct world *w)
{
	struct answer a;
	int fd, gone;

	begin(w);
	a = get(w, "/s/never");
	assert_int_equal(a.status, 404);
	assert_true(a.took > 0.19 && a.took < 0.5);
	a = get(w, "/s/rank_3");
	assert_int_equal(a.status, 404);
	assert_true(a.took > 0.59 && a.took < 1.0);

	fd = dial(w);
	gone = dial(w);
	say(fd, "GET /s/k HTTP/1.1\r\n" STAY "\r\nGET /s/k HTTP/1.1\r\n\r\n"); /* the second waits for the first */
	say(gone, "GET /s/k HTTP/1.1\r\n\r\n");
	turn(w, 0.05);
	assert_int_equal(stats(w).waiting_now, 2);
	close(gone);
	turn(w, 0.02);
	assert_int_equal(stats(w).waiting_now, 1);
	assert_int_equal(put(w, "/s/k", "here").status, 200);
	a = hear(w, fd, 1);
	assert_int_equal(a.status, 200);
	assert_string_equal(a.body, "here");
	assert_int_equal(hear(w, fd, 1).status, 200);
	close(fd);
}

TEST_IN(bounds_what_is_held, struct world *w)
{
	struct answer a;
	int fd[2];

	w->cfg.waiting_max = 2;
	w->cfg.get_wait = 5;
	begin(w);
	for (int i = 0; i < 2; i++) {
		fd[i] = dial(w);
		say(fd[i], "GET /s/k HTTP/1.1\r\n\r\n");
	}
	turn(w, 0.05);
	a = get(w, "/s/k");
	assert_int_equal(a.status, 404);
	assert_true(a.took < 0.2);
	assert_int_equal(stats(w).wait_limit, 1);
	for (int i = 0; i < 2; i++)
		close(fd[i]);
}

TEST_IN(keeps_values_until_all_are_done, struct world *w)
{
	begin(w);
	assert_int_equal(hvd_rv_scope_size(w->root, "global", 2, NULL), 0);
	put(w, "/global/rank_0", "h");
	put(w, "/global/0", "a");
	ask(w, "DELETE /global/1 HTTP/1.1\r\n\r\n");
	assert_int_equal(get(w, "/global/0").status, 200);
	ask(w, "DELETE /global/0 HTTP/1.1\r\n\r\n");
	assert_int_equal(get(w, "/global/0").status, 404);
	assert_int_equal(get(w, "/global/rank_0").status, 404);
}

TEST_IN(times_out_what_stalls, struct world *w)
{
	struct answer a;
	int fd;

	begin(w);
	a = ask(w, "PUT /s/k HTTP/1.1\r\nContent-Length: 10\r\n\r\nabc");
	assert_int_equal(a.status, 408);
	assert_true(a.took > 0.29 && a.took < 0.6);
	a = ask(w, "GET /s/k HT");
	assert_int_equal(a.status, 408);
	/* A byte now and then does not help. */
	fd = dial(w);
	for (int i = 0; i < 10 && stats(w).timeouts < 3; i++) {
		send(fd, "G", 1, MSG_NOSIGNAL);
		turn(w, 0.15);
	}
	a = hear(w, fd, 1);
	assert_int_equal(a.status, 408);
	close(fd);
	/* Neither does saying nothing at all, for which the kernel holds back the connection for a second. */
	fd = dial(w);
	for (int i = 0; i < 4000 && a.status != 0; i++) {
		usleep(1000);
		a = hear(w, fd, 0.001);
	}
	assert_int_equal(a.status, 0);
	close(fd);
	turn(w, 0.1);
	assert_int_equal(stats(w).conns_now, 0);
	assert_int_equal(stats(w).store.bytes, 0);
}

TEST_IN(minds_half_closed_input, struct world *w)
{
	static const char put_cut[] = "PUT /s/k HTTP/1.1\r\nContent-Length: 9\r\n\r\nabc";
	static const char *const texts[] = {"GET /s/k HTTP/1.1\r\n\r\n", "GET /s", put_cut};
	static const int want[] = {404, 400, 400};

	begin(w);
	for (int i = 0; i < 3; i++) {
		int fd = dial(w);

		say(fd, texts[i]);
		shutdown(fd, SHUT_WR);
		assert_int_equal(hear(w, fd, 2).status, want[i]);
		close(fd);
	}
	turn(w, 0.1);
	assert_int_equal(stats(w).conns_now, 0);
}

TEST_IN(keeps_connections_and_pipelines, struct world *w)
{
	struct answer a;
	int fd;

	begin(w);
	fd = dial(w);
	say(fd,
	    "PUT /s/1 HTTP/1.1\r\n" STAY "Content-Length: 3\r\n\r\noneGET /s/1 HTTP/1.1\r\n" STAY "\r\nGET /s/1 HTT");
	assert_int_equal(hear(w, fd, 1).status, 200);
	assert_string_equal(hear(w, fd, 1).body, "one");
	say(fd, "P/1.1\r\n" STAY "Content-Length: 4\r\n\r\nskipDELETE /s/1 HTTP/1.0\r\n" STAY "\r\n");
	assert_string_equal(hear(w, fd, 1).body, "one");
	a = hear(w, fd, 1);
	assert_int_equal(a.status, 200);
	assert_non_null(strstr(a.head, "Connection: keep-alive"));
	assert_int_equal(stats(w).connections, 1);
	a = hear(w, fd, 2); /* idle for too long */
	assert_int_equal(a.status, 0);
	assert_true(a.took > 0.4);
	close(fd);
}

/* Of the client's end. */
static int tcp_state(int fd)
{
	struct tcp_info info = {0};
	socklen_t len = sizeof(info);

	assert_int_equal(getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &len), 0);
	return info.tcpi_state;
}

/* Requests as Horovod's workers make them, and as its Python parts do: the port stays taken on the server's side, for
 * the client's end had the other's end first. */
TEST_IN(closes_first, struct world *w)
{
	static const struct {
		const char *text;
		int status;
	} cases[] = {
		{"PUT /global/0 HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 2\r\n\r\nhi", 200},
		{"GET /global/0 HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 0\r\n\r\n", 200},
		{"GET /global/1 HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 0\r\n\r\n", 404},
		{"GET /global/0 HTTP/1.1\r\nAccept-Encoding: identity\r\nHost: h:1\r\nConnection: close\r\n\r\n", 200},
		{"GET /global/0 HTTP/1.0\r\n\r\n", 200},
		{"HEAD /global/0 HTTP/1.1\r\n\r\n", 200},
		{"DELETE /global/0 HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 0\r\n\r\n", 200},
		{"GET /one HTTP/1.1\r\n\r\n", 400},
	};

	begin(w);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		int fd = dial(w);
		struct answer a;

		say(fd, cases[i].text);
		a = hear(w, fd, 5);
		assert_int_equal(a.status, cases[i].status);
		assert_in(a.head, "Connection: close\r\n");
		assert_int_equal(hear(w, fd, 2).status, 0);
		assert_int_equal(tcp_state(fd), TCP_CLOSE_WAIT);
		close(fd);
	}
	turn(w, 0.02);
	assert_int_equal(stats(w).conns_now, 0);
}

/* What came behind the request, and is not going to be answered, does not take away the answer. */
TEST_IN(closes_without_a_reset, struct world *w)
{
	static const char *const behind[] = {"GET /s/k HTTP/1.1\r\n\r\n", "\r\n", "GET /s"};
	char value[2001];

	memset(value, 'v', sizeof(value) - 1);
	value[sizeof(value) - 1] = '\0';
	begin(w);
	assert_int_equal(put(w, "/s/k", value).status, 200);
	for (size_t i = 0; i < sizeof(behind) / sizeof(behind[0]); i++) {
		int fd = dial(w);
		char text[128];
		struct answer a;

		snprintf(text, sizeof(text), "GET /s/k HTTP/1.1\r\n\r\n%s", behind[i]);
		say(fd, text);
		turn(w, 0.02);
		send(fd, behind[i], strlen(behind[i]), MSG_NOSIGNAL);
		turn(w, 0.02);
		a = hear(w, fd, 1);
		assert_int_equal(a.status, 200);
		assert_int_equal(strlen(a.body), sizeof(value) - 1);
		assert_int_equal(hear(w, fd, 1).status, 0);
		close(fd);
	}
	assert_int_equal(stats(w).gets, 3);
	turn(w, 0.02);
	assert_int_equal(stats(w).conns_now, 0);
}

TEST_IN(goes_on_when_asked_to, struct world *w)
{
	char line[64] = "";
	int fd;

	begin(w);
	fd = dial(w);
	say(fd, "PUT /s/1 HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n");
	turn(w, 0.05);
	assert_int_equal(recv(fd, line, sizeof(line) - 1, MSG_DONTWAIT), strlen("HTTP/1.1 100 Continue\r\n\r\n"));
	say(fd, "one");
	assert_int_equal(hear(w, fd, 1).status, 200);
	close(fd);
}

TEST_IN(takes_a_value_in_pieces, struct world *w)
{
	static const char head[] = "PUT /s/1 HTTP/1.1\r\nContent-Length: 5\r\n\r\n", value[] = "value";

	begin(w);
	for (size_t n = 0; n < strlen(value); n++) {
		int fd = dial(w);
		struct answer a;
		char c;

		say(fd, head);
		turn(w, 0);
		assert_int_equal(send(fd, value, n, MSG_NOSIGNAL), n);
		turn(w, 0.01);
		assert_int_equal(recv(fd, &c, 1, MSG_DONTWAIT), -1); /* the rest is awaited */
		say(fd, value + n);
		assert_int_equal(hear(w, fd, 5).status, 200);
		close(fd);
		a = get(w, "/s/1");
		assert_string_equal(a.body, value);
		assert_int_equal(a.len, strlen(value));
	}
}

TEST_IN(moves_large_values, struct world *w)
{
	const size_t size = 20 << 20;
	char *big = malloc(size), *back = malloc(size + 200);
	size_t sent = 0, got = 0;
	int fd;

	begin(w);
	for (size_t i = 0; i < size; i++)
		big[i] = (char)(i * 7 + i / 4096);
	fd = dial(w);
	say(fd, "PUT /s/big HTTP/1.1\r\n" STAY "Content-Length: 20971520\r\n\r\n");
	while (sent < size) {
		ssize_t n = send(fd, big + sent, size - sent, MSG_DONTWAIT | MSG_NOSIGNAL);

		sent += n > 0 ? (size_t)n : 0;
		event_base_loop(w->base, EVLOOP_NONBLOCK);
	}
	assert_int_equal(hear(w, fd, 5).status, 200);
	say(fd, "GET /s/big HTTP/1.1\r\nConnection: close\r\n\r\n");
	turn(w, 0.05);
	/* Replaced while it is being sent: what was begun is finished. */
	assert_int_equal(put(w, "/s/big", "small").status, 200);
	while (got < size + 200) {
		ssize_t n = recv(fd, back + got, size + 200 - got, MSG_DONTWAIT);

		if (n == 0)
			break;
		got += n > 0 ? (size_t)n : 0;
		event_base_loop(w->base, EVLOOP_NONBLOCK);
	}
	assert_true(got > size);
	assert_memory_equal(back + got - size, big, size);
	close(fd);
	turn(w, 0.01);
	assert_int_in_range(stats(w).store.bytes, 1, 1000);
	free(big);
	free(back);
}

TEST_IN(waits_for_a_place, struct world *w)
{
	int idle[3], fd;

	w->cfg.conns_max = 3;
	w->cfg.get_wait = 5;
	begin(w);
	put(w, "/s/k", "v");
	for (int i = 0; i < 3; i++) {
		idle[i] = dial(w);
		say(idle[i], "GET /s/k HTTP/1.1\r\n" STAY "\r\n");
		assert_int_equal(hear(w, idle[i], 1).status, 200);
	}
	assert_int_equal(get(w, "/s/k").status, 200); /* in the place of the one that was idle for longest */
	assert_int_equal(hear(w, idle[0], 1).status, 0);
	for (int i = 0; i < 3; i++)
		close(idle[i]);
	turn(w, 0.02);
	/* Those that are in the middle of something are left alone. */
	for (int i = 0; i < 3; i++) {
		idle[i] = dial(w);
		say(idle[i], "PUT /s/k HTTP/1.1\r\nContent-Length: 5\r\n\r\nab");
	}
	turn(w, 0.02);
	fd = dial(w);
	say(fd, "GET /s/k HTTP/1.1\r\n\r\n");
	assert_int_equal(hear(w, fd, 0.1).status, -1);
	assert_int_equal(stats(w).paused, 1);
	assert_int_equal(hear(w, fd, 3).status, 200); /* once the others have stalled for too long */
	for (int i = 0; i < 3; i++)
		close(idle[i]);
	close(fd);
}

struct hooked {
	struct hvd_rv_request *req;
	int asked, gone, puts, all_deleted;
	char last[64];
};

static enum hvd_rv_took on_get(void *arg, struct hvd_slice key, struct hvd_rv_request *req)
{
	struct hooked *h = arg;

	h->asked++;
	if (key.n == 4 && memcmp(key.p, "pass", 4) == 0)
		return HVD_RV_PASS;
	if (key.n == 3 && memcmp(key.p, "now", 3) == 0)
		hvd_rv_answer(req, 200, "at once", 7);
	else
		h->req = req;
	return HVD_RV_TAKEN;
}

static int on_put(void *arg, struct hvd_slice key, const void *data, size_t len)
{
	struct hooked *h = arg;

	h->puts++;
	snprintf(h->last, sizeof(h->last), "%.*s=%.*s", (int)key.n, key.p, (int)len, (const char *)data);
	return len == 3 ? 400 : 0;
}

static void on_gone(void *arg, struct hvd_rv_request *req)
{
	struct hooked *h = arg;

	assert_ptr_equal(req, h->req);
	h->gone++;
}

static void on_all_deleted(void *arg)
{
	((struct hooked *)arg)->all_deleted++;
}

TEST_IN(tells_when_all_have_deleted_their_keys, struct world *w)
{
	static const struct hvd_rv_hook hook = {.all_deleted = on_all_deleted};
	struct hooked h = {0};

	begin(w);
	hvd_rv_hook(w->root, "global", &hook, &h);
	assert_int_equal(hvd_rv_scope_size(w->root, "global", 2, NULL), 0);
	put(w, "/global/rank_0", "x");
	assert_int_equal(ask(w, "DELETE /global/0 HTTP/1.1\r\n\r\n").status, 200);
	assert_int_equal(h.all_deleted, 0);
	assert_int_equal(ask(w, "DELETE /global/1 HTTP/1.1\r\n\r\n").status, 200);
	assert_int_equal(h.all_deleted, 1);
}

TEST_IN(lets_hooks_answer, struct world *w)
{
	static const struct hvd_rv_hook hook = {.get = on_get, .put = on_put, .gone = on_gone};
	struct hooked h = {0};
	int fd;

	begin(w);
	hvd_rv_hook(w->root, "rank_and_size", &hook, &h);
	assert_string_equal(get(w, "/rank_and_size/now").body, "at once");
	assert_int_equal(get(w, "/rank_and_size/pass").status, 404);
	assert_int_equal(get(w, "/other/now").status, 404);
	assert_int_equal(h.asked, 2);
	assert_int_equal(put(w, "/rank_and_size/a", "ok").status, 200);
	assert_string_equal(h.last, "a=ok");
	assert_int_equal(put(w, "/rank_and_size/a", "bad").status, 400);
	/* What is there is the hook's, and no client's to take away. */
	assert_int_equal(hvd_rv_put(w->root, "rank_and_size", "pass", "mine", 4, NULL), 0);
	assert_int_equal(ask(w, "DELETE /rank_and_size/pass HTTP/1.1\r\n\r\n").status, 403);
	assert_string_equal(get(w, "/rank_and_size/pass").body, "mine");

	fd = dial(w);
	say(fd, "GET /rank_and_size/h:0 HTTP/1.1\r\n" STAY "\r\n");
	turn(w, 0.3);
	assert_non_null(h.req);
	hvd_rv_answer(h.req, 200, "0,1,0,1,0,1", 11);
	assert_string_equal(hear(w, fd, 1).body, "0,1,0,1,0,1");
	say(fd, "GET /rank_and_size/h:0 HTTP/1.1\r\n\r\n");
	turn(w, 0.02);
	close(fd); /* the client goes first */
	turn(w, 0.02);
	assert_int_equal(h.gone, 1);
	hvd_rv_answer(h.req, 200, "x", 1);
	if (w->relayed) /* whose calls outlast its connection */
		return;

	fd = dial(w); /* the server goes first */
	say(fd, "GET /rank_and_size/h:0 HTTP/1.1\r\n\r\n");
	turn(w, 0.02);
	hvd_rv_destroy(w->rv);
	if (w->root == w->rv)
		w->root = NULL;
	w->rv = NULL;
	assert_int_equal(h.gone, 2);
	hvd_rv_answer(h.req, 200, "x", 1);
	close(fd);
}

TEST_IN(chooses_ports, struct world *w)
{
	static const char *const both[] = {"127.0.0.1", "::1"}, *const bad[] = {"127.0.0.1", "nowhere"};
	struct sockaddr_storage ss;
	struct hvd_err err;
	struct hvd_rv *other;

	begin(w);
	other = hvd_rv_create(w->base, &w->cfg, NULL, &err);
	assert_fails_with(hvd_rv_listen(other, both, 2, hvd_rv_port(w->rv), hvd_rv_port(w->rv), &err), err, HVD_E_NET,
			  "in use");
	assert_int_equal(hvd_rv_port(other), 0);
	assert_fails_with(hvd_rv_listen(other, bad, 2, 0, 0, &err), err, HVD_E_USAGE, "");
	assert_int_equal(hvd_rv_listen(other, both, 2, 9, 3, &err), -1);
	if (hvd_rv_listen(other, both, 2, hvd_rv_port(w->rv), (uint16_t)(hvd_rv_port(w->rv) + 20), &err) == 0) {
		assert_int_in_range(hvd_rv_port(other), hvd_rv_port(w->rv) + 1, hvd_rv_port(w->rv) + 20);
		assert_int_equal(hvd_rv_listener(other, 1, &ss), 0);
		assert_int_equal(ss.ss_family, AF_INET6);
		assert_int_equal(hvd_rv_listener(other, 2, &ss), -1);
	} else {
		assert_int_equal(err.code, HVD_E_SYS); /* no IPv6 here */
	}
	hvd_rv_destroy(other);
	hvd_rv_destroy(NULL);
}

static void set_flag(void *arg)
{
	*(int *)arg += 1;
}

TEST_IN(ends_gracefully, struct world *w)
{
	int held, body, stuck, idle, done = 0;

	w->cfg.get_wait = 20;
	w->cfg.stall = 20;
	begin(w);
	idle = dial(w);
	say(idle, "PUT /s/x HTTP/1.1\r\n" STAY "Content-Length: 1\r\n\r\nx");
	assert_int_equal(hear(w, idle, 1).status, 200);
	held = dial(w);
	say(held, "GET /s/k HTTP/1.1\r\n\r\n");
	body = dial(w);
	say(body, "PUT /s/y HTTP/1.1\r\nContent-Length: 3\r\n\r\na");
	stuck = dial(w);
	say(stuck, "PUT /s/z HTTP/1.1\r\nContent-Length: 3\r\n\r\na");
	hvd_rv_stop(w->rv, 0.5, set_flag, &done); /* they are only in the queue yet */
	assert_int_equal(hear(w, held, 1).status, 404);
	assert_int_equal(hear(w, idle, 1).status, 0);
	say(body, "bc");
	assert_int_equal(hear(w, body, 1).status, 200);
	assert_int_equal(done, 0);
	turn(w, 0.6);
	assert_int_equal(done, 1);
	assert_int_equal(hear(w, stuck, 1).status, 0);
	close(held);
	close(body);
	close(stuck);
	close(idle);
}

TEST_IN(lets_in_only_who_is_listed, struct world *w)
{
	struct hvd_err err;
	struct sockaddr_storage ss = {0};
	struct sockaddr_in in = {.sin_family = AF_INET, .sin_addr.s_addr = inet_addr("192.0.2.7")};
	struct sockaddr_in6 in6 = {.sin6_family = AF_INET6};
	uid_t uid = 12345;

	w->cfg.access = hvd_rv_access_create();
	begin(w);
	memcpy(&ss, &in, sizeof(in));
	assert_int_equal(hvd_rv_access_check(w->cfg.access, -1, &ss, NULL, &uid), HVD_RV_OTHER_HOST);
	assert_int_equal(hvd_rv_access_allow(w->cfg.access, "host", &err), -1);
	assert_int_equal(hvd_rv_access_allow(w->cfg.access, "192.0.2", &err), -1);
	assert_int_equal(hvd_rv_access_allow(w->cfg.access, "192.0.2.8", &err), 0);
	assert_int_equal(hvd_rv_access_check(w->cfg.access, -1, &ss, NULL, &uid), HVD_RV_NOT_LISTED);
	assert_int_equal(hvd_rv_access_allow(w->cfg.access, "192.0.2.7", &err), 0);
	assert_int_equal(hvd_rv_access_allow(w->cfg.access, "192.0.2.7", &err), 0);
	assert_int_equal(hvd_rv_access_check(w->cfg.access, -1, &ss, NULL, &uid), HVD_RV_OTHER_HOST);
	inet_pton(AF_INET6, "::ffff:192.0.2.7", &in6.sin6_addr);
	memcpy(&ss, &in6, sizeof(in6));
	assert_int_equal(hvd_rv_access_check(w->cfg.access, -1, &ss, NULL, &uid), HVD_RV_OTHER_HOST);
	inet_pton(AF_INET6, "2001:db8::1", &in6.sin6_addr);
	memcpy(&ss, &in6, sizeof(in6));
	assert_int_equal(hvd_rv_access_check(w->cfg.access, -1, &ss, NULL, &uid), HVD_RV_NOT_LISTED);
	assert_int_equal(hvd_rv_access_allow(w->cfg.access, "2001:db8::1", &err), 0);
	assert_int_equal(hvd_rv_access_check(w->cfg.access, -1, &ss, NULL, &uid), HVD_RV_OTHER_HOST);
	assert_int_equal(uid, 12345); /* not from here: nobody was asked */
	/* This process's own connection, over loopback. */
	assert_int_equal(put(w, "/s/k", "v").status, 200);
	assert_int_equal(stats(w).refused_user + stats(w).refused_address, 0);
}

static enum hvd_rv_verdict verdict(struct world *w, const char *ip)
{
	struct sockaddr_storage ss;
	struct hvd_addr addr;
	uid_t uid;

	assert_int_equal(hvd_addr_parse(ip, &addr), 0);
	hvd_addr_to_sockaddr(&addr, 4000, &ss);
	assert_int_equal(hvd_rv_access_listed(w->cfg.access, &ss),
			 hvd_rv_access_check(w->cfg.access, -1, &ss, NULL, &uid) != HVD_RV_NOT_LISTED);
	return hvd_rv_access_check(w->cfg.access, -1, &ss, NULL, &uid);
}

TEST_IN(a_new_list_takes_the_place_of_the_old, struct world *w)
{
	struct hvd_addr addrs[3];

	w->cfg.access = hvd_rv_access_create();
	begin(w);
	hvd_addr_parse("192.0.2.9", &addrs[0]);
	hvd_addr_parse("2001:db8::1", &addrs[1]);
	hvd_addr_parse("192.0.2.1", &addrs[2]);
	assert_int_equal(hvd_rv_access_allow(w->cfg.access, "192.0.2.8", NULL), 0);
	assert_int_equal(verdict(w, "192.0.2.8"), HVD_RV_OTHER_HOST);
	hvd_rv_access_replace(w->cfg.access, addrs, 3);
	assert_int_equal(verdict(w, "192.0.2.8"), HVD_RV_NOT_LISTED);
	assert_int_equal(verdict(w, "192.0.2.9"), HVD_RV_OTHER_HOST);
	assert_int_equal(verdict(w, "192.0.2.1"), HVD_RV_OTHER_HOST);
	assert_int_equal(verdict(w, "2001:db8::1"), HVD_RV_OTHER_HOST);
	assert_int_equal(verdict(w, "2001:db8::2"), HVD_RV_NOT_LISTED);
	/* None at all is a list, too. */
	hvd_rv_access_replace(w->cfg.access, NULL, 0);
	assert_int_equal(verdict(w, "192.0.2.9"), HVD_RV_NOT_LISTED);
	assert_int_equal(put(w, "/s/k", "v").status, 200);
	/* One more is added to the new list. */
	hvd_rv_access_replace(w->cfg.access, addrs, 1);
	assert_int_equal(hvd_rv_access_allow(w->cfg.access, "192.0.2.3", NULL), 0);
	assert_int_equal(verdict(w, "192.0.2.3"), HVD_RV_OTHER_HOST);
	assert_int_equal(verdict(w, "192.0.2.9"), HVD_RV_OTHER_HOST);
	assert_int_equal(verdict(w, "192.0.2.1"), HVD_RV_NOT_LISTED);
}

/* An address of this host other than loopback. */
static bool own_address(struct hvd_addr *addr)
{
	struct ifaddrs *list;
	bool found = false;

	assert_int_equal(getifaddrs(&list), 0);
	for (const struct ifaddrs *i = list; i && !found; i = i->ifa_next)
		found = i->ifa_addr && i->ifa_addr->sa_family == AF_INET &&
			hvd_addr_from_sockaddr(i->ifa_addr, addr, NULL) == 0 && !hvd_addr_loopback(addr);
	freeifaddrs(list);
	return found;
}

TEST_IN(those_that_have_left_are_shut_out, struct world *w)
{
	struct sockaddr_storage to;
	struct hvd_addr addr;
	char text[HVD_ADDR_TEXT];
	const char *ip = text;
	socklen_t len;
	int fd, loop;

	if (!own_address(&addr))
		skip_because("this host has no address but loopback");
	w->cfg.access = hvd_rv_access_create();
	w->cfg.get_wait = 20;
	begin(w);
	hvd_addr_text(&addr, text);
	assert_int_equal(hvd_rv_listen(w->rv, &ip, 1, 0, 0, NULL), 0);
	hvd_rv_access_replace(w->cfg.access, &addr, 1);
	assert_int_equal(hvd_rv_listener(w->rv, 1, &to), 0);
	len = hvd_addr_to_sockaddr(&addr, ntohs(((struct sockaddr_in *)&to)->sin_port), &to);
	fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(connect(fd, (struct sockaddr *)&to, len), 0);
	loop = dial(w);
	say(fd, "GET /s/k HTTP/1.1\r\n\r\n");
	say(loop, "GET /s/k HTTP/1.1\r\n\r\n");
	turn(w, 0.05);
	assert_int_equal(stats(w).waiting_now, 2);
	hvd_rv_disconnect_denied(w->rv);
	assert_int_equal(stats(w).waiting_now, 2);
	hvd_rv_access_replace(w->cfg.access, NULL, 0);
	hvd_rv_disconnect_denied(w->rv);
	assert_int_equal(stats(w).waiting_now, 1);
	assert_int_equal(hear(w, fd, 1).status, 0);
	assert_int_equal(put(w, "/s/k", "v").status, 200);
	assert_int_equal(hear(w, loop, 1).status, 200);
	close(fd);
	close(loop);
}

/* Exit status: the answer's status / 10, from a process of another user. */
static pid_t ask_as(struct world *w, uid_t uid)
{
	pid_t pid = fork();
	char text[64] = "";
	int fd;

	if (pid != 0)
		return pid;
	if (setgid(uid) != 0 || setuid(uid) != 0)
		_exit(99);
	fd = dial(w);
	send(fd, "GET /s/k HTTP/1.1\r\n\r\n", 21, MSG_NOSIGNAL);
	recv(fd, text, sizeof(text) - 1, 0);
	_exit(atoi(text + 9) / 10);
}

static int outcome(struct world *w, pid_t pid)
{
	int status = 0;

	while (waitpid(pid, &status, WNOHANG) == 0) {
		usleep(1000); /* it has a clock of its own */
		turn(w, 0);
	}
	return WEXITSTATUS(status);
}

TEST_IN(refuses_other_users, struct world *w)
{
	int fd;

	if (geteuid() != 0)
		skip();
	w->cfg.access = hvd_rv_access_create();
	begin(w);
	put(w, "/s/k", "v");
	assert_int_equal(outcome(w, ask_as(w, NOBODY)), 40);
	assert_int_equal(stats(w).refused_user, 1);
	assert_int_equal(outcome(w, ask_as(w, 0)), 20);
	/* One that has gone is reported as root's by the kernel; it must not pass for root. */
	fd = dial(w);
	say(fd, "PUT /s/evil HTTP/1.1\r\nContent-Length: 1\r\n\r\nx");
	close(fd);
	turn(w, 0.05);
	assert_int_equal(stats(w).refused_user, 2);
	assert_null(hvd_rv_get(w->root, "s", "evil"));
	hvd_rv_access_any_user(w->cfg.access, true);
	assert_int_equal(outcome(w, ask_as(w, NOBODY)), 20);
}

/* However many are in the queue, each turn of the loop comes back to what else there is. */
TEST_IN(a_turn_is_bounded, struct world *w)
{
	int fds[3 * HVD_ACCEPT_TURN];
	size_t n = sizeof(fds) / sizeof(fds[0]);

	begin(w);
	for (size_t i = 0; i < n; i++) {
		fds[i] = dial(w);
		say(fds[i], "HEAD /s/k HTTP/1.0\r\n\r\n");
	}
	for (uint64_t i = 1; i <= n / HVD_ACCEPT_TURN; i++) {
		event_base_loop(w->base, EVLOOP_ONCE | EVLOOP_NONBLOCK);
		assert_int_equal(stats(w).connections, i * HVD_ACCEPT_TURN);
	}
	for (size_t i = 0; i < n; i++)
		close(fds[i]);
}

/* From another user, who sends without end: the loop reads no more of it than a part. */
TEST_IN(reads_little_of_who_is_refused, struct world *w)
{
	static char junk[65536];
	int go[2], status;
	uint64_t in;
	char byte;
	pid_t pid;

	if (geteuid() != 0)
		skip_because("needs root");
	w->cfg.access = hvd_rv_access_create();
	begin(w);
	assert_int_equal(pipe(go), 0);
	pid = fork();
	if (pid == 0) {
		int fd;

		if (setgid(NOBODY) != 0 || setuid(NOBODY) != 0)
			_exit(99);
		fd = dial(w);
		while (send(fd, junk, sizeof(junk), MSG_NOSIGNAL | MSG_DONTWAIT) > 0)
			;
		if (write(go[1], "x", 1) != 1)
			_exit(99);
		while (send(fd, junk, sizeof(junk), MSG_NOSIGNAL) > 0)
			;
		_exit(errno == ECONNRESET || errno == EPIPE ? 0 : 1);
	}
	assert_int_equal(read(go[0], &byte, 1), 1);
	for (int i = 0; i < 1000 && stats(w).refused_user == 0; i++)
		turn(w, 0.002);
	assert_int_equal(stats(w).refused_user, 1);
	in = stats(w).bytes_in;
	assert_in_range(in, 1, 1 << 20);
	/* It is told by a reset: nothing is there any longer that reads. */
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(WEXITSTATUS(status), 0);
	assert_int_equal(stats(w).conns_now, 0);
	close(go[0]);
	close(go[1]);
}

TEST_IN(any_user_may_be_let_in, struct world *w)
{
	if (geteuid() != 0)
		skip();
	w->cfg.access = hvd_rv_access_create();
	hvd_rv_access_any_user(w->cfg.access, true);
	begin(w);
	put(w, "/s/k", "v");
	assert_int_equal(outcome(w, ask_as(w, NOBODY)), 20);
}

TEST_IN(finds_owners_both_ways, struct world *w)
{
	struct sockaddr_storage peer = {0}, local = {0};
	socklen_t len = sizeof(peer);
	int fd, nl = hvd_peer_uid_open();
	uid_t uid = 4242;

	begin(w);
	fd = dial(w);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&peer, &len), 0);
	len = sizeof(local);
	assert_int_equal(getpeername(fd, (struct sockaddr *)&local, &len), 0);
	if (nl >= 0) {
		assert_int_equal(hvd_peer_uid_diag(nl, 7, &peer, &local, &uid, NULL), 0);
		assert_int_equal(uid, geteuid());
	}
	uid = 4242;
	assert_int_equal(hvd_peer_uid_proc(&peer, &local, &uid), 0);
	assert_int_equal(uid, geteuid());
	close(fd);
	turn(w, 0.02);
	if (nl >= 0) {
		assert_int_equal(hvd_peer_uid_diag(nl, 8, &peer, &local, &uid, NULL), 1);
		close(nl);
	}
	assert_int_equal(hvd_peer_uid_proc(&peer, &local, &uid), 1);
	/* An IPv6 socket that speaks IPv4. */
	struct sockaddr_in6 to = {.sin6_family = AF_INET6, .sin6_port = htons(hvd_rv_port(w->rv))};

	inet_pton(AF_INET6, "::ffff:127.0.0.1", &to.sin6_addr);
	fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0 || connect(fd, (struct sockaddr *)&to, sizeof(to)) != 0)
		skip();
	memset(&peer, 0, sizeof(peer));
	len = sizeof(peer);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&peer, &len), 0);
	hvd_unmap_v4(&peer);
	assert_int_equal(peer.ss_family, AF_INET);
	nl = hvd_peer_uid_open();
	uid = 4242;
	assert_int_equal(hvd_peer_uid_proc(&peer, &local, &uid), 0);
	assert_int_equal(uid, geteuid());
	uid = 4242;
	if (nl >= 0) {
		assert_int_equal(hvd_peer_uid_diag(nl, 7, &peer, &local, &uid, NULL), 0);
		assert_int_equal(uid, geteuid());
		close(nl);
	}
	close(fd);
}

/* test_rendezvous_relayed.c is this file with another value: the same of a relay. */
#ifndef RELAYED
#define RELAYED false
#endif

RUN_TESTS(.setup = setup, .teardown = teardown, .state = &(bool){RELAYED})
