/* SPDX-License-Identifier: Apache-2.0 */
/* Where hosts are in the network. */
#include "lib/host/switch_path.h"

#include "tests/unit/unit.h"

TEST(paths_come_from_slurm)
{
	static const struct {
		const char *addr, *pattern, *want;
	} rows[] = {
		{"core.leaf3.node7", "switch.switch.node", "core.leaf3"},
		{"core[1-2].leaf3.node7", "switch.switch.node", "core[1-2].leaf3"},
		{"b1,b2.node7", "block.node", "b1,b2"},
		{"node7", "node", NULL}, /* no topology */
		{"core.leaf3.node7", "switch.node", NULL},
		{"core.leaf3.node7.cluster", "switch.switch.node", NULL},
		{"core.leaf3.node7", "switch.switch.switch", NULL},
		{"core..node7", "switch.switch.node", NULL},
		{".node7", "switch.node", NULL},
		{"co re.node7", "switch.node", NULL},
		{"core\n.node7", "switch.node", NULL},
		{NULL, "switch.node", NULL},
		{"core.node7", NULL, NULL},
		{"", "", NULL},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		char *path = hvd_switch_path_of(rows[i].addr, rows[i].pattern);

		if (rows[i].want)
			assert_string_equal(path, rows[i].want);
		else
			assert_null(path);
		free(path);
	}
}

TEST(paths_are_checked)
{
	char most[HVD_SWITCH_PATH_MAX + 2];

	memset(most, 'a', sizeof(most));
	most[HVD_SWITCH_PATH_MAX + 1] = '\0';
	assert_false(hvd_switch_path_valid(most));
	most[HVD_SWITCH_PATH_MAX] = '\0';
	assert_true(hvd_switch_path_valid(most));
	assert_true(hvd_switch_path_valid("a.b-1_[2-3],c"));
	assert_false(hvd_switch_path_valid(""));
	assert_false(hvd_switch_path_valid("a."));
	assert_false(hvd_switch_path_valid(".a"));
	assert_false(hvd_switch_path_valid("a..b"));
	assert_false(hvd_switch_path_valid("a;b"));
}

TEST(paths_share_switches)
{
	assert_int_equal(hvd_switch_path_shared("a.b.c", "a.b.d"), 2);
	assert_int_equal(hvd_switch_path_shared("a.b", "a.b"), 2);
	assert_true(hvd_switch_path_same("a.b", "a.b"));
	assert_false(hvd_switch_path_same("a.b", "a"));
	assert_false(hvd_switch_path_same(NULL, NULL));
}

RUN_TESTS()
