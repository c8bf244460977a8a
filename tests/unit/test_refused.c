/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/refused.h"
#include "lib/base/deadline.h"
#include "unit.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <unistd.h>

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

static int setup(void **state)
{
	struct world *w = calloc(1, sizeof(*w));

	w->base = event_base_new();
	w->refused = hvd_refused_create(w->base, PATIENCE, on_told, w);
	*state = w;
	return 0;
}

static int teardown(void **state)
{
	struct world *w = *state;

	hvd_refused_destroy(w->refused);
	event_base_free(w->base);
	free(w);
	return 0;
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
	event_base_loop(w->base, EVLOOP_NONBLOCK);
}

/* The kernel tells of a socket a moment after it has ended. */
static void wait_until_told(struct world *w)
{
	hvd_time until = hvd_deadline_in(1);

	while (w->told == 0 && hvd_left(until) > 0) {
		event_base_loop(w->base, EVLOOP_NONBLOCK);
		usleep(1000);
	}
}

static void attempts(struct world *w, const struct sockaddr_in *at, double seconds)
{
	hvd_time until = hvd_deadline_in(seconds);

	while (hvd_left(until) > 0) {
		attempt(w, at);
		usleep(10000);
	}
}

static void who_tries_again_and_again_is_noticed(void **state)
{
	struct world *w = *state;
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

static void a_few_attempts_are_none(void **state)
{
	struct world *w = *state;
	struct sockaddr_in at;
	int fd = bound(w, &at);

	if (!w->refused)
		skip();
	for (int i = 0; i < HVD_REFUSED_ATTEMPTS - 1; i++) {
		attempt(w, &at);
		usleep((useconds_t)(PATIENCE * 1e6));
	}
	assert_int_equal(w->told, 0);
	/* On a busy machine the kernel may not tell of each. */
	for (int i = 0; i < HVD_REFUSED_ATTEMPTS && w->told == 0; i++) {
		attempt(w, &at);
		wait_until_told(w);
	}
	assert_int_equal(w->told, 1);
	close(fd);
}

static void who_is_accepted_is_not_refused(void **state)
{
	struct world *w = *state;
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
		event_base_loop(w->base, EVLOOP_NONBLOCK);
		usleep(10000);
	}
	assert_int_equal(w->told, 0);
	close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(who_tries_again_and_again_is_noticed, setup, teardown),
		cmocka_unit_test_setup_teardown(a_few_attempts_are_none, setup, teardown),
		cmocka_unit_test_setup_teardown(who_is_accepted_is_not_refused, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
