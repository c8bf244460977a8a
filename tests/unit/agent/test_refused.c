/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/refused.h"
#include "tests/unit/test_clock.h"
#include "tests/unit/unit.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>

#define PATIENCE 0.5

struct world {
	struct event_base *base;
	struct hvd_refused *refused;
	struct hvd_addr at;
	in_port_t wanted; /* others may be told of, too */
	unsigned told;
};

static void on_told(const struct hvd_addr *addr, in_port_t port, void *arg)
{
	struct world *w = arg;

	if (port != w->wanted)
		return;
	w->told++;
	w->at = *addr;
}

SETUP(setup, struct world, w)
{
	w->base = event_base_new();
	w->refused = hvd_refused_create(w->base, PATIENCE, on_told, w);
}

TEARDOWN(teardown, struct world, w)
{
	hvd_refused_destroy(w->refused);
	event_base_free(w->base);
}

/* A socket with a port at which it does not listen yet. */
static int bound(struct world *w, struct sockaddr_in *at)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	socklen_t len = sizeof(*at);

	*at = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	assert_int_equal(bind(fd, (struct sockaddr *)at, sizeof(*at)), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)at, &len), 0);
	w->wanted = ntohs(at->sin_port);
	return fd;
}

/* As PyTorch tries: without blocking, and a new socket each time. */
static void attempt(struct world *w, const struct sockaddr_in *at)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct pollfd p = {fd, POLLOUT, 0};

	if (connect(fd, (const struct sockaddr *)at, sizeof(*at)) != 0)
		assert_true(errno == EINPROGRESS || errno == ECONNREFUSED);
	poll(&p, 1, 1000);
	close(fd);
}

/* A hundredth of a second passes, in a part of that: the kernel tells of a socket a moment after it has ended. */
static void tick(struct world *w)
{
	usleep(500);
	test_clock_pass(w->base, 0.01);
}

static void attempts(struct world *w, const struct sockaddr_in *at, double seconds)
{
	hvd_time until = hvd_deadline_in(seconds);

	while (hvd_left(until) > 0) {
		attempt(w, at);
		tick(w);
	}
}

TEST_IN(who_tries_again_and_again_is_noticed, struct world *w)
{
	struct sockaddr_in at;
	char text[HVD_ADDR_TEXT];
	int fd = bound(w, &at);

	if (!w->refused)
		skip(); /* the kernel does not tell */
	attempts(w, &at, PATIENCE / 2);
	assert_int_equal(w->told, 0);
	attempts(w, &at, PATIENCE);
	assert_int_equal(w->told, 1);
	assert_string_equal(hvd_addr_text(&w->at, text), "127.0.0.1");
	attempts(w, &at, 2 * PATIENCE);
	assert_in_range(w->told, 2, 3); /* while it goes on, again */
	close(fd);
}

TEST_IN(a_few_attempts_are_none, struct world *w)
{
	struct sockaddr_in at;
	int fd = bound(w, &at);

	if (!w->refused)
		skip();
	for (int i = 0; i < HVD_REFUSED_ATTEMPTS - 1; i++) {
		attempt(w, &at);
		tick(w);
		test_clock += (hvd_time)(PATIENCE * 1e9);
	}
	assert_int_equal(w->told, 0);
	/* On a busy machine the kernel may not tell of each. */
	for (int i = 0; i < HVD_REFUSED_ATTEMPTS && w->told == 0; i++) {
		attempt(w, &at);
		for (int ticks = 0; ticks < 1000 && w->told == 0; ticks++)
			tick(w);
	}
	assert_int_equal(w->told, 1);
	close(fd);
}

TEST_IN(who_is_accepted_is_not_refused, struct world *w)
{
	struct sockaddr_in at;
	int fd = bound(w, &at), one;
	hvd_time until = hvd_deadline_in(2 * PATIENCE);

	if (!w->refused)
		skip();
	assert_int_equal(listen(fd, 8), 0);
	while (hvd_left(until) > 0) {
		attempt(w, &at);
		one = accept(fd, NULL, NULL);
		assert_true(one >= 0);
		close(one);
		tick(w);
	}
	assert_int_equal(w->told, 0);
	close(fd);
}

RUN_TESTS(.setup = setup, .teardown = teardown)
