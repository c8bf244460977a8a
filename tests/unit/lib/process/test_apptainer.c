/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/process/apptainer.h"

#include "tests/unit/unit.h"

TEST(test_commands)
{
	assert_string_equal(hvd_apptainer_prefix("apptainer"), "APPTAINERENV_");
	assert_string_equal(hvd_apptainer_prefix("/opt/bin/apptainer"), "APPTAINERENV_");
	assert_string_equal(hvd_apptainer_prefix("singularity"), "SINGULARITYENV_");
	assert_null(hvd_apptainer_prefix("python"));
	assert_null(hvd_apptainer_prefix("/apptainer/python"));
	assert_null(hvd_apptainer_prefix("apptainer-wrapper"));
	assert_null(hvd_apptainer_prefix("apptainer/"));
	assert_null(hvd_apptainer_prefix(""));
	assert_null(hvd_apptainer_prefix(NULL));
}

TEST(test_other_commands_get_the_name_alone)
{
	struct hvd_strv env = {0};

	hvd_apptainer_setenv(&env, "python", "HOROVOD_RANK", "3");
	assert_int_equal(env.n, 1);
	assert_string_equal(env.v[0], "HOROVOD_RANK=3");
	hvd_strv_free(&env);
}

TEST(test_both_names)
{
	struct hvd_strv env = {0};

	hvd_apptainer_setenv(&env, "apptainer", "HOROVOD_RANK", "3");
	assert_int_equal(env.n, 2);
	assert_string_equal(hvd_env_get(&env, "HOROVOD_RANK"), "3");
	assert_string_equal(hvd_env_get(&env, "APPTAINERENV_HOROVOD_RANK"), "3");
	hvd_strv_free(&env);
}

TEST(test_what_the_user_has_for_the_container_stays)
{
	struct hvd_strv env = {0};

	hvd_env_set(&env, "SINGULARITYENV_NCCL_SOCKET_IFNAME", "eth9");
	hvd_apptainer_setenv(&env, "/usr/bin/singularity", "NCCL_SOCKET_IFNAME", "ib0");
	assert_string_equal(hvd_env_get(&env, "NCCL_SOCKET_IFNAME"), "ib0");
	assert_string_equal(hvd_env_get(&env, "SINGULARITYENV_NCCL_SOCKET_IFNAME"), "eth9");
	hvd_strv_free(&env);
}

RUN_TESTS()
