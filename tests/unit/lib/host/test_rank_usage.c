/* SPDX-License-Identifier: Apache-2.0 */
/* What a rank uses, from its host to the driver. */
#include "lib/host/rank_usage.h"
#include "tests/unit/unit.h"

static const struct hvd_rank_usage some = {.rank = 7,
					   .cpu = 1980,
					   .delay = 12,
					   .memory = 734003200,
					   .read = 1048576,
					   .written = 4096,
					   .output = 3,
					   .awaited = 916,
					   .steps = 57,
					   .gpu = HVD_USAGE_UNKNOWN,
					   .gpu_memory = HVD_USAGE_UNKNOWN};

static int parse(const char *text, struct hvd_rank_usage *usage)
{
	json_auto_t *element = json_loads(text, 0, NULL);

	assert_non_null(element);
	return hvd_rank_usage_parse(element, usage, NULL);
}

static void test_same_after_the_way(void **state)
{
	json_auto_t *element = hvd_rank_usage_json(&some);
	struct hvd_rank_usage usage;

	(void)state;
	assert_int_equal(hvd_rank_usage_parse(element, &usage, NULL), 0);
	assert_int_equal(usage.rank, 7);
#define SAME(member, least, most) assert_int_equal(usage.member, some.member);
	HVD_RANK_USAGE_FIELDS(SAME)
#undef SAME
}

static void test_malformed(void **state)
{
	static const char *const bad[] = {
		"{}",
		"[]",
		"[1, 2, 3, 4, 5, 6, 7, 8, 9, 10]",
		"[-1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]",
		"[1, -1, 0, 0, 0, 0, 0, 0, 0, 0, 0]",
		"[1, 0, 0, 0, 0, 0, 0, 1001, 0, 0, 0]",
		"[1, 0, 0, 0, 0, 0, 0, -2, 0, 0, 0]",
		"[1, 0, 0, 0, 0, 0, 0, 0, -1, 0, 0]",
		"[1, 0, 0, 0.5, 0, 0, 0, 0, 0, 0, 0]",
		"[1, 0, 0, \"0\", 0, 0, 0, 0, 0, 0, 0]",
	};

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct hvd_rank_usage usage = some;

		assert_int_equal(parse(bad[i], &usage), -1);
		assert_int_equal(usage.rank + usage.cpu + usage.memory, 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_same_after_the_way),
		cmocka_unit_test(test_malformed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
