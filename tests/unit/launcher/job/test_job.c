/* SPDX-License-Identifier: Apache-2.0 */
/* What follows from the end of a rank, and when a job is over, for a policy and a starter that only take notes. */
#include "launcher/job/job.h"

#include "tests/unit/unit.h"

#define EXIT(n) ((n) << 8) /* as from waitpid(2) */

struct world {
	struct hvd_job_policy policy; /* first, so that a pointer to it is one to all */
	struct hvd_starter starter;
	struct event_base *base;
	struct hvd_launch_spec spec;
	struct hvd_driver_opts opts;
	struct hvd_session session;
	struct hvd_result result;
	struct hvd_job *job;
	int told_agents, told_starter, ranks_ended;
};

static struct world *world_of(struct hvd_starter *starter)
{
	return (struct world *)((char *)starter - offsetof(struct world, starter));
}

static int do_start(struct hvd_starter *starter, const struct hvd_boot *boot, struct hvd_err *err)
{
	return 0;
}

static void do_end_ranks(struct hvd_job_policy *policy)
{
	((struct world *)policy)->told_agents++;
}

static void do_end(struct hvd_starter *starter, const struct hvd_ending *how)
{
	struct world *w = world_of(starter);

	assert_int_equal(how->again, w->told_starter > 0);
	w->told_starter++;
}

static void do_rank_ended(struct hvd_job_policy *policy, const struct hvd_rank_exit *exited)
{
	((struct world *)policy)->ranks_ended++;
}

/* No agent comes. */
static const struct hvd_agent_registry_ops no_agents;

static int open_world(struct hvd_job_policy *policy, struct hvd_err *err)
{
	static const struct hvd_world_ops no_ranks;

	return hvd_job_add_world(policy->job, policy->job->opts.driver, &no_ranks, NULL, err) ? 0 : -1;
}

SETUP(setup, struct world, w)
{
	static const struct hvd_job_policy_ops ops = {.agents = &no_agents, .open = open_world, .end = do_end_ranks};
	static const struct hvd_starter_ops starter_ops = {.start = do_start, .end = do_end};
	static const struct hvd_log quiet = {.level = HVD_LOG_ERROR - 1};
	struct hvd_err err;

	w->base = event_base_new();
	w->policy.ops = &ops;
	w->starter = (struct hvd_starter){.ops = &starter_ops, .agents_start_ranks = true, .agents_end_ranks = true};
	w->spec.deadlines.start = 60;
	w->opts = (struct hvd_driver_opts){.spec = &w->spec, .loopback = true, .id_text = "fd:9"};
	assert_int_equal(hvd_session_create(&w->session, &(struct hvd_identity){.kind = HVD_ID_KEY}, &err), 0);
	assert_int_equal(hvd_job_create(&(struct hvd_job_opts){.base = w->base,
							       .driver = &w->opts,
							       .session = &w->session,
							       .starter = &w->starter,
							       .policy = &w->policy,
							       .result = &w->result,
							       .control = "unit",
							       .pid = getpid(),
							       .log = &quiet},
					&err),
			 0);
	w->job = w->policy.job;
	hvd_job_handle(w->job, HVD_JOB_STARTED);
}

TEARDOWN(teardown, struct world, w)
{
	hvd_job_destroy(w->job);
	hvd_requeue_clear(&w->result.requeue);
	event_base_free(w->base);
}

static void rank_ends(struct world *w, uint32_t rank, int status, enum hvd_end_cause cause, bool told)
{
	hvd_job_rank_ended(w->job, 0, &(struct hvd_rank_end){.rank = rank, .status = status, .cause = cause}, rank,
			   "n1", told);
}

/* Hosts come and go, and generation follows generation. */
static void make_elastic(struct world *w)
{
	static const struct hvd_job_policy_ops ops = {.end = do_end_ranks, .rank_ended = do_rank_ended};

	w->policy.ops = &ops;
	w->policy.hosts_change = true;
}

TEST_IN(the_first_failure_ends_the_others, struct world *w)
{
	rank_ends(w, 0, 0, HVD_END_NONE, false);
	assert_false(w->job->ending);
	rank_ends(w, 2, EXIT(3), HVD_END_NONE, false);
	rank_ends(w, 1, SIGTERM, HVD_END_NONE, false);
	assert_true(w->job->ending);
	assert_int_equal(w->told_agents, 1);
	assert_int_equal(w->told_starter, 1);
	assert_int_equal(w->result.rank, 2);
	assert_int_equal(w->result.status, 3);
	hvd_job_handle(w->job, HVD_JOB_INTERRUPTED);
	assert_int_equal(w->told_starter, 2);
	hvd_job_handle(w->job, HVD_JOB_STARTER_GONE);
	assert_int_equal(w->job->state, HVD_JOB_OVER);
}

/* An agent whose connection is about to end has ended them: what has ended the agent is the reason. */
TEST_IN(ranks_that_an_agent_ends_unasked_wait_for_the_reason, struct world *w)
{
	rank_ends(w, 1, SIGKILL, HVD_END_WITH_ALL, false);
	assert_false(w->result.rank_failed);
	hvd_job_fail(w->job, NULL);
	while (hvd_timer_runs(w->job->late))
		event_base_loop(w->base, EVLOOP_ONCE);
	assert_int_equal(w->job->n_held, 0);
	assert_false(w->result.rank_failed);
	assert_int_equal(w->result.status, 1);
}

TEST_IN(and_fail_if_none_comes, struct world *w)
{
	rank_ends(w, 1, SIGKILL, HVD_END_WITH_ALL, false);
	while (hvd_timer_runs(w->job->late))
		event_base_loop(w->base, EVLOOP_ONCE);
	assert_true(w->job->ending);
	assert_int_equal(w->result.status, 128 + SIGKILL);
}

TEST_IN(no_end_is_a_failure_in_a_job_that_is_preempted, struct world *w)
{
	w->job->asking = true;
	rank_ends(w, 0, SIGTERM, HVD_END_NONE, false);
	assert_int_equal(w->job->n_held, 1);
	w->result.requeue.preempted = true;
	hvd_rank_exits_answered(w->job);
	rank_ends(w, 1, EXIT(1), HVD_END_NONE, false);
	assert_false(w->job->ending);
}

TEST_IN(a_held_end_is_one_if_it_is_not, struct world *w)
{
	w->job->asking = true;
	rank_ends(w, 0, SIGTERM, HVD_END_NONE, false);
	hvd_rank_exits_answered(w->job);
	assert_true(w->job->ending);
	assert_int_equal(w->result.status, 128 + SIGTERM);
}

TEST_IN(a_policy_that_starts_ranks_again_hears_of_all_ends, struct world *w)
{
	make_elastic(w);
	rank_ends(w, 0, EXIT(3), HVD_END_NONE, false);
	rank_ends(w, 1, SIGKILL, HVD_END_NONE, true);
	assert_int_equal(w->ranks_ended, 2);
	assert_false(w->job->ending);
}

TEST_IN(its_starter_may_have_nothing_to_do_for_a_while, struct world *w)
{
	make_elastic(w);
	hvd_job_handle(w->job, HVD_JOB_STARTER_GONE);
	assert_int_equal(w->job->state, HVD_JOB_RUNNING);
	hvd_job_end(w->job, &(struct hvd_err){0}, 5);
	hvd_job_handle(w->job, HVD_JOB_STARTER_GONE);
	assert_int_equal(w->job->state, HVD_JOB_OVER);
	assert_int_equal(w->result.status, 5);
}

RUN_TESTS(.setup = setup, .teardown = teardown)
