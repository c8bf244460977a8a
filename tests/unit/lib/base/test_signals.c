/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/base/signals.h"
#include "tests/unit/unit.h"

TEST(each_signal_has_the_name_that_the_c_library_gives_it)
{
	for (int sig = -1; sig < 70; sig++) {
		const char *known = sigabbrev_np(sig), *ours = hvd_signal_name(sig);

		if (!known)
			assert_null(ours);
		else
			assert_string_equal(ours, known);
	}
}

TEST(numbers_are_found_by_name_and_by_number)
{
	assert_int_equal(hvd_signal_number("USR1@30", 4), SIGUSR1);
	assert_int_equal(hvd_signal_number("sigTerm", 7), SIGTERM);
	assert_int_equal(hvd_signal_number("15", 2), SIGTERM);
	assert_int_equal(hvd_signal_number("SIG", 3), 0);
	assert_int_equal(hvd_signal_number("", 0), 0);
	assert_int_equal(hvd_signal_number("0", 1), 0);
	assert_int_equal(hvd_signal_number("015", 3), 0);
	assert_int_equal(hvd_signal_number("USR", 3), 0);
}

RUN_TESTS()
