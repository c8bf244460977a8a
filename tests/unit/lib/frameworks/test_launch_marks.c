/* SPDX-License-Identifier: Apache-2.0 */
/* Variables of a launch around this process go, and those of the user stay. */
#include "lib/frameworks/launch_marks.h"

#include "tests/unit/unit.h"

static void is(const char *name, const char *value)
{
	const char *has = getenv(name);

	if (!has != !value || (has && strcmp(has, value) != 0))
		fail_msg("%s is %s", name, has ? has : "unset");
}

TEST(what_the_launch_has_set_goes)
{
	struct hvd_strv env = {0};

	hvd_env_set(&env, "RANK", "3");
	hvd_env_set(&env, "PET_NNODES", "2");
	hvd_env_set(&env, "MASTER_ADDR", "10.0.0.1");
	hvd_env_set(&env, "NCCL_DEBUG", "INFO");
	hvd_launch_marks_set(&env);
	for (size_t i = 0; i < env.n; i++)
		putenv(env.v[i]);
	setenv("MASTER_ADDR", "n1", 1);
	setenv("OMP_NUM_THREADS", "4", 1);
	hvd_launch_marks_drop();
	is("RANK", NULL);
	is("PET_NNODES", NULL);
	is(HVD_LAUNCH_MARKS_ENV, NULL);
	is("MASTER_ADDR", "n1");    /* the user has changed it */
	is("OMP_NUM_THREADS", "4"); /* the launch has not set it */
	is("NCCL_DEBUG", "INFO");   /* it is no variable of a launch */
	hvd_launch_marks_drop();
	is("MASTER_ADDR", "n1");
	unsetenv("NCCL_DEBUG");
	hvd_strv_free(&env);
}

TEST(lists)
{
	struct hvd_strv env = {0};
	char *list;

	hvd_launch_marks_set(&env);
	assert_int_equal(env.n, 0);
	hvd_env_set(&env, "RANK", "3");
	hvd_env_set(&env, "LOCAL_RANK", "1");
	list = hvd_launch_marks_list(&env);
	assert_true(hvd_launch_marks_has(list, "RANK", "3"));
	assert_true(hvd_launch_marks_has(list, "LOCAL_RANK", "1"));
	assert_false(hvd_launch_marks_has(list, "RANK", "1"));
	assert_false(hvd_launch_marks_has(list, "RANK", ""));
	assert_false(hvd_launch_marks_has(list, "ANK", "3"));
	assert_false(hvd_launch_marks_has("", "RANK", "3"));
	assert_false(hvd_launch_marks_has(":::  RANK RANK: RANK:0", "RANK", "3"));
	free(list);
	hvd_strv_free(&env);
}

RUN_TESTS()
