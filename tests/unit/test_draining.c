/* SPDX-License-Identifier: Apache-2.0 */
/* The ranks of an elastic job end so that its batch job begins again: with which status, and when it is over. */
#include "launcher/job/draining.h"

#include "idle_machine_ops.h"
#include "unit.h"

#include <signal.h>

#define RANKS   3
#define EXIT(n) ((n) << 8) /* as from waitpid(2) */

struct world {
	struct event_base *base;
	struct hvd_machine *machine;
	struct hvd_launch_spec spec;
	struct hvd_requeue_wish wish;
	struct hvd_draining leaving;
	int over, status;
};

static void do_finish(const struct hvd_err *why, int status, void *arg)
{
	(void)why;
	(void)status;
	(void)arg;
}

static void on_over(int status, void *arg)
{
	struct world *w = arg;

	w->over++;
	w->status = status;
}

/* A job whose ranks run. */
static int begin(void **state)
{
	static const struct hvd_machine_ops ops = {do_host,   do_host, do_host,    do_nothing, do_no_generation,
						   do_start,  do_end,  do_nothing, do_host,    do_nothing,
						   do_finish, NULL,    NULL,       NULL,       NULL};
	const struct hvd_machine_opts opts = {
		.np = RANKS, .restart = true, .max_restarts = 3, .elastic_timeout = 60, .patience = 60};
	struct hvd_alloc hosts = {0};
	struct world *w = calloc(1, sizeof(*w));

	assert_non_null(w);
	*state = w;
	w->base = event_base_new();
	w->machine = hvd_machine_create(&opts, hvd_now(), &ops, w, NULL);
	assert_int_equal(hvd_alloc_add(&hosts, "h1", RANKS, NULL), 0);
	hvd_machine_hosts(w->machine, &hosts, hvd_now());
	hvd_machine_host_here(w->machine, 0, hvd_now());
	assert_non_null(hvd_machine_member(w->machine, RANKS - 1));
	hvd_alloc_clear(&hosts);
	w->spec.requeue_on = 1U << HVD_REQUEUE_ASK | 1U << HVD_REQUEUE_LIMIT;
	w->leaving = (struct hvd_draining){.spec = &w->spec, .wish = &w->wish, .over = on_over, .arg = w};
	hvd_draining_init(&w->leaving, w->base);
	return 0;
}

static int end(void **state)
{
	struct world *w = *state;

	hvd_draining_clear(&w->leaving);
	hvd_machine_destroy(w->machine);
	event_base_free(w->base);
	free(w);
	return 0;
}

static bool exited(struct world *w, int status)
{
	return hvd_draining_exited(&w->leaving, w->machine, status);
}

TEST(without_a_wish_the_machine_is_told_of_ends)
{
	struct world *w = *state;

	assert_false(exited(w, 0));
	assert_false(exited(w, EXIT(1)));
	assert_false(exited(w, SIGTERM));
	assert_int_equal(w->over, 0);
}

TEST(it_is_over_with_the_first_failure_when_all_have_ended)
{
	struct world *w = *state;

	hvd_requeue_want(&w->wish, &w->spec, HVD_REQUEUE_LIMIT, NULL);
	assert_true(exited(w, 0));
	assert_true(exited(w, SIGTERM));
	assert_int_equal(w->over, 0);
	assert_true(exited(w, EXIT(7)));
	assert_int_equal(w->over, 1);
	assert_int_equal(w->status, 128 + SIGTERM);
}

TEST(ranks_that_have_ended_well_are_no_failure)
{
	struct world *w = *state;

	hvd_requeue_want(&w->wish, &w->spec, HVD_REQUEUE_LIMIT, NULL);
	for (int i = 0; i < RANKS; i++)
		assert_true(exited(w, 0));
	assert_int_equal(w->over, 1);
	assert_int_equal(w->status, 0);
}

TEST(a_rank_may_begin_it)
{
	struct world *w = *state;

	assert_true(exited(w, EXIT(HVD_REQUEUE_STATUS)));
	assert_true(exited(w, EXIT(1)));
	assert_true(exited(w, 0));
	assert_int_equal(w->over, 1);
	assert_int_equal(w->status, HVD_REQUEUE_STATUS);
}

RUN_TESTS(.setup = begin, .teardown = end)
