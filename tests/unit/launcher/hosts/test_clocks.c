/* SPDX-License-Identifier: Apache-2.0 */
#include "launcher/hosts/clocks.h"

#include "tests/unit/test_clock.h"
#include "tests/unit/unit.h"

#define MS  INT64_C(1000000)
#define DAY (INT64_C(86400000) * MS)

/* The host was started a day before this machine, and its wall clock is so far ahead. */
#define SINCE_START (DAY + test_clock)
static void registered(struct hvd_clock *clock, int64_t ahead, int64_t took)
{
	test_wall = INT64_C(1700000000000) * MS;
	test_clock = DAY;
	*clock = (struct hvd_clock){0};
	hvd_clock_registered(clock, SINCE_START - took, hvd_wall_at(test_clock - took) + ahead);
}

/* Nothing but that a message has come, or gone. */
TEST(nothing_is_known_at_first)
{
	struct hvd_clock clock = {0};

	assert_true(hvd_clock_here(&clock, 5) == 5);
	assert_true(hvd_clock_here(&clock, 0) == 0);
	assert_true(hvd_clock_skew(&clock) == 0);
	hvd_clock_came(&clock, 7 * MS, DAY);
	assert_true(hvd_clock_here(&clock, 7 * MS) == DAY);
	clock = (struct hvd_clock){0};
	hvd_clock_went(&clock, DAY, 7 * MS);
	assert_true(hvd_clock_here(&clock, 7 * MS) == DAY);
}

/* Messages that take some time, between hosts whose wall clocks are right. */
TEST(clocks_that_are_right)
{
	struct hvd_clock clock;

	registered(&clock, 0, 3 * MS);
	hvd_clock_went(&clock, test_clock + 4 * MS, SINCE_START + 900 * MS);
	assert_true(hvd_clock_skew(&clock) == 0);
	assert_true(hvd_clock_here(&clock, SINCE_START + 50 * MS) == test_clock + 50 * MS);
}

/* The times are right then as well, but for what the messages take. */
TEST(clocks_that_are_wrong)
{
	const int64_t offsets[] = {3600 * 1000 * MS, -3600 * 1000 * MS, 50 * MS, -50 * MS};

	for (size_t i = 0; i < sizeof(offsets) / sizeof(offsets[0]); i++) {
		struct hvd_clock clock;
		int64_t off = offsets[i], found, here;

		registered(&clock, off, 2 * MS);
		hvd_clock_came(&clock, SINCE_START + 5 * MS, test_clock + 9 * MS); /* says less */
		hvd_clock_went(&clock, test_clock + 10 * MS, SINCE_START + 11 * MS);
		hvd_clock_went(&clock, test_clock + 20 * MS, SINCE_START + 29 * MS); /* says less */
		found = hvd_clock_skew(&clock);
		assert_true(found >= off - 2 * MS && found <= off + MS);
		here = hvd_clock_here(&clock, SINCE_START);
		assert_true(here >= test_clock - MS && here <= test_clock + 2 * MS);
	}
}

/* Somebody sets the wall clock, here or there: nothing that is compared knows it. */
TEST(clocks_that_are_set)
{
	struct hvd_rank_end end = {0};
	struct hvd_clock clock;

	registered(&clock, 0, MS);
	test_wall += 3600 * 1000 * MS;
	end.ended_at = SINCE_START + 50 * MS;
	end.failed_at = SINCE_START + 40 * MS;
	hvd_clock_end(&clock, &end, test_clock + 52 * MS);
	assert_true(end.ended_at == test_clock + 50 * MS);
	assert_true(end.failed_at == test_clock + 40 * MS);
}

/* A machine that was suspended: its clock stands still, and what was known before does not hold any longer. */
TEST(clocks_that_stand_still)
{
	struct hvd_clock clock;

	registered(&clock, 0, MS);
	hvd_clock_went(&clock, test_clock + 100 * MS, SINCE_START + 101 * MS);
	hvd_clock_went(&clock, test_clock + 9000 * MS, SINCE_START + 1001 * MS);
	assert_true(hvd_clock_here(&clock, SINCE_START + 1001 * MS) == test_clock + 9000 * MS);
	registered(&clock, 0, MS);
	hvd_clock_went(&clock, test_clock + 100 * MS, SINCE_START + 101 * MS);
	hvd_clock_came(&clock, SINCE_START + 9000 * MS, test_clock + 1000 * MS);
	assert_true(hvd_clock_here(&clock, SINCE_START + 9000 * MS) == test_clock + 1000 * MS);
}

/* The host is started again, and registers anew. */
TEST(a_host_that_was_started_again)
{
	struct hvd_clock clock;

	registered(&clock, 0, MS);
	hvd_clock_registered(&clock, 5 * MS, hvd_wall_at(test_clock));
	assert_true(hvd_clock_here(&clock, 6 * MS) == test_clock + MS);
}

/* What a host says is not believed if it is no time. */
TEST(nonsense)
{
	struct hvd_clock clock = {0};
	struct hvd_rank_end end = {.ended_at = INT64_MAX, .failed_at = INT64_MAX};

	hvd_clock_came(&clock, INT64_MAX, DAY);
	hvd_clock_went(&clock, DAY, INT64_MIN);
	hvd_clock_came(&clock, 0, DAY);
	hvd_clock_registered(&clock, INT64_MAX, 5);
	hvd_clock_registered(&clock, 0, 5);
	assert_true(hvd_clock_here(&clock, 5) == 5);
	assert_true(hvd_clock_here(&clock, INT64_MAX) == INT64_MAX);
	hvd_clock_registered(&clock, 5, INT64_MAX);
	assert_true(hvd_clock_skew(&clock) == 0);
	hvd_clock_end(&clock, &end, DAY);
	assert_true(end.ended_at == DAY && end.failed_at == DAY);
}

RUN_TESTS()
