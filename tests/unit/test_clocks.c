/* SPDX-License-Identifier: Apache-2.0 */
#include "launcher/driver/clocks.h"

#include "unit.h"

#define MS  INT64_C(1000000)
#define NOW (INT64_C(1700000000000) * MS)

TEST(nothing_is_known_at_first)
{
	struct hvd_clock clock = {0};

	assert_true(hvd_clock_offset(&clock) == 0);
	assert_true(hvd_clock_here(&clock, NOW) == NOW);
	assert_true(hvd_clock_here(&clock, 0) == 0);
}

/* Messages that take some time, between clocks that are right: the difference is 0. */
TEST(clocks_that_are_right)
{
	struct hvd_clock clock = {0};

	hvd_clock_came(&clock, NOW, NOW + 3 * MS);
	hvd_clock_went(&clock, NOW + 4 * MS, NOW + 900 * MS);
	assert_true(hvd_clock_offset(&clock) == 0);
}

TEST(clocks_that_are_wrong)
{
	const int64_t offsets[] = {3600 * 1000 * MS, -3600 * 1000 * MS, 50 * MS, -50 * MS};

	for (size_t i = 0; i < sizeof(offsets) / sizeof(offsets[0]); i++) {
		struct hvd_clock clock = {0};
		int64_t off = offsets[i], found;

		hvd_clock_came(&clock, NOW + off, NOW + 2 * MS);
		hvd_clock_came(&clock, NOW + 5 * MS + off, NOW + 9 * MS); /* says less */
		hvd_clock_went(&clock, NOW + 10 * MS, NOW + 11 * MS + off);
		hvd_clock_went(&clock, NOW + 20 * MS, NOW + 29 * MS + off); /* says less */
		found = hvd_clock_offset(&clock);
		assert_true(found >= off - 2 * MS && found <= off + MS);
		assert_true(hvd_clock_here(&clock, NOW + off) >= NOW - MS);
		assert_true(hvd_clock_here(&clock, NOW + off) <= NOW + 2 * MS);
	}
}

/* What a host says is not believed if it is no time, and a clock that was set leaves no bounds. */
TEST(nonsense)
{
	struct hvd_clock clock = {0};

	hvd_clock_came(&clock, INT64_MAX, NOW);
	hvd_clock_went(&clock, NOW, INT64_MIN);
	hvd_clock_came(&clock, 0, NOW);
	assert_true(hvd_clock_offset(&clock) == 0);
	assert_true(hvd_clock_here(&clock, INT64_MAX) == INT64_MAX);
	hvd_clock_came(&clock, NOW + 1000 * MS, NOW);
	hvd_clock_went(&clock, NOW, NOW);
	assert_true(hvd_clock_offset(&clock) == 500 * MS);
}

RUN_TESTS()
