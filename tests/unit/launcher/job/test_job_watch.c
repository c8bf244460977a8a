/* SPDX-License-Identifier: Apache-2.0 */
/* What a job's owner hears of lost hosts and hangs, and which of it is a reason to requeue the batch job. */
#include "launcher/job/job.h"

#include "tests/unit/unit.h"

struct world {
	struct hvd_job_policy policy; /* first, so that a pointer to it is one to all */
	struct event_base *base;
	struct hvd_launch_spec spec;
	struct hvd_starter starter;
	struct hvd_result result;
	struct hvd_job job;
	struct hvd_job_watch *watch;
	int lost, ends;
	char host[64], how[64], why[256];
};

static void on_signal(int sig, void *arg)
{
	fail();
}

static void on_end(const struct hvd_err *why, void *arg)
{
	struct world *w = (struct world *)((struct hvd_job *)arg)->policy;

	w->ends++;
	snprintf(w->why, sizeof(w->why), "%.200s", why ? why->msg : "");
}

static void on_host_lost(struct hvd_job_policy *policy, const char *host, const char *how)
{
	struct world *w = (struct world *)policy;

	w->lost++;
	snprintf(w->host, sizeof(w->host), "%s", host);
	snprintf(w->how, sizeof(w->how), "%s", how);
}

SETUP(setup, struct world, w)
{
	static const struct hvd_job_watch_ops ops = {.signal_ranks = on_signal, .end = on_end};
	static const struct hvd_job_policy_ops policy_ops = {.host_lost = on_host_lost};
	static const struct hvd_log quiet = {.level = HVD_LOG_ERROR};

	w->base = event_base_new();
	w->policy.ops = &policy_ops;
	w->spec.requeue_on = 1U << HVD_REQUEUE_NODE | 1U << HVD_REQUEUE_HANG;
	w->job = (struct hvd_job){.opts = {.base = w->base, .control = "unit", .pid = getpid()},
				  .spec = &w->spec,
				  .starter = &w->starter,
				  .policy = &w->policy,
				  .result = &w->result,
				  .log = &quiet};
	w->watch = hvd_job_watch_create(&w->job, &ops);
}

TEARDOWN(teardown, struct world, w)
{
	hvd_job_watch_destroy(w->watch);
	hvd_requeue_clear(&w->result.requeue);
	event_base_free(w->base);
}

static void gone(struct world *w, const char *host, enum hvd_errc code)
{
	struct hvd_err why = {.code = code};

	hvd_job_watch_host_gone(w->watch, host, &why);
}

TEST_IN(a_host_that_does_not_answer_is_lost_at_once, struct world *w)
{
	gone(w, "n1", HVD_E_TIMEOUT);
	assert_int_equal(w->lost, 1);
	assert_string_equal(w->host, "n1");
	assert_string_equal(w->how, ": the host does not answer");
	assert_true(hvd_requeue_wanted(&w->result.requeue, HVD_REQUEUE_NODE));
	assert_string_equal(hvd_env_get(&w->result.requeue.bad, "n1"), "it has failed");
}

/* The others may follow: then the whole job is ending. */
TEST_IN(a_broken_connection_has_time, struct world *w)
{
	int64_t at, before = hvd_now();

	gone(w, "n2", HVD_E_NET);
	gone(w, "n3", HVD_E_NET);
	assert_int_equal(w->lost, 0);
	assert_true(hvd_job_watch_settle(w->watch));
	assert_false(hvd_job_watch_settle(w->watch));
	assert_string_equal(hvd_job_watch_settled_host(w->watch, &at), "n2");
	assert_true(at >= before);
	assert_false(hvd_requeue_wanted(&w->result.requeue, HVD_REQUEUE_NODE));
	hvd_job_watch_lose(w->watch);
	assert_int_equal(w->lost, 1);
	assert_string_equal(w->host, "n2");
	assert_string_equal(w->how, "");
	assert_true(hvd_requeue_wanted(&w->result.requeue, HVD_REQUEUE_NODE));
}

TEST_IN(and_is_lost_then, struct world *w)
{
	hvd_time began = hvd_now();

	gone(w, "n2", HVD_E_NET);
	while (!w->lost && hvd_now() - began < INT64_C(10000000000))
		event_base_loop(w->base, EVLOOP_ONCE);
	assert_int_equal(w->lost, 1);
	assert_true(hvd_now() - began > INT64_C(2900000000));
}

TEST_IN(a_watchdog_shows_that_the_host_is_up, struct world *w)
{
	struct hvd_loss loss = {.of = HVD_LOSS_AGENT, .host = "n9", .status = SIGKILL};

	gone(w, "n2", HVD_E_NET);
	assert_false(hvd_job_watch_process_lost(w->watch, &loss));
	loss.host = "n2";
	loss.status = -1;
	assert_false(hvd_job_watch_process_lost(w->watch, &loss));
	loss.status = SIGKILL;
	assert_true(hvd_job_watch_process_lost(w->watch, &loss));
	assert_false(hvd_job_watch_settle(w->watch));
}

TEST_IN(a_hang_ends_the_job, struct world *w)
{
	struct hvd_stall stall = {.seconds = 60};

	w->spec.hang_action = HVD_HANG_REPORT;
	hvd_job_watch_stalled(w->watch, 0, &stall);
	assert_int_equal(w->ends, 0);
	w->spec.hang_action = HVD_HANG_KILL;
	hvd_job_watch_stalled(w->watch, 0, &stall);
	assert_int_equal(w->ends, 1);
	assert_in(w->why, "no rank has made progress for 60 s");
	assert_false(hvd_requeue_wanted(&w->result.requeue, HVD_REQUEUE_HANG));
	w->spec.hang_action = HVD_HANG_REQUEUE;
	hvd_job_watch_stalled(w->watch, 0, &stall);
	assert_int_equal(w->ends, 2);
	assert_true(hvd_requeue_wanted(&w->result.requeue, HVD_REQUEUE_HANG));
}

TEST_IN(nothing_counts_in_a_job_that_is_ending, struct world *w)
{
	struct hvd_stall stall = {.seconds = 60};

	w->job.ending = true;
	w->spec.hang_action = HVD_HANG_REQUEUE;
	hvd_job_watch_stalled(w->watch, 0, &stall);
	assert_int_equal(w->ends, 0);
	gone(w, "n1", HVD_E_TIMEOUT);
	assert_int_equal(w->lost, 1); /* srun may wait for the host's tasks */
	assert_int_equal(w->result.requeue.reasons, 0);
}

TEST(what_the_user_reads)
{
	struct hvd_err err = {0};

	hvd_job_watch_lost_error(&err, "n1", ": the host does not answer", "ending the job", true);
	assert_in(err.msg, "was lost: the host does not answer; ending the job");
	assert_in(err.hint, "(sinfo -N -n n1)");
	assert_string_equal(err.host, "n1");
	/* Over ssh no scheduler knows it. */
	unsetenv("SLURM_JOB_ID");
	unsetenv("LSB_JOBID");
	hvd_job_watch_lost_error(&err, "n1", "", "ending the job", false);
	assert_in(err.hint, "(ping n1)");
}

/* The job is kept away from its host when it is requeued, for whatever reason. */
TEST_IN(a_rank_that_cannot_be_killed, struct world *w)
{
	const struct hvd_unkillable what = {.pid = 7, .state = 'D'}, left = {.pid = 8, .state = 'D', .left = true};

	hvd_job_watch_unkillable(w->watch, &what, NULL, 3, "n2");
	hvd_job_watch_unkillable(w->watch, &left, "rollout/1", 4, "n3");
	assert_int_equal(w->result.requeue.reasons, 0);
	assert_string_equal(hvd_env_get(&w->result.requeue.bad, "n2"), "its rank 3 cannot be killed");
	assert_string_equal(hvd_env_get(&w->result.requeue.bad, "n3"),
			    "a process of its rank rollout/1:4 cannot be killed");
	hvd_requeue_avoid(&w->result.requeue, "n2", "another reason");
	assert_string_equal(hvd_env_get(&w->result.requeue.bad, "n2"), "its rank 3 cannot be killed");
	hvd_requeue_allow(&w->result.requeue, "n2");
	hvd_requeue_allow(&w->result.requeue, "n9");
	assert_null(hvd_env_get(&w->result.requeue.bad, "n2"));
	assert_int_equal(w->result.requeue.bad.n, 1);
}

RUN_TESTS(.setup = setup, .teardown = teardown)
