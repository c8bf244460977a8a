/* SPDX-License-Identifier: Apache-2.0 */
/* Notifications to a worker that listens here, and to some that do not. */
#include "fake_worker.h"

#include "lib/frameworks/worker_client.h"
#include "unit.h"

#include <unistd.h>

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

static int begin(void **state)
{
	struct world *w = calloc(1, sizeof(*w));

	assert_non_null(w);
	w->fds = open_fds();
	w->base = event_base_new();
	memset(w->worker.key.b, 7, HVD_KEY_LEN);
	assert_int_equal(fake_worker_open(&w->worker, w->base, NULL), 0);
	w->to = (struct hvd_worker_addrs){.v = w->addrs, .n = 1, .key = w->worker.key};
	hvd_addr_parse("127.0.0.1", &w->addrs[0].addr);
	w->addrs[0].port = w->worker.port;
	*state = w;
	return 0;
}

static int end(void **state)
{
	struct world *w = *state;

	/* Let what was closed on one side be closed on the other. */
	event_base_loop(w->base, EVLOOP_NONBLOCK);
	event_base_loop(w->base, EVLOOP_NONBLOCK);
	fake_worker_close(&w->worker);
	event_base_free(w->base);
	assert_int_equal(open_fds(), w->fds);
	free(w);
	return 0;
}

static struct hvd_notify *send_it(struct world *w, double seconds)
{
	return hvd_notify_send(w->base, &w->to, 1700000001, HVD_HOSTS_ADDED, hvd_deadline_in(seconds), on_done, w);
}

static void is_acknowledged(void **state)
{
	struct world *w = *state;

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

static void tells_that_the_worker_hung_up(void **state)
{
	struct world *w = *state;

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

static void goes_on_to_the_next_address(void **state)
{
	struct world *w = *state;

	second_address(w);
	hvd_addr_parse("127.0.0.2", &w->addrs[0].addr); /* the worker listens on 127.0.0.1 only */
	send_it(w, 30);
	event_base_dispatch(w->base);
	assert_int_equal(w->why.code, HVD_OK);
	assert_int_equal(w->worker.heard, 1);
}

static void does_not_wait_for_a_silent_address(void **state)
{
	struct world *w = *state;
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

static void gives_up_in_time(void **state)
{
	struct world *w = *state;

	w->worker.mute = true;
	send_it(w, 0.1);
	event_base_dispatch(w->base);
	assert_int_equal(w->why.code, HVD_E_TIMEOUT);
	assert_in(w->why.msg, "did not answer in time");
}

static void reaches_nobody(void **state)
{
	struct world *w = *state;

	second_address(w);
	fake_worker_close(&w->worker);
	send_it(w, 30);
	event_base_dispatch(w->base);
	assert_int_equal(w->dones, 1);
	assert_int_equal(w->why.code, HVD_E_NET);
	assert_in(w->why.msg, "cannot be reached");
}

static void can_be_given_up(void **state)
{
	struct world *w = *state;
	struct hvd_notify *n = send_it(w, 30);

	hvd_notify_cancel(n);
	n = send_it(w, 30);
	event_base_loop(w->base, EVLOOP_ONCE);
	hvd_notify_cancel(n);
	hvd_notify_cancel(NULL);
	event_base_loop(w->base, EVLOOP_NONBLOCK);
	assert_int_equal(w->dones, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(is_acknowledged, begin, end),
		cmocka_unit_test_setup_teardown(tells_that_the_worker_hung_up, begin, end),
		cmocka_unit_test_setup_teardown(goes_on_to_the_next_address, begin, end),
		cmocka_unit_test_setup_teardown(does_not_wait_for_a_silent_address, begin, end),
		cmocka_unit_test_setup_teardown(gives_up_in_time, begin, end),
		cmocka_unit_test_setup_teardown(reaches_nobody, begin, end),
		cmocka_unit_test_setup_teardown(can_be_given_up, begin, end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
