/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/process/srun_env.h"

#include "tests/unit/unit.h"

extern char **environ;

TEST(options_of_tasks_are_set_aside_and_come_back)
{
	static const char *const names[] = {"SRUN_CPUS_PER_TASK", "SLURM_GPUS", "SLURM_OPTION_OF_LATER_RELEASES"};
	struct hvd_strv env = {0};

	hvd_env_set(&env, "PATH", "/bin");
	hvd_env_set(&env, "SLURM_JOB_ID", "7");
	hvd_env_set(&env, "SLURM_CONF", "/c");
	hvd_env_set(&env, "SLURM_RLIMIT_CORE", "0");
	hvd_env_set(&env, "SLURM_EXPORT_ENV", "NONE");
	hvd_env_set(&env, "SLURM_HVD_STEP", "7.0");
	for (int i = 0; i < 3; i++)
		hvd_env_set(&env, names[i], "a=b c");
	hvd_env_set(&env, "SLURM_NTASKS", "8");
	hvd_srun_env_set_aside(&env);
	assert_string_equal(hvd_env_get(&env, "PATH"), "/bin");
	assert_string_equal(hvd_env_get(&env, "SLURM_JOB_ID"), "7");
	assert_string_equal(hvd_env_get(&env, "SLURM_CONF"), "/c");
	assert_string_equal(hvd_env_get(&env, "SLURM_RLIMIT_CORE"), "0");
	assert_string_equal(hvd_env_get(&env, "SLURM_EXPORT_ENV"), "NONE");
	assert_null(hvd_env_get(&env, "SLURM_HVD_STEP"));
	for (int i = 0; i < 3; i++)
		assert_null(hvd_env_get(&env, names[i]));
	assert_null(hvd_env_get(&env, "SLURM_NTASKS"));

	/* In the step, for which Slurm has set SLURM_NTASKS. */
	clearenv();
	setenv("SLURM_NTASKS", "1", 1);
	for (size_t i = 0; i < env.n; i++)
		putenv(env.v[i]);
	hvd_srun_env_restore();
	for (int i = 0; i < 3; i++)
		assert_string_equal(getenv(names[i]), "a=b c");
	assert_string_equal(getenv("SLURM_NTASKS"), "1");
	for (char **e = environ; *e; e++)
		assert_null(strstr(*e, "SLURM_HVD_"));
	clearenv();
	hvd_strv_free(&env);
}

RUN_TESTS()
