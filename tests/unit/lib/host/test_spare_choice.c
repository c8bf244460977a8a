/* SPDX-License-Identifier: Apache-2.0 */
/* The worst host goes out, and the nearest comes in. */
#include "tests/unit/unit.h"

#include "lib/host/spare_choice.h"

static size_t worst(const char *hosts, uint32_t wanted)
{
	struct hvd_spare_host v[8] = {{.ranks = 0}};
	size_t n = 0;

	/* "RANKS:LINKS:MBPS" for each host */
	for (const char *p = hosts; *p; n++, p += strcspn(p, " "), p += *p == ' ')
		assert_int_equal(sscanf(p, "%u:%u:%lf", &v[n].ranks, &v[n].links, &v[n].mbps), 3);
	return hvd_spare_worst(v, n, wanted);
}

TEST(the_worst_goes_out)
{
	static const struct {
		const char *hosts;
		uint32_t wanted;
		size_t want;
	} rows[] = {
		{"2:0:0 2:0:0 2:0:0", 4, 2},         /* similar: the last */
		{"2:0:1000 2:0:700 2:0:1000", 4, 1}, /* the slowest */
		{"2:0:950 2:0:1000 2:0:1000", 4, 2}, /* hardly slower: similar */
		{"2:0:700 2:0:600 2:0:1000 2:0:990", 4, 1},
		{"2:0:0 2:0:700 2:0:1000 2:0:990", 4, 1},    /* one that was not measured is similar */
		{"4:0:500 2:0:800 2:0:1000 2:0:1000", 8, 1}, /* the ranks need the slowest */
		{"2:0:1000 2:0:700 2:0:1000", 5, 3},         /* all are needed */
		{"2:0:500 0:0:100 2:0:1000 2:0:1000", 4, 0}, /* the second was left out before */
		{"2:3:100 2:1:1000 2:3:1000", 0, 1},         /* links come first */
		{"2:1:700 2:1:1000 2:1:1000", 0, 0},
		{"2:0:0", 0, 1}, /* the last one stays */
		{"0:0:0 0:0:0", 0, 2},
		{"", 0, 0},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		if (worst(rows[i].hosts, rows[i].wanted) != rows[i].want)
			fail_msg("row %zu: %zu", i, worst(rows[i].hosts, rows[i].wanted));
}

TEST(slowness_is_named)
{
	const struct hvd_spare_host v[] = {{1, 0, 9400, NULL}, {1, 0, 95, NULL}, {1, 0, 0, NULL}, {1, 0, 9400, NULL}};
	char text[128];

	assert_string_equal(hvd_spare_slowness(v, 4, 1, text),
			    "the slowest, 95 Mbit/s to its neighbours, median 9.4 Gbit/s");
	assert_string_equal(hvd_spare_slowness(v, 4, 0, text), "");
	assert_string_equal(hvd_spare_slowness(v, 4, 2, text), "");
	assert_string_equal(hvd_spare_slowness(v + 2, 1, 0, text), "");
}

TEST(the_nearest_comes_in)
{
	static const struct {
		const char *to, *paths[4];
		size_t want;
	} rows[] = {
		{"c.s1", {"c.s2", "c.s1", "c.s3", "c.s1"}, 1}, /* the first of two */
		{"c.s1", {"d.s1", "c.s2", "d.s2", NULL}, 1},
		{"c.s1", {"c.s11", "c.s", "d.s1", "c.s1"}, 3}, /* whole names count */
		{"c.s1", {NULL, NULL, "d.s1", NULL}, 0},       /* none is nearer than the first */
		{"c.s1", {NULL, "c.s1.x", "c", NULL}, 1},
		{NULL, {"c.s1", "c.s2", NULL, "c"}, 0}, /* not known */
		{"c.s1", {NULL, NULL, NULL, "c.s9"}, 3},
	};
	struct hvd_spare_host v[4];

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		for (size_t k = 0; k < 4; k++)
			v[k] = (struct hvd_spare_host){.switch_path = rows[i].paths[k]};
		if (hvd_spare_nearest(v, 4, rows[i].to) != rows[i].want)
			fail_msg("row %zu: %zu", i, hvd_spare_nearest(v, 4, rows[i].to));
	}
	assert_int_equal(hvd_spare_nearest(v, 0, "c"), 0);
}

RUN_TESTS()
