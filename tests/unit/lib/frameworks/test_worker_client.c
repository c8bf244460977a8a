/* SPDX-License-Identifier: Apache-2.0 */
/* Notifications to a worker that listens here, and to some that do not. */
#include "tests/unit/fake_worker.h"

#include "lib/frameworks/worker_client.h"
#include "tests/unit/unit.h"

struct world {
	struct event_base *base;
	struct fake_worker worker;
	struct hvd_worker_addr addrs[2];
	struct hvd_worker_addrs to;
	int fds;
	int dones;
	struct hvd_err why;
};

static void on_done(const struct hvd_err *why, void *arg)
{
	struct world *w = arg;

	w->dones++;
	w->why = *why;
	event_base_loopbreak(w->base);
}

SETUP(begin, struct world, w)
{
	w->fds = open_fds();
	w->base = event_base_new();
	memset(w->worker.key.b, 7, HVD_KEY_LEN);
	assert_int_equal(fake_worker_open(&w->worker, w->base, NULL), 0);
	w->to = (struct hvd_worker_addrs){.v = w->addrs, .n = 1, .key = w->worker.key};
	hvd_addr_parse("127.0.0.1", &w->addrs[0].addr);
	w->addrs[0].port = w->worker.port;
}

TEARDOWN(end, struct world, w)
{
	/* Let what was closed on one side be closed on the other. */
	event_base_loop(w->base, EVLOOP_NONBLOCK);
	event_base_loop(w->base, EVLOOP_NONBLOCK);
	fake_worker_close(&w->worker);
	event_base_free(w->base);
	assert_int_equal(open_fds(), w->fds);
}

static struct hvd_notify *send_it(struct world *w, double seconds)
{
	return hvd_notify_send(w->base, &w->to, 1700000001, HVD_HOSTS_ADDED, hvd_deadline_in(seconds), on_done, w);
}

TEST_IN(is_acknowledged, struct world *w)
{
	send_it(w, 30);
	assert_int_equal(w->dones, 0);
	event_base_dispatch(w->base);
	assert_int_equal(w->dones, 1);
	assert_int_equal(w->why.code, HVD_OK);
	assert_int_equal(w->worker.heard, 1);
	assert_int_equal(w->worker.last.kind, HVD_MESSAGE_HOSTS_UPDATED);
	assert_int_equal(w->worker.last.timestamp, 1700000001);
	assert_int_equal(w->worker.last.change, HVD_HOSTS_ADDED);
}

TEST_IN(tells_that_the_worker_hung_up, struct world *w)
{
	w->to.key.b[0] ^= 1;
	send_it(w, 30);
	event_base_dispatch(w->base);
	assert_int_equal(w->why.code, HVD_E_PROTO);
	assert_in(w->why.msg, "closed the connection without an answer");
	assert_in(w->why.msg, "127.0.0.1 port");
	assert_int_equal(w->worker.heard, 0);
	assert_int_equal(w->worker.err.code, HVD_E_AUTH);
}

static void second_address(struct world *w)
{
	w->addrs[1] = w->addrs[0];
	w->to.n = 2;
}

TEST_IN(goes_on_to_the_next_address, struct world *w)
{
	second_address(w);
	hvd_addr_parse("127.0.0.2", &w->addrs[0].addr); /* the worker listens on 127.0.0.1 only */
	send_it(w, 30);
	event_base_dispatch(w->base);
	assert_int_equal(w->why.code, HVD_OK);
	assert_int_equal(w->worker.heard, 1);
}

TEST_IN(does_not_wait_for_a_silent_address, struct world *w)
{
	struct fake_worker silent = {.mute = true, .key = w->worker.key};

	assert_int_equal(fake_worker_open(&silent, w->base, NULL), 0);
	second_address(w);
	w->addrs[0].port = silent.port;
	send_it(w, 30);
	event_base_dispatch(w->base);
	assert_int_equal(w->why.code, HVD_OK);
	assert_int_equal(w->worker.heard, 1);
	assert_int_equal(silent.heard, 1);
	event_base_loop(w->base, EVLOOP_NONBLOCK);
	fake_worker_close(&silent);
}

TEST_IN(gives_up_in_time, struct world *w)
{
	w->worker.mute = true;
	send_it(w, 0.1);
	event_base_dispatch(w->base);
	assert_int_equal(w->why.code, HVD_E_TIMEOUT);
	assert_in(w->why.msg, "did not answer in time");
}

TEST_IN(reaches_nobody, struct world *w)
{
	second_address(w);
	fake_worker_close(&w->worker);
	send_it(w, 30);
	event_base_dispatch(w->base);
	assert_int_equal(w->dones, 1);
	assert_int_equal(w->why.code, HVD_E_NET);
	assert_in(w->why.msg, "cannot be reached");
}

TEST_IN(can_be_given_up, struct world *w)
{
	struct hvd_notify *n = send_it(w, 30);

	hvd_notify_cancel(n);
	n = send_it(w, 30);
	event_base_loop(w->base, EVLOOP_ONCE);
	hvd_notify_cancel(n);
	hvd_notify_cancel(NULL);
	event_base_loop(w->base, EVLOOP_NONBLOCK);
	assert_int_equal(w->dones, 0);
}

RUN_TESTS(.setup = begin, .teardown = end)
