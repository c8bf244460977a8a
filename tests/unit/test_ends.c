/* SPDX-License-Identifier: Apache-2.0 */
#include "launcher/ends.h"

#include "unit.h"

static void the_last_one_is_told_once(void **state)
{
	struct hvd_ends ends = {0};

	(void)state;
	assert_false(hvd_ends_add(&ends, 0)); /* nothing is watched */
	hvd_ends_begin(&ends, 3);
	assert_false(hvd_ends_add(&ends, 2));
	assert_false(hvd_ends_add(&ends, 2));
	assert_false(hvd_ends_add(&ends, 3)); /* there is no such rank */
	assert_false(hvd_ends_add(&ends, 0));
	assert_true(hvd_ends_add(&ends, 1));
	assert_false(hvd_ends_add(&ends, 1));
	hvd_ends_clear(&ends);
	hvd_ends_clear(&ends);
}

static void a_host_is_named_once(void **state)
{
	struct hvd_ends ends = {0};

	(void)state;
	hvd_ends_begin(&ends, 4);
	hvd_ends_without_munge(&ends, "a");
	hvd_ends_without_munge(&ends, "b");
	hvd_ends_without_munge(&ends, "a");
	assert_int_equal(ends.without_munge.n, 2);
	hvd_ends_clear(&ends);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_last_one_is_told_once),
		cmocka_unit_test(a_host_is_named_once),
	};

	return cmocka_run_group_tests_name("ends", tests, NULL, NULL);
}
