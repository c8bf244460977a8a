/* SPDX-License-Identifier: Apache-2.0 */
/* The ranks of a job end so that its batch job begins again: with which status, and when it is over. */
#include "launcher/job/draining.h"

#include "tests/unit/unit.h"

#include <signal.h>

#define RANKS   3
#define EXIT(n) ((n) << 8) /* as from waitpid(2) */

struct world {
	struct event_base *base;
	struct hvd_launch_spec spec;
	struct hvd_requeue_wish wish;
	struct hvd_draining draining;
	int over, status;
};

static void on_over(int status, void *arg)
{
	struct world *w = arg;

	w->over++;
	w->status = status;
}

SETUP(setup, struct world, w)
{
	w->base = event_base_new();
	w->spec.requeue_on = 1U << HVD_REQUEUE_ASK | 1U << HVD_REQUEUE_LIMIT;
	w->draining = (struct hvd_draining){.wish = &w->wish, .restarts = true, .over = on_over, .arg = w};
	hvd_draining_init(&w->draining, w->base);
}

TEARDOWN(teardown, struct world, w)
{
	hvd_draining_clear(&w->draining);
	event_base_free(w->base);
}

/* A rank has ended. Is that no failure? */
static bool exited(struct world *w, int status)
{
	hvd_requeue_rank_ended(&w->wish, &w->spec, status);
	if (!hvd_draining(&w->draining))
		return false;
	hvd_draining_exited(&w->draining, RANKS, status);
	return true;
}

TEST_IN(without_a_wish_a_failure_is_one, struct world *w)
{
	assert_false(exited(w, 0));
	assert_false(exited(w, EXIT(1)));
	assert_false(exited(w, SIGTERM));
	assert_int_equal(w->over, 0);
}

TEST_IN(it_is_over_with_the_first_failure_when_all_have_ended, struct world *w)
{
	hvd_requeue_want(&w->wish, &w->spec, HVD_REQUEUE_LIMIT, NULL);
	assert_true(exited(w, 0));
	assert_true(exited(w, SIGTERM));
	assert_int_equal(w->over, 0);
	assert_true(exited(w, EXIT(7)));
	assert_int_equal(w->over, 1);
	assert_int_equal(w->status, 128 + SIGTERM);
}

TEST_IN(ranks_that_have_ended_well_are_no_failure, struct world *w)
{
	hvd_requeue_want(&w->wish, &w->spec, HVD_REQUEUE_LIMIT, NULL);
	for (int i = 0; i < RANKS; i++)
		assert_true(exited(w, 0));
	assert_int_equal(w->over, 1);
	assert_int_equal(w->status, 0);
}

TEST_IN(a_rank_may_begin_it, struct world *w)
{
	assert_true(exited(w, EXIT(HVD_REQUEUE_STATUS)));
	assert_true(exited(w, EXIT(1)));
	assert_true(exited(w, 0));
	assert_int_equal(w->over, 1);
	assert_int_equal(w->status, HVD_REQUEUE_STATUS);
}

TEST_IN(not_where_ranks_are_not_started_again, struct world *w)
{
	w->draining.restarts = false;
	assert_false(exited(w, EXIT(HVD_REQUEUE_STATUS)));
	w->wish.preempted = true;
	assert_true(exited(w, EXIT(1)));
}

/* A checkpoint may take longer than the others wait, if somebody else ends the ranks in time. */
TEST_IN(only_a_rank_that_has_asked_is_given_a_time, struct world *w)
{
	w->wish.preempted = true;
	assert_true(exited(w, EXIT(HVD_REQUEUE_STATUS)));
	assert_false(hvd_timer_runs(w->draining.late));
	w->wish.preempted = false;
	w->draining.ended = 0;
	assert_true(exited(w, EXIT(HVD_REQUEUE_STATUS)));
	assert_true(hvd_timer_runs(w->draining.late));
}

RUN_TESTS(.setup = setup, .teardown = teardown)
