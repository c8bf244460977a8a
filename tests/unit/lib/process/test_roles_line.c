/* SPDX-License-Identifier: Apache-2.0 */
/* srun's command lines with several components, as hvdrun's with roles. */
#include "lib/process/roles_line.h"

#include "lib/base/strv.h"
#include "tests/unit/unit.h"

/* NULL: it has one component. */
static void gives(const char *want, const char *line)
{
	struct hvd_strv argv = {0};
	char *got;

	assert_int_equal(hvd_shell_split(line, &argv), 0);
	got = hvd_roles_line(argv.v);
	if (!want && got)
		fail_msg("%s: %s", line, got);
	if (want && (!got || strcmp(got, want) != 0))
		fail_msg("%s: \"%s\" and not \"%s\"", line, got, want);
	free(got);
	hvd_strv_free(&argv);
}

TEST(components_become_roles)
{
	gives("hvdrun --role=r0 -N1 -n 2 a 'x y' : --role=r1 -N2 b", "srun --hvd -N1 -n 2 a 'x y' : -N2 b");
	gives("hvdrun --role=r0 a : --role=r1 --hvd-nics=ib0 b : --role=r2 c",
	      "srun a : --hvd --hvd-nics=ib0 b : --no-hvd c");
	gives("hvdrun --role=r0 -N1 COMMAND : --role=r1 -N2 b", "srun --hvd -N1 : -N2 b");
	gives("hvdrun --role=r0 -N1 true : --role=r1 COMMAND", "hvdrun -N1 true :");
	gives("hvdrun --role=r0 a '--token=***' : --role=r1 b", "srun --hvd a --token=abc : b");
}

TEST(groups_become_roles)
{
	gives("hvdrun --role=r0 --het-group=0 a : --role=r1 --het-group=2 a", "srun --het-group=0,2 --hvd a");
	gives("hvdrun --role=r0 --het-group=1 a : --role=r1 --het-group=2 a : --role=r2 --het-group=4 a",
	      "srun --hvd --het-group 1-2,4 a");
	gives("hvdrun --role=r0 --het-group=1 a : --role=r1 --het-group=0 b",
	      "srun --hvd --het-group=1 a : --het-group=0 b");
	gives("hvdrun --role=r0 --het-group=0 a : --role=r1 --het-group=1 a : --role=r2 b",
	      "srun --pack-group=0,1 a : b");
}

TEST(one_component_stays_one)
{
	gives(NULL, "");
	gives(NULL, "srun");
	gives(NULL, "srun --hvd -N4 python train.py a:b ::");
	gives(NULL, "srun --hvd --het-group=1 a");
	gives(NULL, "srun --hvd --het-group 63 a");
	/* No lists of groups: srun refuses them. */
	gives(NULL, "srun --hvd --het-group=0,64 a");
	gives(NULL, "srun --hvd --het-group=2-1 a");
	gives(NULL, "srun --hvd --het-group=0,x a");
	gives(NULL, "srun --hvd --het-group=, a");
	gives(NULL, "srun --hvd --het-group");
	assert_null(hvd_roles_line(NULL));
}

TEST(a_group_is_named)
{
	char *with[] = {(char *)"srun", (char *)"--het-group", (char *)"1", (char *)"a", NULL};

	assert_true(hvd_roles_line_has_group(with));
	assert_false(hvd_roles_line_has_group(with + 2));
	assert_false(hvd_roles_line_has_group(NULL));
}

RUN_TESTS()
