/* SPDX-License-Identifier: Apache-2.0 */
#include "launcher/scheduler/scheduler.h"

#include "tests/unit/unit.h"

#define WORDS(...) ((char **)(const char *[]){__VA_ARGS__, NULL})
#define SLURM      "SLURM_JOB_ID=7", "SLURM_JOB_NODELIST=n1"
#define LSF        "LSB_JOBID=71", "LSB_HOSTS=a b"

TEST(an_environment_belongs_to_one_scheduler)
{
	assert_ptr_equal(hvd_scheduler_of(WORDS("PATH=/bin")), &hvd_scheduler_none);
	assert_ptr_equal(hvd_scheduler_of(WORDS(SLURM)), &hvd_scheduler_slurm);
	assert_ptr_equal(hvd_scheduler_of(WORDS(LSF)), &hvd_scheduler_lsf);
	assert_ptr_equal(hvd_scheduler_of(WORDS(LSF, SLURM)), &hvd_scheduler_slurm);
	assert_ptr_equal(hvd_scheduler_of(WORDS("SLURM_JOB_ID=7")), &hvd_scheduler_none);
	assert_ptr_equal(hvd_scheduler_named("lsf"), &hvd_scheduler_lsf);
	assert_ptr_equal(hvd_scheduler_named("fake"), &hvd_scheduler_none);
}

static void forget(void)
{
	unsetenv("SLURM_JOB_ID");
	unsetenv("LSB_JOBID");
	unsetenv("LSB_HOSTS");
	unsetenv("LSB_JOBINDEX");
}

static void assert_job(const struct hvd_batch_job *job, const struct hvd_scheduler *scheduler, uint32_t number,
		       const char *name)
{
	assert_ptr_equal(job->scheduler, scheduler);
	assert_int_equal(job->number, number);
	assert_string_equal(job->name, name);
}

TEST(a_job_has_a_scheduler_and_a_name)
{
	struct hvd_launch_spec spec = {0};
	struct hvd_batch_job job;

	forget();
	job = hvd_batch_job_here();
	assert_job(&job, &hvd_scheduler_none, 0, "");
	setenv("LSB_JOBID", "71", 1);
	setenv("LSB_HOSTS", "a b", 1);
	setenv("LSB_JOBINDEX", "3", 1);
	job = hvd_batch_job_here();
	assert_job(&job, &hvd_scheduler_lsf, 0, "71[3]");
	setenv("SLURM_JOB_ID", "7", 1);
	job = hvd_batch_job_here();
	assert_job(&job, &hvd_scheduler_slurm, 7, "7");
	spec.srun.jobid = "9";
	job = hvd_batch_job_of(&spec, 0);
	assert_job(&job, &hvd_scheduler_slurm, 9, "9");
	job = hvd_batch_job_of(&spec, 11);
	assert_job(&job, &hvd_scheduler_slurm, 11, "11");
	forget();
}

TEST(outside_of_a_job_nobody_is_asked)
{
	struct hvd_launch_spec spec = {0};
	struct hvd_batch_job job;
	struct hvd_job_facts facts;
	struct hvd_err err = {0};

	forget();
	job = hvd_batch_job_of(&spec, 0);
	assert_fails_with(hvd_batch_job_facts(&job, &facts, hvd_deadline_in(1), &err), err, HVD_E_NOENT, "");
	assert_null(hvd_batch_job_fate(&job));
}

RUN_TESTS()
