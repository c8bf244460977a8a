/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/base/timer.h"
#include "tests/unit/unit.h"

#include <signal.h>
#include <unistd.h>

struct count {
	struct event_base *base;
	struct hvd_timer *timer;
	int calls, until;
	bool frees;
};

static void on_time(void *arg)
{
	struct count *count = arg;

	count->calls++;
	if (count->frees) {
		hvd_timer_free(count->timer);
		count->timer = NULL;
	}
	if (count->calls == count->until)
		event_base_loopbreak(count->base);
}

static int set_up(void **state)
{
	static struct count count;

	count = (struct count){.base = event_base_new(), .until = 1};
	count.timer = hvd_timer_new(count.base, on_time, &count);
	*state = &count;
	return 0;
}

static int tear_down(void **state)
{
	struct count *count = *state;

	hvd_timer_free(count->timer);
	event_base_free(count->base);
	return 0;
}

static void a_timer_calls_once_and_at_its_time(void **state)
{
	struct count *count = *state;
	hvd_time began = hvd_now();

	assert_false(hvd_timer_runs(count->timer));
	hvd_timer_at(count->timer, began + 20 * 1000000LL);
	assert_true(hvd_timer_runs(count->timer));
	event_base_dispatch(count->base); /* until no event is left */
	assert_true(hvd_now() - began >= 20 * 1000000LL);
	assert_int_equal(count->calls, 1);
	assert_false(hvd_timer_runs(count->timer));
}

static void a_new_time_replaces_the_last_one(void **state)
{
	struct count *count = *state;
	hvd_time began = hvd_now();

	hvd_timer_in_ms(count->timer, 600000);
	hvd_timer_soon(count->timer);
	event_base_dispatch(count->base);
	assert_int_equal(count->calls, 1);
	hvd_timer_every_ms(count->timer, 1);
	hvd_timer_in_ms(count->timer, -5); /* now, and only once */
	event_base_dispatch(count->base);
	assert_int_equal(count->calls, 2);
	assert_true(hvd_now() - began < 300 * 1000000000LL);
}

static void a_timer_goes_on_until_it_is_stopped(void **state)
{
	struct count *count = *state;

	count->until = 3;
	hvd_timer_every_ms(count->timer, 1);
	event_base_dispatch(count->base);
	assert_int_equal(count->calls, 3);
	assert_true(hvd_timer_runs(count->timer));
	hvd_timer_stop(count->timer);
	event_base_dispatch(count->base);
	assert_int_equal(count->calls, 3);
}

static void a_callback_may_free_its_timer(void **state)
{
	struct count *count = *state;

	count->frees = true;
	hvd_timer_every_ms(count->timer, 1);
	event_base_dispatch(count->base);
	assert_int_equal(count->calls, 1);
	assert_null(count->timer);
}

static void on_signal(int sig, void *arg)
{
	struct count *count = arg;

	assert_int_equal(sig, SIGUSR1);
	on_time(count);
}

static void a_signal_is_told(void **state)
{
	struct count *count = *state;
	struct hvd_signal_watch *watch = hvd_signal_watch(count->base, SIGUSR1, on_signal, count);

	count->until = 2;
	kill(getpid(), SIGUSR1);
	hvd_signal_soon(watch);
	event_base_dispatch(count->base);
	hvd_signal_unwatch(watch);
	assert_int_equal(count->calls, 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_timer_calls_once_and_at_its_time, set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_new_time_replaces_the_last_one, set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_timer_goes_on_until_it_is_stopped, set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_callback_may_free_its_timer, set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_signal_is_told, set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
