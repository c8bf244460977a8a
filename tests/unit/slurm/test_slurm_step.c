/* SPDX-License-Identifier: Apache-2.0 */
#include "slurm/slurm_step.h"

#include "tests/unit/unit.h"

/* A folder like /proc, in which each process is the child of the one with the next lower number. */
static char root[] = "/tmp/hvd-step.XXXXXX";
static int n_made;

static void put(int pid, const char *name, const char *text)
{
	char path[128];
	FILE *f;

	snprintf(path, sizeof(path), "%s/%d/%s", root, pid, name);
	f = fopen(path, "w");
	assert_non_null(f);
	fputs(text, f);
	fclose(f);
}

static void add(const char *name, const char *title)
{
	char path[128], stat[128];

	snprintf(path, sizeof(path), "%s/%d", root, ++n_made);
	assert_int_equal(mkdir(path, 0700), 0);
	snprintf(stat, sizeof(stat), "%d (%s) S %d 7 7", n_made, name, n_made - 1);
	put(n_made, "stat", stat);
	put(n_made, "cmdline", title);
}

static int set_up(void **state)
{
	assert_non_null(mkdtemp(root));
	return 0;
}

static int tear_down(void **state)
{
	static const char *const names[] = {"stat", "cmdline", "cgroup"};
	char path[128];

	for (; n_made > 0; n_made--) {
		for (int i = 0; i < 3; i++) {
			snprintf(path, sizeof(path), "%s/%d/%s", root, n_made, names[i]);
			unlink(path);
		}
		snprintf(path, sizeof(path), "%s/%d", root, n_made);
		rmdir(path);
	}
	rmdir(root);
	memcpy(root + strlen(root) - 6, "XXXXXX", 6);
	return 0;
}

TEST(test_a_task_and_what_it_has_started)
{
	char step[64];

	add("slurmstepd", "slurmstepd: [17.3]");
	add("bash", "bash");
	add("a) S 99 (b", "odd");
	assert_true(hvd_slurm_step_of(2, root, step, sizeof(step)));
	assert_string_equal(step, "17.3");
	assert_true(hvd_slurm_step_of(3, root, step, sizeof(step)));
	assert_string_equal(step, "17.3");
}

TEST(test_a_batch_script_within_a_step_is_none)
{
	char step[64];

	add("slurmstepd", "slurmstepd: [17.3]");
	add("slurmstepd", "slurmstepd: [18.batch]");
	add("bash", "bash");
	assert_false(hvd_slurm_step_of(3, root, step, sizeof(step)));
}

/* Below setsid or tmux no ancestor is a step daemon; where Slurm makes control groups, these are the step's. */
TEST(test_by_control_groups)
{
	char step[64];

	add("init", "init");
	put(1, "cgroup", "3:cpu:/\n2:freezer:/slurm/uid_1/job_7/step_0/task_0\n0::/\n");
	assert_true(hvd_slurm_step_of(1, root, step, sizeof(step)));
	assert_string_equal(step, "7.0");
	put(1, "cgroup", "0::/system.slice/slurmstepd.scope/job_12/step_3/user/task_0\n");
	assert_true(hvd_slurm_step_of(1, root, step, sizeof(step)));
	assert_string_equal(step, "12.3");
	put(1, "cgroup", "0::/system.slice/slurmstepd.scope/job_12/step_batch/user/task_0\n");
	assert_false(hvd_slurm_step_of(1, root, step, sizeof(step)));
	put(1, "cgroup", "0::/job_x/job_1/stop_1\n");
	assert_false(hvd_slurm_step_of(1, root, step, sizeof(step)));
}

TEST(test_what_is_no_step)
{
	char step[64];

	add("slurmstepd", "slurmstepd: [17.interactive]");
	add("bash", "slurmstepd is what I am reading about");
	assert_false(hvd_slurm_step_of(2, root, step, sizeof(step)));
	add("slurmstepd", "slurmstepd: [17.3");
	add("bash", "bash");
	assert_false(hvd_slurm_step_of(4, root, step, sizeof(step)));
	assert_false(hvd_slurm_step_of(5, root, step, sizeof(step)));
}

TEST(test_this_process)
{
	char step[64];

	hvd_slurm_step_of(getpid(), "/proc", step, sizeof(step)); /* whatever it says, it comes back */
	add("itself", "bash");
	put(1, "stat", "1 (itself) S 1 7 7"); /* a ring */
	assert_false(hvd_slurm_step_of(1, root, step, sizeof(step)));
}

TEST(test_the_binding_of_another_step)
{
	add("slurmstepd", "slurmstepd: [17.3]");
	add("hvdrun", "hvdrun");
	add("slurmstepd", "slurmstepd: [18.batch]");
	add("hvdrun", "hvdrun");
	setenv("SLURM_CPU_BIND", "cores", 1); /* as a user does */
	unsetenv("SLURM_CPU_BIND_LIST");
	hvd_slurm_forget_other_step(4, root);
	assert_string_equal(getenv("SLURM_CPU_BIND"), "cores");
	setenv("SLURM_CPU_BIND", "quiet,mask_cpu:0x1", 1); /* as Slurm does */
	setenv("SLURM_CPU_BIND_LIST", "0x1", 1);
	setenv("SLURM_CPU_BIND_TYPE", "mask_cpu:", 1);
	setenv("SLURM_CPU_BIND_VERBOSE", "quiet", 1);
	setenv("SLURM_JOB_ID", "17", 1);
	hvd_slurm_forget_other_step(2, root);
	assert_string_equal(getenv("SLURM_CPU_BIND"), "quiet,mask_cpu:0x1");
	setenv("SLURM_JOB_ID", "18", 1);
	hvd_slurm_forget_other_step(4, root);
	assert_null(getenv("SLURM_CPU_BIND"));
	assert_null(getenv("SLURM_CPU_BIND_LIST"));
	assert_null(getenv("SLURM_CPU_BIND_TYPE"));
	assert_null(getenv("SLURM_CPU_BIND_VERBOSE"));
}

static void set_step(const char *job, const char *tasks_per_node, const char *tasks)
{
	setenv("SLURM_JOB_ID", job, 1);
	setenv("SLURM_JOB_NODELIST", "n[2-3]", 1);
	setenv("SLURM_JOB_NUM_NODES", "2", 1);
	setenv("SLURM_TASKS_PER_NODE", tasks_per_node, 1);
	setenv("SLURM_NTASKS", tasks, 1);
	setenv("SLURM_STEP_ID", "3", 1);
	setenv("SLURM_STEP_NODELIST", "n3", 1);
	setenv("SLURM_STEP_NUM_TASKS", "8", 1);
}

TEST(test_a_step_of_another_job)
{
	add("slurmstepd", "slurmstepd: [17.3]");
	add("hvdrun", "hvdrun"); /* also what salloc has started there */
	add("slurmstepd", "slurmstepd: [18.batch]");
	add("hvdrun", "hvdrun");
	set_step("17", "4(x2)", "8");
	hvd_slurm_forget_other_step(2, root);
	assert_string_equal(getenv("SLURM_STEP_NODELIST"), "n3");
	for (int pid = 2; pid <= 4; pid += 2) {
		set_step("18", "4(x2)", "8"); /* sbatch -n8 */
		hvd_slurm_forget_other_step(pid, root);
		assert_null(getenv("SLURM_STEP_ID"));
		assert_null(getenv("SLURM_STEP_NODELIST"));
		assert_string_equal(getenv("SLURM_NTASKS"), "8");
		set_step("18", "1(x2)", "8"); /* sbatch without -n */
		hvd_slurm_forget_other_step(pid, root);
		assert_null(getenv("SLURM_NTASKS"));
		set_step("18", "1(x2)", "2"); /* sbatch -n2 */
		hvd_slurm_forget_other_step(pid, root);
		assert_string_equal(getenv("SLURM_NTASKS"), "2");
	}
	/* Where no step daemon is seen, hosts of other jobs show it. */
	set_step("18", "4(x2)", "8");
	hvd_slurm_forget_other_step(1, root);
	assert_string_equal(getenv("SLURM_STEP_NODELIST"), "n3");
	setenv("SLURM_STEP_NODELIST", "n[3-4]", 1);
	hvd_slurm_forget_other_step(1, root);
	assert_null(getenv("SLURM_STEP_ID"));
}

RUN_TESTS(.setup = set_up, .teardown = tear_down)
