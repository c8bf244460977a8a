/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tcpstore_world.h - for tests: a server for TCPStore clients and its clients over real sockets on loopback, in one
 * process. The client's side turns the event loop, and lets the time of test_clock.h pass, while it waits.
 */
#ifndef HVD_TESTS_TCPSTORE_WORLD_H
#define HVD_TESTS_TCPSTORE_WORLD_H

#include "lib/base/deadline.h"
#include "lib/rendezvous/server.h"
#include "loopback.h"
#include "relay_conns.h"
#include "tcpstore_bytes.h"
#include "test_clock.h"
#include "unit.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>

struct world {
	struct event_base *base;
	struct hvd_rv *rv;   /* to which clients connect */
	struct hvd_rv *root; /* the same, unless `relayed` */
	bool relayed;        /* clients connect to a relay */
	struct hvd_rv_config cfg;
	struct hvd_log log;
	char said[4096]; /* what was logged so far */
	int log_fd;
	struct hvd_rv_init_event joins[64];
	size_t n_joins;
	struct bytes out; /* to be sent next */
};

static inline void on_joined(void *arg, const struct hvd_rv_init_event *join)
{
	struct world *w = arg;

	w->joins[w->n_joins++ % 64] = *join;
}

static inline int setup(void **state)
{
	struct world *w = calloc(1, sizeof(*w));
	int fds[2];

	w->relayed = *state && *(const bool *)*state; /* the initial state of the test */
	w->base = event_base_new();
	hvd_rv_config_init(&w->cfg);
	w->cfg.tcpstore = true;
	w->cfg.joined = on_joined;
	w->cfg.joined_arg = w;
	w->cfg.head_time = 0.3;
	assert_int_equal(pipe(fds), 0);
	w->log = hvd_log_make("t", HVD_LOG_VERBOSE);
	w->log.fd = fds[1];
	w->log_fd = fds[0];
	*state = w;
	return 0;
}

TEARDOWN(teardown, struct world, w)
{
	hvd_rv_destroy(w->rv);
	if (w->root != w->rv)
		hvd_rv_destroy(w->root);
	hvd_rv_access_destroy(w->cfg.access);
	event_base_free(w->base);
	close(w->log.fd);
	close(w->log_fd);
	free(w->out.p);
}

static inline void begin(struct world *w)
{
	static const char *const ips[] = {"127.0.0.1"};
	struct hvd_err err;

	w->root = w->rv = hvd_rv_create(w->base, &w->cfg, &w->log, &err);
	assert_non_null(w->rv);
	if (w->relayed)
		w->rv = relay_of(w->root, w->base, &w->cfg, &w->log);
	assert_int_equal(hvd_rv_listen(w->rv, ips, 1, 0, 0, &err), 0);
}

/* So much time passes, at least a millisecond, in a fraction of that. */
static inline void turn(struct world *w, double seconds)
{
	hvd_time until = hvd_deadline_in(seconds);

	do {
		usleep(20);
		test_clock_pass(w->base, 0.001);
	} while (hvd_left(until) > 0);
}

/* What was logged, all of it. */
static const char *said(struct world *w)
{
	struct pollfd p = {w->log_fd, POLLIN, 0};
	size_t n = strlen(w->said);

	if (poll(&p, 1, 0) > 0) {
		ssize_t got = read(w->log_fd, w->said + n, sizeof(w->said) - 1 - n);

		w->said[n + (got > 0 ? (size_t)got : 0)] = '\0';
	}
	return w->said;
}

static inline struct hvd_rv_stats stats(struct world *w)
{
	struct hvd_rv_stats s;
	uint64_t joined;

	hvd_rv_stats(w->root, &s);
	joined = s.tcpstore_joined;
	hvd_rv_stats(w->rv, &s);
	s.tcpstore_joined = joined; /* who has come is known at the root */
	return s;
}

static inline int dial(struct world *w)
{
	return dial_loopback(hvd_rv_port(w->rv));
}

/* Send w->out, and empty it. */
static inline void say(struct world *w, int fd)
{
	hvd_time until = hvd_deadline_in(20);

	for (size_t at = 0; at < w->out.n;) {
		ssize_t n = send(fd, w->out.p + at, w->out.n - at, MSG_NOSIGNAL | MSG_DONTWAIT);

		if (n < 0 && errno != EAGAIN)
			break; /* closed: what comes next finds out */
		at += n > 0 ? (size_t)n : 0;
		turn(w, 0);
		assert_true(hvd_left(until) > 0);
	}
	w->out.n = 0;
}

/* The next n bytes. False when the connection was closed. */
static inline bool hear(struct world *w, int fd, void *into, size_t n)
{
	hvd_time until = hvd_deadline_in(10);
	char *p = into;

	while (n > 0) {
		ssize_t got = recv(fd, p, n, MSG_DONTWAIT);

		assert_true(hvd_left(until) > 0);
		if (got == 0 || (got < 0 && errno != EAGAIN))
			return false;
		if (got < 0) {
			turn(w, 0);
			continue;
		}
		p += got;
		n -= (size_t)got;
	}
	return true;
}

static inline uint64_t hear_number(struct world *w, int fd, size_t size)
{
	unsigned char p[8];
	uint64_t v = 0;

	assert_true(hear(w, fd, p, size));
	for (size_t i = 0; i < size; i++)
		v = v << 8 | p[w->out.big ? i : size - 1 - i];
	return v;
}

static inline void expect_number(struct world *w, int fd, int64_t expected)
{
	say(w, fd);
	assert_int_equal(hear_number(w, fd, 8), (uint64_t)expected);
}

static inline void expect_byte(struct world *w, int fd, int expected)
{
	say(w, fd);
	assert_int_equal(hear_number(w, fd, 1), expected);
}

static inline void expect_text(struct world *w, int fd, const char *expected)
{
	char *text;
	uint64_t n;

	say(w, fd);
	n = hear_number(w, fd, 8);
	assert_int_equal(n, strlen(expected));
	text = calloc(1, n + 1);
	assert_true(hear(w, fd, text, n));
	assert_string_equal(text, expected);
	free(text);
}

static inline void expect_nothing(struct world *w, int fd)
{
	char byte;

	say(w, fd);
	turn(w, 0.03);
	assert_int_equal(recv(fd, &byte, 1, MSG_DONTWAIT), -1);
	assert_int_equal(errno, EAGAIN);
}

static inline void expect_end(struct world *w, int fd)
{
	char byte;

	say(w, fd);
	assert_false(hear(w, fd, &byte, 1));
	close(fd);
}

/* A client that has validated; with a pid, as those of PyTorch from 2.5 on, it has said it; else it is one of
 * before. */
static inline int meet(struct world *w, uint32_t pid)
{
	int fd = dial(w);

	add_validate(&w->out);
	if (pid) {
		add_ping(&w->out, pid);
		say(w, fd);
		assert_int_equal(hear_number(w, fd, 4), pid);
	}
	return fd;
}

/* One that has arrived, as the `nth` of its epoch. */
static inline int join(struct world *w, uint32_t pid, int64_t nth)
{
	int fd = meet(w, pid);

	add_count(&w->out, HVD_TCPSTORE_ADD, "init/", 1);
	expect_number(w, fd, nth);
	return fd;
}

static inline void get(struct world *w, int fd, const char *key, const char *expected)
{
	add_key(&w->out, HVD_TCPSTORE_GET, key);
	expect_text(w, fd, expected);
}

static inline void set(struct world *w, int fd, const char *key, const char *value)
{
	add_pair(&w->out, HVD_TCPSTORE_SET, key, value);
	add_key(&w->out, HVD_TCPSTORE_QUEUE_LEN, "none"); /* for an answer */
	expect_number(w, fd, 0);
}

static inline void compare_set(struct world *w, int fd, const char *key, const char *expected, const char *value,
			       const char *answer)
{
	add_pair(&w->out, HVD_TCPSTORE_COMPARE_SET, key, expected);
	add_string(&w->out, value);
	expect_text(w, fd, answer);
}

#endif
