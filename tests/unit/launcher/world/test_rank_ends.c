/* SPDX-License-Identifier: Apache-2.0 */
#include "launcher/world/rank_ends.h"

#include "tests/unit/unit.h"

/* Three hosts: ranks 0 and 1, 2 and 3, 4. */
static struct hvd_layout three_hosts(void)
{
	char *names[] = {(char *)"a", (char *)"b", (char *)"c"};
	struct hvd_layout layout;

	assert_int_equal(hvd_layout_from_tasks(&layout, names, (int[]){2, 2, 1}, NULL, 3, NULL), 0);
	return layout;
}

TEST(each_counts_once)
{
	struct hvd_layout layout = three_hosts();
	struct hvd_rank_ends ends = {0};

	assert_false(hvd_rank_ends_add(&ends, 0)); /* nothing is watched */
	hvd_rank_ends_begin(&ends, &layout);
	assert_int_equal(ends.left, 5);
	assert_true(hvd_rank_ends_add(&ends, 2));
	assert_false(hvd_rank_ends_add(&ends, 2));
	assert_false(hvd_rank_ends_add(&ends, 5)); /* there is no such rank */
	assert_int_equal(ends.left, 4);
	assert_true(hvd_rank_ends_add(&ends, 0));
	assert_true(hvd_rank_ends_add(&ends, 4));
	assert_true(hvd_rank_ends_add(&ends, 1));
	assert_true(hvd_rank_ends_add(&ends, 3));
	assert_false(hvd_rank_ends_add(&ends, 3));
	assert_int_equal(ends.left, 0);
	hvd_rank_ends_clear(&ends);
	hvd_rank_ends_clear(&ends);
	hvd_layout_clear(&layout);
}

TEST(hosts_that_are_behind)
{
	struct hvd_layout layout = three_hosts();
	struct hvd_rank_ends ends = {0};

	assert_null(hvd_rank_ends_behind(&ends));
	hvd_rank_ends_begin(&ends, &layout);
	assert_null(hvd_rank_ends_behind(&ends));
	hvd_rank_ends_add(&ends, 0);
	hvd_rank_ends_add(&ends, 2);
	assert_text(hvd_rank_ends_hosts_left(&ends), "a,b,c");
	assert_null(hvd_rank_ends_behind(&ends)); /* no host has ended */
	hvd_rank_ends_add(&ends, 4);
	assert_text(hvd_rank_ends_behind(&ends), "a,b");
	hvd_rank_ends_add_host(&ends, "nowhere");
	assert_int_equal(ends.left, 2);
	hvd_rank_ends_add_host(&ends, "a");
	assert_int_equal(ends.left, 1);
	assert_text(hvd_rank_ends_behind(&ends), "b");
	hvd_rank_ends_add_host(&ends, "b");
	hvd_rank_ends_add_host(&ends, "b");
	assert_int_equal(ends.left, 0);
	assert_null(hvd_rank_ends_behind(&ends));
	assert_null(hvd_rank_ends_hosts_left(&ends));
	hvd_rank_ends_clear(&ends);
	hvd_layout_clear(&layout);
}

TEST(a_host_without_ranks_is_not_ahead)
{
	char *names[] = {(char *)"a", (char *)"spare", (char *)"b"};
	struct hvd_rank_ends ends = {0};
	struct hvd_layout layout;

	assert_int_equal(hvd_layout_from_tasks(&layout, names, (int[]){2, 0, 1}, NULL, 3, NULL), 0);
	hvd_rank_ends_begin(&ends, &layout);
	hvd_rank_ends_add(&ends, 0);
	assert_null(hvd_rank_ends_behind(&ends));
	hvd_rank_ends_add(&ends, 2);
	assert_text(hvd_rank_ends_behind(&ends), "a");
	hvd_rank_ends_clear(&ends);
	hvd_layout_clear(&layout);
}

TEST(a_host_is_named_once)
{
	struct hvd_rank_ends ends = {0};

	hvd_rank_ends_without_munge(&ends, "a");
	hvd_rank_ends_without_munge(&ends, "b");
	hvd_rank_ends_without_munge(&ends, "a");
	assert_int_equal(ends.without_munge.n, 2);
	hvd_rank_ends_clear(&ends);
}

RUN_TESTS()
