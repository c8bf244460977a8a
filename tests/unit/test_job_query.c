/* SPDX-License-Identifier: Apache-2.0 */
/* What bjobs says of the time that a job has left. */
#include "launcher/run/job_query.h"

#include "unit.h"

TEST(test_times)
{
	static const struct {
		const char *text;
		double seconds;
	} texts[] = {
		{"0:57 L\n", 57 * 60},
		{"12:05 E\n", 12 * 3600 + 5 * 60},
		{"  100:00\n", 360000},
		{"0:00 L", 0},
		{"-\n", -1},
		{"", -1},
		{"12\n", -1},
		{"1:60 L\n", -1},
		{"1:5x\n", -1},
		{"-1:05 L\n", -1},
		{"x1:05 L\n", -1},
		{":05 L\n", -1},
		{"1:-5 L\n", -1},
	};

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		if ((long)hvd_job_query_lsf(texts[i].text) != (long)texts[i].seconds)
			fail_msg("'%s': %f", texts[i].text, hvd_job_query_lsf(texts[i].text));
}

RUN_TESTS()
