/* SPDX-License-Identifier: Apache-2.0 */
#include "slurm/job_cpus.h"

#include "lib/base/strv.h"
#include "tests/unit/unit.h"

static void check(const char *nodes, const char *counts, int a, int b, int c)
{
	struct hvd_strv env = {0};
	struct hvd_alloc hosts;
	int *cpus, *gpus;

	if (nodes)
		hvd_env_set(&env, "SLURM_JOB_NODELIST", nodes);
	if (counts)
		hvd_env_set(&env, "SLURM_JOB_CPUS_PER_NODE", counts);
	assert_int_equal(hvd_alloc_from_hosts(&hosts, "n1:1,n3:1,other:1", 0, NULL), 0);
	hvd_slurm_job_counts(env.v, &hosts, &cpus, &gpus);
	assert_int_equal(cpus[0], a);
	assert_int_equal(cpus[1], b);
	assert_int_equal(cpus[2], c);
	free(cpus);
	free(gpus);
	hvd_alloc_clear(&hosts);
	hvd_strv_free(&env);
}

TEST(each_host_has_those_of_its_place_in_the_list)
{
	check("n[1-3]", "2(x2),8", 2, 8, 0);
	check("n3,n1", "8,2", 2, 8, 0);
}

TEST(lists_that_do_not_match_tell_nothing)
{
	check("n[1-3]", "2(x2)", 0, 0, 0);
	check("n[1-3]", "2(x99999999999)", 0, 0, 0);
	check("n[1-", "2", 0, 0, 0);
	check("n[1-3]", NULL, 0, 0, 0);
	check(NULL, "2", 0, 0, 0);
}

TEST(components_have_lists_of_their_own)
{
	struct hvd_strv env = {0};
	struct hvd_alloc hosts;
	int *cpus, *gpus;

	hvd_env_set(&env, "SLURM_JOB_NODELIST", "n1"); /* of a batch script, which is in the first */
	hvd_env_set(&env, "SLURM_JOB_CPUS_PER_NODE", "1");
	hvd_env_set(&env, "SLURM_JOB_NODELIST_HET_GROUP_0", "n1");
	hvd_env_set(&env, "SLURM_JOB_CPUS_PER_NODE_HET_GROUP_0", "1");
	hvd_env_set(&env, "SLURM_JOB_NODELIST_HET_GROUP_1", "n[2-3]");
	hvd_env_set(&env, "SLURM_JOB_CPUS_PER_NODE_HET_GROUP_1", "2,4");
	hvd_env_set(&env, "SLURM_GPUS_PER_NODE_HET_GROUP_1", "a100:4");
	assert_int_equal(hvd_alloc_from_hosts(&hosts, "n1:1,n2:1,n3:1", 0, NULL), 0);
	for (int i = 0; i < 3; i++)
		hosts.hosts[i].component = i ? 2 : 1;
	hvd_slurm_job_counts(env.v, &hosts, &cpus, &gpus);
	assert_int_equal(cpus[0], 1);
	assert_int_equal(cpus[1], 2);
	assert_int_equal(cpus[2], 4);
	assert_int_equal(gpus[0], -1);
	assert_int_equal(gpus[1], 4);
	assert_int_equal(gpus[2], 4);
	free(cpus);
	free(gpus);
	hvd_alloc_clear(&hosts);
	hvd_strv_free(&env);
}

TEST(each_host_has_as_many_gpus)
{
	struct hvd_strv env = {0};
	struct hvd_alloc hosts;
	int *cpus, *gpus;

	assert_int_equal(hvd_alloc_from_hosts(&hosts, "n1:1,n3:1", 0, NULL), 0);
	hvd_slurm_job_counts(env.v, &hosts, &cpus, &gpus);
	assert_int_equal(gpus[1], -1);
	free(cpus);
	free(gpus);
	hvd_env_set(&env, "SLURM_GPUS_PER_NODE", "a100:4");
	hvd_slurm_job_counts(env.v, &hosts, &cpus, &gpus);
	assert_int_equal(gpus[0], 4);
	assert_int_equal(gpus[1], 4);
	free(cpus);
	free(gpus);
	hvd_alloc_clear(&hosts);
	hvd_strv_free(&env);
}

RUN_TESTS()
