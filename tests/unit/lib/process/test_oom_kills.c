/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/process/oom_kills.h"

#include "tests/unit/unit.h"

static enum hvd_oom between(int64_t cgroup, int64_t cgroup_then, int64_t host, int64_t host_then, bool limited)
{
	struct hvd_oom_kills before = {.cgroup = cgroup, .host = host}, after = before;

	after.cgroup = cgroup_then;
	after.host = host_then;
	after.limited = limited;
	return hvd_oom_between(&before, &after);
}

TEST(whose_memory_was_used_up)
{
	assert_int_equal(between(2, 2, 5, 5, true), HVD_OOM_NO);
	assert_int_equal(between(2, 3, 5, 6, true), HVD_OOM_CGROUP);
	assert_int_equal(between(2, 3, 5, 6, false), HVD_OOM_HOST);
	/* A process of another job was killed. */
	assert_int_equal(between(2, 2, 5, 6, true), HVD_OOM_NO);
	/* Where the cgroup cannot be read. */
	assert_int_equal(between(-1, -1, 5, 6, false), HVD_OOM_HOST);
	assert_int_equal(between(2, -1, 5, 6, false), HVD_OOM_HOST);
	assert_int_equal(between(-1, -1, 5, 5, false), HVD_OOM_NO);
	assert_int_equal(between(-1, -1, -1, -1, false), HVD_OOM_NO);
}

TEST(the_counts_of_this_machine)
{
	struct hvd_oom_kills self = hvd_oom_kills(0), same = hvd_oom_kills(getpid()), none = hvd_oom_kills(INT32_MAX);

	assert_true(self.cgroup == same.cgroup && self.limited == same.limited);
	assert_true(self.host >= -1 && self.cgroup >= -1);
	assert_true(none.cgroup == -1 && !none.limited);
}

TEST(the_hosts_count_is_taken_over_where_another_counts)
{
	const struct hvd_oom_kills before = {.cgroup = 7, .host = 1234567};
	struct hvd_oom_kills self = hvd_oom_kills(0), none = hvd_oom_kills_soon_after(&before, NULL), some;
	char *cgroup = hvd_oom_cgroup(0);

	assert_int_equal(none.cgroup, -1);
	assert_int_equal(none.host, self.host);
	some = hvd_oom_kills_soon_after(&before, cgroup);
	assert_int_equal(some.cgroup, self.cgroup);
	assert_int_equal(some.host, self.cgroup >= 0 ? before.host : self.host);
	free(cgroup);
}

RUN_TESTS()
