/* SPDX-License-Identifier: Apache-2.0 */
#include "task/rank_watch.h"

#include "unit.h"

#include <unistd.h>

struct told {
	struct event_base *base;
	struct hvd_rank_watch *watch;
	json_t *last;
};

static void take(json_t *msg, void *arg)
{
	struct told *t = arg;

	json_decref(t->last);
	t->last = msg;
	event_base_loopbreak(t->base);
}

static int set_up(void **state)
{
	static struct told t;

	t = (struct told){.base = event_base_new()};
	t.watch = hvd_rank_watch_create(t.base, take, &t, NULL);
	*state = &t;
	return 0;
}

static int tear_down(void **state)
{
	struct told *t = *state;

	hvd_rank_watch_destroy(t->watch);
	json_decref(t->last);
	event_base_free(t->base);
	return 0;
}

static void tell(struct told *t, const char *text, bool known)
{
	json_t *msg = json_loads(text, 0, NULL);

	assert_non_null(msg);
	assert_int_equal(hvd_rank_watch_message(t->watch, msg), known);
	json_decref(msg);
}

static void strangers_messages_are_left(void **state)
{
	tell(*state, "{\"t\":\"end\"}", false);
	tell(*state, "{}", false);
	tell(*state, "{\"t\":\"stacks\"}", true);
	assert_null(((struct told *)*state)->last);
}

static void no_ranks_have_no_stacks(void **state)
{
	struct told *t = *state;

	hvd_rank_watch_add(t->watch, 3, getpid());
	hvd_rank_watch_remove(t->watch, 3);
	hvd_rank_watch_remove(t->watch, 4);
	tell(t, "{\"t\":\"stacks\",\"id\":7,\"seconds\":5}", true);
	if (!t->last)
		event_base_dispatch(t->base);
	assert_int_equal(json_integer_value(json_object_get(t->last, "id")), 7);
	assert_int_equal(json_array_size(json_object_get(t->last, "ranks")), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(strangers_messages_are_left, set_up, tear_down),
		cmocka_unit_test_setup_teardown(no_ranks_have_no_stacks, set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
