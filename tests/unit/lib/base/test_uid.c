/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/base/uid.h"

#include "tests/unit/unit.h"

TEST(test_maps)
{
	/* no container; a container of root's alone; the user keeps its number; ranges of a runtime with subordinate
	 * ids */
	assert_int_equal(hvd_uid_map("         0          0 4294967295\n", 1000), 1000);
	assert_int_equal(hvd_uid_map("         0      20001          1\n", 0), 20001);
	assert_int_equal(hvd_uid_map("     20001      20001          1\n", 20001), 20001);
	assert_int_equal(hvd_uid_map("0 1000 1\n1 100000 65536\n", 0), 1000);
	assert_int_equal(hvd_uid_map("0 1000 1\n1 100000 65536\n", 33), 100032);
}

TEST(test_what_is_not_mapped_stays)
{
	assert_int_equal(hvd_uid_map("0 20001 1\n", 65534), 65534);
	assert_int_equal(hvd_uid_map("", 7), 7);
	assert_int_equal(hvd_uid_map("no map\n", 7), 7);
	assert_int_equal(hvd_uid_map("1 2\n", 7), 7);
}

TEST(test_here)
{
	if (access("/proc/self/uid_map", R_OK) != 0)
		skip();
	/* Wherever the test runs, the number is that of some user. */
	assert_true(hvd_uid_outside() != (uid_t)-1);
}

RUN_TESTS()
