/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tcpstore_world.h - for tests: clients of the TCPStore at a server of rv_world.h.
 */
#ifndef HVD_TESTS_TCPSTORE_WORLD_H
#define HVD_TESTS_TCPSTORE_WORLD_H

#include "rv_world.h"

static inline int setup(void **state)
{
	struct world *w = make_world(state);

	w->cfg.tcpstore = true;
	w->cfg.head_time = 0.3;
	return 0;
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
