/* SPDX-License-Identifier: Apache-2.0 */
/* Since when no rank of a job makes progress: the decision, at times that the tests choose, and the report. */
#include "launcher/diagnosis/hang_watch.h"
#include "launcher/world/progress.h"

#include "tests/unit/unit.h"

#define S       (hvd_time)1000000000
#define TIMEOUT 100.0

static struct hvd_watcher w[3];

/* Two hosts, whose ranks have been idle for different times, at 1000 s. */
static struct hvd_progress_state two_idle(void)
{
	for (int i = 0; i < 2; i++)
		w[i] = (struct hvd_watcher){.host = (uint32_t)i, .answered = true, .ranks = 4, .heard = 900 * S};
	w[0].since = 850 * S;
	w[1].since = 870 * S;
	return (struct hvd_progress_state){
		.watchers = w, .n = 2, .hosts = 2, .covered = 2, .begun = 10 * S, .progress = 20 * S};
}

static double idle_for(const struct hvd_progress_state *state)
{
	return (double)(1000 * S - hvd_progress_none_since(state, TIMEOUT, 1000 * S)) / 1e9;
}

TEST(test_the_last_that_became_idle_counts)
{
	struct hvd_progress_state s = two_idle();

	assert_true(idle_for(&s) == 130);
}

TEST(test_a_change_of_the_store_counts)
{
	struct hvd_progress_state s = two_idle();

	s.progress = 980 * S;
	assert_true(idle_for(&s) == 20);
}

TEST(test_one_active_host_is_enough)
{
	struct hvd_progress_state s = two_idle();

	w[1].since = 0;
	assert_true(idle_for(&s) == 0);
	w[1].heard = 700 * S; /* long ago, but it was not asked since */
	assert_true(idle_for(&s) == 0);
}

TEST(test_a_host_that_does_not_answer_is_idle_after_its_time)
{
	struct hvd_progress_state s = two_idle();

	w[1].since = 0;
	w[1].heard = 901 * S;
	w[1].asked = 951 * S;
	assert_true(idle_for(&s) == 0); /* it still has a second */
	w[1].heard = 900 * S;
	assert_true(idle_for(&s) == 100);
	w[1].answered = false; /* it has never answered: it is not known what it does */
	assert_true(idle_for(&s) == 0);
}

TEST(test_a_rank_that_waits_for_input_is_no_hang)
{
	struct hvd_progress_state s = two_idle();

	w[0].input = true;
	assert_true(idle_for(&s) == 0);
}

TEST(test_a_host_without_ranks_does_not_count)
{
	struct hvd_progress_state s = two_idle();

	w[1].since = 0;
	w[1].ranks = 0;
	assert_true(idle_for(&s) == 150);
	w[0].ranks = 0;
	assert_true(idle_for(&s) == 0); /* an elastic job that waits for slots */
	s.n = 0;
	assert_true(idle_for(&s) == 0);
}

TEST(test_hosts_that_are_not_watched_yet)
{
	struct hvd_progress_state s = two_idle();

	s.hosts = 3;
	s.begun = 980 * S;
	assert_true(idle_for(&s) == 0);
	s.begun = 960 * S; /* it will not come any longer */
	assert_true(idle_for(&s) == 130);
}

static double quiet_for(const struct hvd_progress_state *state)
{
	return (double)(1000 * S - hvd_progress_quiet_since(state, TIMEOUT, 1000 * S)) / 1e9;
}

TEST(test_ranks_that_only_use_their_processors_are_quiet)
{
	struct hvd_progress_state s = two_idle();

	assert_true(quiet_for(&s) == 130); /* idle ranks are quiet for as long at least */
	w[1].since = 0;
	assert_true(quiet_for(&s) == 0);
	w[1].quiet = 840 * S;
	assert_true(idle_for(&s) == 0);
	assert_true(quiet_for(&s) == 150);
	w[0].quiet = 700 * S; /* some of its ranks were busy before they were idle */
	w[1].quiet = 800 * S;
	assert_true(quiet_for(&s) == 200);
	s.progress = 990 * S;
	assert_true(quiet_for(&s) == 10);
	s.progress = 20 * S;
	w[1].input = true;
	assert_true(quiet_for(&s) == 0);
}

TEST(test_the_report_names_hosts_that_do_not_answer)
{
	struct hvd_stalled_host hosts[] = {{"n1", 600, true}, {"n2", 700, false}, {"n3", 700, false}};
	struct hvd_stall stall = {.seconds = 600.4, .hosts = hosts, .n = 1};
	struct hvd_err err;

	hvd_hang_describe(&stall, &err);
	assert_string_equal(err.msg, "no rank has made progress for 600 s");
	assert_int_equal(err.code, HVD_E_TIMEOUT);
	stall.n = 2;
	hvd_hang_describe(&stall, &err);
	assert_string_equal(err.msg, "no rank has made progress for 600 s, and this host does not answer: n2");
	stall.n = 3;
	hvd_hang_describe(&stall, &err);
	assert_string_equal(err.msg, "no rank has made progress for 600 s, and these hosts do not answer: n2, n3");
}

struct heard {
	struct hvd_hang_watch *watch;
	bool suspended;
	int asked, ended;
};

static void on_ask(void *arg)
{
	struct heard *heard = arg;

	heard->asked++;
	hvd_hang_watch_suspended(heard->watch, heard->suspended);
}

static void on_end(const struct hvd_err *why, bool requeue, const char *role, void *arg)
{
	assert_string_equal(role, "trainer");
	assert_in(why->msg, "ending the job: trainer: no rank has made progress for");
	((struct heard *)arg)->ended++;
}

TEST(test_a_suspended_job_is_no_hang)
{
	static const struct hvd_log quiet = {.level = HVD_LOG_ERROR, .of = "trainer", .fd = -1};
	const struct hvd_launch_spec spec = {.hang_action = HVD_HANG_KILL};
	const struct hvd_stall stall = {.seconds = 600};
	struct heard heard = {.suspended = true};

	heard.watch = hvd_hang_watch_create(NULL, 0, NULL, &spec, on_end, on_ask, &heard, NULL, &quiet);
	hvd_hang_watch_suspended(heard.watch, false); /* nobody has asked */
	hvd_hang_watch_stalled(heard.watch, &stall);
	hvd_hang_watch_stalled(heard.watch, &stall);
	assert_int_equal(heard.asked, 2);
	assert_int_equal(heard.ended, 0);
	heard.suspended = false;
	hvd_hang_watch_stalled(heard.watch, &stall);
	assert_int_equal(heard.ended, 1);
	hvd_hang_watch_destroy(heard.watch);
}

RUN_TESTS()
