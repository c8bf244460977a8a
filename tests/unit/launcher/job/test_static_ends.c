/* SPDX-License-Identifier: Apache-2.0 */
#include "launcher/job/static_ends.h"

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
	struct hvd_static_ends ends = {0};

	assert_false(hvd_static_ends_add(&ends, 0)); /* nothing is watched */
	hvd_static_ends_begin(&ends, &layout);
	assert_int_equal(ends.left, 5);
	assert_true(hvd_static_ends_add(&ends, 2));
	assert_false(hvd_static_ends_add(&ends, 2));
	assert_false(hvd_static_ends_add(&ends, 5)); /* there is no such rank */
	assert_int_equal(ends.left, 4);
	assert_true(hvd_static_ends_add(&ends, 0));
	assert_true(hvd_static_ends_add(&ends, 4));
	assert_true(hvd_static_ends_add(&ends, 1));
	assert_true(hvd_static_ends_add(&ends, 3));
	assert_false(hvd_static_ends_add(&ends, 3));
	assert_int_equal(ends.left, 0);
	hvd_static_ends_clear(&ends);
	hvd_static_ends_clear(&ends);
	hvd_layout_clear(&layout);
}

TEST(hosts_that_are_behind)
{
	struct hvd_layout layout = three_hosts();
	struct hvd_static_ends ends = {0};

	assert_null(hvd_static_ends_hosts(&ends, HVD_HOSTS_BEHIND));
	hvd_static_ends_begin(&ends, &layout);
	assert_null(hvd_static_ends_hosts(&ends, HVD_HOSTS_BEHIND));
	hvd_static_ends_add(&ends, 0);
	hvd_static_ends_add(&ends, 2);
	assert_text(hvd_static_ends_hosts(&ends, HVD_HOSTS_LEFT), "a,b,c");
	assert_null(hvd_static_ends_hosts(&ends, HVD_HOSTS_BEHIND)); /* no host has ended */
	hvd_static_ends_add(&ends, 4);
	assert_text(hvd_static_ends_hosts(&ends, HVD_HOSTS_BEHIND), "a,b");
	hvd_static_ends_add_host(&ends, "nowhere");
	assert_int_equal(ends.left, 2);
	hvd_static_ends_add_host(&ends, "a");
	assert_int_equal(ends.left, 1);
	assert_text(hvd_static_ends_hosts(&ends, HVD_HOSTS_BEHIND), "b");
	hvd_static_ends_add_host(&ends, "b");
	hvd_static_ends_add_host(&ends, "b");
	assert_int_equal(ends.left, 0);
	assert_null(hvd_static_ends_hosts(&ends, HVD_HOSTS_BEHIND));
	assert_null(hvd_static_ends_hosts(&ends, HVD_HOSTS_LEFT));
	hvd_static_ends_clear(&ends);
	hvd_layout_clear(&layout);
}

TEST(a_host_without_ranks_is_not_ahead)
{
	char *names[] = {(char *)"a", (char *)"spare", (char *)"b"};
	struct hvd_static_ends ends = {0};
	struct hvd_layout layout;

	assert_int_equal(hvd_layout_from_tasks(&layout, names, (int[]){2, 0, 1}, NULL, 3, NULL), 0);
	hvd_static_ends_begin(&ends, &layout);
	hvd_static_ends_add(&ends, 0);
	assert_null(hvd_static_ends_hosts(&ends, HVD_HOSTS_BEHIND));
	hvd_static_ends_add(&ends, 2);
	assert_text(hvd_static_ends_hosts(&ends, HVD_HOSTS_BEHIND), "a");
	hvd_static_ends_clear(&ends);
	hvd_layout_clear(&layout);
}

TEST(a_host_is_named_once)
{
	struct hvd_static_ends ends = {0};

	hvd_static_ends_without_munge(&ends, "a");
	hvd_static_ends_without_munge(&ends, "b");
	hvd_static_ends_without_munge(&ends, "a");
	assert_int_equal(ends.without_munge.n, 2);
	hvd_static_ends_clear(&ends);
}

RUN_TESTS()
