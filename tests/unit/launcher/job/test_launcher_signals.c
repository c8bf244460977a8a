/* SPDX-License-Identifier: Apache-2.0 */
#include "launcher/job/signals.h"
#include "tests/unit/unit.h"

struct order {
	struct event_base *base;
	char seen[8]; /* a letter for each callback */
	size_t n;
};

static void note(struct order *order, char what)
{
	order->seen[order->n++] = what;
	if (order->n == 3)
		event_base_loopbreak(order->base);
}

static void on_signal(int sig, bool tty, void *arg)
{
	assert_false(tty);
	note(arg, sig == SIGINT ? 'i' : sig == SIGCHLD ? 'c' : '?');
}

static void on_byte(evutil_socket_t fd, short what, void *arg)
{
	char byte;

	assert_int_equal(read(fd, &byte, 1), 1);
	note(arg, 'b');
}

TEST(a_users_signal_comes_before_bytes_that_were_there_first)
{
	struct order order = {.base = event_base_new()};
	struct hvd_signals *signals;
	struct event *readable;
	int fds[2];

	assert_int_equal(event_base_priority_init(order.base, 2), 0);
	assert_int_equal(pipe(fds), 0);
	readable = event_new(order.base, fds[0], EV_READ | EV_PERSIST, on_byte, &order);
	event_add(readable, NULL);
	signals = hvd_signals_catch(order.base, false, on_signal, &order, NULL);
	assert_non_null(signals);
	assert_int_equal(write(fds[1], "x", 1), 1);
	raise(SIGCHLD);
	raise(SIGINT);
	event_base_dispatch(order.base);
	assert_int_equal(order.n, 3);
	assert_int_equal(order.seen[0], 'i');
	hvd_signals_release(signals);
	event_free(readable);
	event_base_free(order.base);
	close(fds[0]);
	close(fds[1]);
}

RUN_TESTS()
