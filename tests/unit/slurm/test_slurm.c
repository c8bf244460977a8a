/* SPDX-License-Identifier: Apache-2.0 */
/* What is asked of Slurm, without a cluster: texts, and stand-ins for its commands. */
#include "lib/base/xalloc.h"
#include "slurm/gres.h"
#include "slurm/scontrol.h"
#include "slurm/slurm.h"
#include "tests/unit/unit.h"

#include <sys/stat.h>

TEST(gpus_are_read_from_gres)
{
	static const struct {
		const char *text;
		int want;
	} cases[] = {
		{"gpu:2", 2},
		{"gpu:a100:4", 4},
		{"gpu:a100:2(IDX:0-1)", 2},
		{"gpu:a100:2(IDX:0,3),gpu:v100:1(IDX:7)", 3},
		{"gpu(IDX:3)", 1},
		{"gpu", 1},
		{"gpu:tesla", 1},
		{"gres/gpu=3", 3},
		{"cpu=4,gres/gpu:tesla=2", 2},
		{"gres/gpu:1", 1},
		{"gres:gpu:5", 5},
		{"shard:8", 0},
		{"gpus:8", 0},
		{"mps:100,gpu:1", 1},
		{"", 0},
		{"craynetwork:1", 0},
		{"gpu:", -1},
		{"gpu:a:", -1},
		{"gpu:x=y", -1},
		{"gpu:99999999999", -1},
		{"gpu:2(IDX:0-1", -1},
		{"gpu:60000,gpu:60000", -1},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++)
		if (hvd_gres_gpus(cases[i].text) != cases[i].want)
			fail_msg("'%s': %d instead of %d", cases[i].text, hvd_gres_gpus(cases[i].text), cases[i].want);
}

TEST(scontrol_tells_the_configuration)
{
	static const struct {
		const char *text;
		struct hvd_slurm_site want;
	} cases[] = {
		{"", {0, 0, true, 0, false}},
		{"Configuration data as of …\nSrunPortRange           = 60001-63000\nTaskPlugin              = "
		 "task/affinity,task/cgroup\n",
		 {60001, 63000, true, 0, true}},
		{"SrunPortRange           = 0-0\nTaskPlugin              = task/none\n", {0, 0, true, 0, false}},
		{"TaskPlugin              = (null)\nTaskPluginParam         = (null type)\n", {0, 0, true, 0, false}},
		{"TaskPlugin              = ", {0, 0, true, 0, false}},
		{"SrunPortRange=5-7", {5, 7, true, 0, false}},
		{"SrunPortRange = 7-5\n", {0, 0, true, 0, false}},
		{"SrunPortRange = 7\n", {0, 0, true, 0, false}},
		{"SrunPortRange = 7-70000\n", {0, 0, true, 0, false}},
		{"SrunPortRange = 99999999999999999999-1\n", {0, 0, true, 0, false}},
		{"AuthType                = auth/slurm\n", {0, 0, false, 0, false}},
		{"AuthType = auth/munge\n", {0, 0, true, 0, false}},
		{"KillWait                = 30 sec\nKillOnBadExit           = 0\n", {0, 0, true, 30, false}},
		{"KillWait = 0 sec\n", {0, 0, true, 0, false}},
		{"KillWait = -5 sec\n", {0, 0, true, 0, false}},
		{"KillWait = 99999999 sec\n", {0, 0, true, 0, false}},
		{"NoSrunPortRange = 5-7\nSrunPortRangeX = 5-7\n", {0, 0, true, 0, false}},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct hvd_slurm_site site;

		hvd_scontrol_config_parse(cases[i].text, &site);
		if (site.port_lo != cases[i].want.port_lo || site.port_hi != cases[i].want.port_hi ||
		    site.kill_wait != cases[i].want.kill_wait || site.binds != cases[i].want.binds ||
		    site.munge != cases[i].want.munge)
			fail_msg("'%s': %d-%d %d %d", cases[i].text, site.port_lo, site.port_hi, site.munge,
				 site.binds);
	}
}

TEST(some_nodes_are_not_to_be_used)
{
	/* Down to the second line as releases before 21.08 print them. */
	static const char *const usable[] = {"IDLE*",
					     "ALLOCATED#",
					     "MIXED@",
					     "IDLE",
					     "ALLOCATED",
					     "MIXED",
					     "UNKNOWN",
					     "IDLE+NOT_RESPONDING",
					     "ALLOCATED+COMPLETING",
					     "IDLE+CLOUD+POWERING_UP",
					     "MIXED+PLANNED",
					     "IDLE+REBOOT_REQUESTED"},
				 *const unusable[] = {"DOWN*",
						      "IDLE*+DRAIN",
						      "IDLE~",
						      "IDLE%",
						      "REBOOT^",
						      "DOWN",
						      "ERROR",
						      "FUTURE",
						      "IDLE+DRAIN",
						      "ALLOCATED+DRAIN",
						      "IDLE+FAIL",
						      "IDLE+POWERED_DOWN",
						      "IDLE+CLOUD+POWERING_DOWN",
						      "ALLOCATED+REBOOT_ISSUED",
						      "DOWN+NOT_RESPONDING"};
	struct hvd_strv found = {0};
	char text[256];

	for (size_t i = 0; i < sizeof(usable) / sizeof(usable[0]); i++) {
		snprintf(text, sizeof(text), "NodeName=n1 Arch=x\n   State=%s ThreadsPerCore=1\n", usable[i]);
		hvd_scontrol_unusable(text, &found);
		if (found.n)
			fail_msg("%s", usable[i]);
	}
	for (size_t i = 0; i < sizeof(unusable) / sizeof(unusable[0]); i++) {
		snprintf(text, sizeof(text), "NodeName=n1 Arch=x\n   State=%s ThreadsPerCore=1\n", unusable[i]);
		hvd_scontrol_unusable(text, &found);
		if (found.n != i + 1)
			fail_msg("%s", unusable[i]);
	}
	hvd_strv_free(&found);
}

struct made_node {
	const char *name, *cpus, *features, *gres, *state, *partitions;
};

static long nodes_like(const struct made_node *nodes, size_t n, const char *name, const struct hvd_strv *excluded)
{
	char *text = hvd_xstrdup("");
	long like;

	for (size_t i = 0; i < n; i++)
		hvd_xappendf(&text,
			     "NodeName=%s CoresPerSocket=8 \n   CPUAlloc=0 CPUEfctv=7 CPUTot=%s CPULoad=0.95\n"
			     "   AvailableFeatures=%s\n   ActiveFeatures=(null)\n   Gres=%s\n   State=%s Weight=1\n"
			     "   Partitions=%s \n   Reason=the\n   State=DOWN\n\n",
			     nodes[i].name, nodes[i].cpus, nodes[i].features, nodes[i].gres, nodes[i].state,
			     nodes[i].partitions);
	like = hvd_scontrol_nodes_like(text, name, excluded);
	free(text);
	return like;
}

/* Can a job be given n1, which is as this says, in place of n0? */
static long is_like(const char *own_features, struct made_node n1, const struct hvd_strv *excluded)
{
	const struct made_node nodes[] = {
		{"n0", "8", own_features, "(null)", "DOWN", "a,b"}, n1, {"n2", "4", "(null)", "(null)", "IDLE", "a,b"}};

	return nodes_like(nodes, 3, "n0", excluded);
}

TEST(nodes_like_another_one)
{
	static const struct {
		const char *own_features;
		struct made_node n1;
		long like;
	} rows[] = {
		{"(null)", {"n1", "8", "(null)", "(null)", "ALLOCATED", "a,b"}, 1},
		{"(null)", {"n1", "8", "(null)", "(null)", "ALLOCATED+DRAIN", "a,b"}, 0},
		{"(null)", {"n1", "8", "(null)", "(null)", "IDLE+NOT_RESPONDING", "a,b"}, 0},
		{"(null)", {"n1", "8", "(null)", "(null)", "IDLE*", "a,b"}, 0},
		{"(null)", {"n1", "8", "gpu", "(null)", "IDLE", "a,b"}, 0},
		{"gpu", {"n1", "8", "gpu", "(null)", "IDLE", "a,b"}, 1},
		{"gpu", {"n1", "8", "gpu", "gpu:8", "IDLE", "a,b"}, 0},
		{"gpu", {"n1", "8", "gpu", "(null)", "IDLE", "a"}, 0},
	};
	const struct made_node all[] = {{"n0", "8", "(null)", "(null)", "DOWN", "a,b"},
					{"n1", "8", "(null)", "(null)", "ALLOCATED", "a,b"},
					{"n2", "4", "(null)", "(null)", "IDLE", "a,b"}};
	struct hvd_strv excluded = {0};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		if (is_like(rows[i].own_features, rows[i].n1, &excluded) != rows[i].like)
			fail_msg("row %zu", i);
	assert_int_equal(nodes_like(all, 3, "n1", &excluded), 0); /* n0 is down */
	assert_int_equal(nodes_like(all, 3, "n2", &excluded), 0);
	assert_int_equal(nodes_like(all, 3, "n3", &excluded), -1);
	hvd_strv_add(&excluded, "n1");
	assert_int_equal(nodes_like(all, 3, "n0", &excluded), 0);
	hvd_strv_free(&excluded);
}

/* A folder in front of PATH with a stand-in for each of Slurm's commands, which runs these lines of a shell. */
static void play(const char *lines)
{
	static const char *const commands[] = {"scontrol", "squeue", "scancel"};
	char dir[] = "/tmp/hvd-test-slurm-XXXXXX", path[256];

	assert_non_null(mkdtemp(dir));
	for (size_t i = 0; i < 3; i++) {
		FILE *f;

		snprintf(path, sizeof(path), "%s/%s", dir, commands[i]);
		assert_non_null(f = fopen(path, "w"));
		fprintf(f, "#!/bin/sh\nPATH=/usr/bin:/bin\n%s\n", lines);
		assert_int_equal(fclose(f), 0);
		assert_int_equal(chmod(path, 0755), 0);
	}
	setenv("PATH", dir, 1);
}

static int clean_up(void **state)
{
	const char *dir = getenv("PATH");
	static const char *const commands[] = {"scontrol", "squeue", "scancel"};
	char path[256];

	(void)state;
	for (size_t i = 0; i < 3 && strncmp(dir, "/tmp/hvd-test-slurm-", 20) == 0; i++) {
		snprintf(path, sizeof(path), "%s/%s", dir, commands[i]);
		unlink(path);
	}
	rmdir(dir);
	setenv("PATH", "/usr/bin:/bin", 1);
	return 0;
}

TEST_WITH(commands_that_are_missing_fail_or_do_not_end, NULL, clean_up)
{
	struct hvd_slurm_job job;
	struct hvd_err err = {0};
	struct hvd_slurm_site site = {1, 1, true, 1, true};

	setenv("PATH", "/nonexistent", 1);
	assert_fails_with(hvd_slurm_site_get(&site, hvd_deadline_in(5), &err), err, HVD_E_SYS,
			  "Slurm's configuration cannot be read: ");
	assert_in(err.hint, "scontrol show config");
	assert_int_equal(site.port_lo, 0);
	assert_false(site.binds);
	assert_fails_with(hvd_slurm_job_get(1, &job, hvd_deadline_in(5), &err), err, HVD_E_SYS, "cannot ask Slurm");
	assert_fails_with(hvd_slurm_step_signal(1, 0, 9, hvd_deadline_in(5), &err), err, HVD_E_SYS,
			  "cannot signal the step");
	play("echo 'scontrol: error: one'; echo 'scontrol: fatal: Unable to process configuration file' >&2; exit 1");
	assert_fails_with(hvd_slurm_site_get(&site, hvd_deadline_in(5), &err), err, HVD_E_FAILED,
			  "Slurm's configuration cannot be read: Unable to process configuration file");
	clean_up(NULL);
	play("kill -SEGV $$");
	assert_fails_with(hvd_slurm_site_get(&site, hvd_deadline_in(5), &err), err, HVD_E_FAILED,
			  "Slurm's configuration cannot be read: scontrol: killed by signal 11");
	clean_up(NULL);
	play("exec sleep 100");
	assert_fails_with(hvd_slurm_job_get(1, &job, hvd_deadline_in(0.2), &err), err, HVD_E_TIMEOUT,
			  "cannot ask Slurm for the job: squeue does not end");
	clean_up(NULL);
	play("echo 'slurm_load_jobs error: Invalid job id specified' >&2; exit 1");
	assert_fails_with(hvd_slurm_job_get(1, &job, hvd_deadline_in(5), &err), err, HVD_E_NOENT, "cannot ask Slurm");
	assert_int_equal(hvd_slurm_step_signal(1, 0, 9, hvd_deadline_in(5), &err), 0);
	clean_up(NULL);
	play("exit 0"); /* later releases say nothing of an unknown job */
	assert_fails_with(hvd_slurm_job_get(1, &job, hvd_deadline_in(5), &err), err, HVD_E_NOENT,
			  "Slurm knows no job 1");
	memset(&job, 0, sizeof(job));
	hvd_slurm_job_clear(&job);
}

/* What a user or a job has set would change which jobs squeue prints, and how. */
TEST_WITH(variables_of_slurms_commands_do_not_reach_them, NULL, clean_up)
{
	struct hvd_slurm_site site;
	struct hvd_err err = {0};

	setenv("SQUEUE_STATES", "PD", 1);
	setenv("SLURM_CLUSTERS", "other", 1);
	setenv("SLURM_TIME_FORMAT", "relative", 1);
	setenv("LC_ALL", "de_DE.UTF-8", 1);
	setenv("SLURM_CONF", "(null)", 1);
	play("[ \"$LC_ALL$SLURM_TIME_FORMAT\" = C%s ] && [ -z \"${SQUEUE_STATES+x}${SLURM_CLUSTERS+x}${SLURM_CONF+x}\" "
	     "] "
	     "&& echo 'KillWait = 7 sec'");
	assert_int_equal(hvd_slurm_site_get(&site, hvd_deadline_in(5), &err), 0);
	assert_int_equal(site.kill_wait, 7);
	clean_up(NULL);
	setenv("SLURM_CONF", "/some/slurm.conf", 1);
	play("echo \"KillWait = ${#SLURM_CONF} sec\"");
	assert_int_equal(hvd_slurm_site_get(&site, hvd_deadline_in(5), &err), 0);
	assert_int_equal(site.kill_wait, 16);
	unsetenv("SQUEUE_STATES");
	unsetenv("SLURM_CLUSTERS");
	unsetenv("SLURM_TIME_FORMAT");
	unsetenv("LC_ALL");
	unsetenv("SLURM_CONF");
}

TEST_WITH(why_slurm_does_not_requeue, NULL, clean_up)
{
	const struct hvd_slurm_rerun rerun = {.name = "10_3"};
	struct hvd_err err = {0};

	play("[ \"$*\" = 'requeue incomplete 10_3' ] && echo 'Job is pending execution for job 10_3' >&2; exit 1");
	assert_fails_with(hvd_slurm_requeue(&rerun, false, hvd_deadline_in(5), &err), err, HVD_E_NOENT,
			  "Slurm refuses: Job is pending execution");
	clean_up(NULL);
	play("[ \"$*\" = 'requeue 10_3' ] && echo '10_3: Requested operation is presently disabled' >&2; exit 1");
	assert_fails_with(hvd_slurm_requeue(&rerun, true, hvd_deadline_in(5), &err), err, HVD_E_FAILED,
			  "Slurm refuses: 10_3: Requested operation is presently disabled");
	assert_in(err.hint, "--no-requeue");
}

TEST(test_the_steps_of_a_job)
{
	static const char one[] =
		"StepId=13.batch UserId=1 Name=batch NodeList=n1 SrunHost:Pid=(null):0\n"
		"StepId=13.0 UserId=20001 State=RUNNING NodeList=hvdn1 Nodes=1 Name=my prog Network=(null) "
		"SrunHost:Pid=login:239\n"
		"StepId=13.2 UserId=20001 NodeList=hvdn[1-2] Name=bash SrunHost:Pid=login:240 ";
	char *list = hvd_scontrol_steps(one, 1), *many = NULL;

	assert_string_equal(list, "13.0 (my on hvdn1), 13.2 (bash on hvdn[1-2])");
	free(list);
	assert_null(hvd_scontrol_steps(one, 240));
	assert_null(hvd_scontrol_steps("No job steps in the system\n", 1));
	assert_null(hvd_scontrol_steps("", 1));
	for (int i = 0; i < 6; i++)
		hvd_xappendf(&many, "StepId=1.%d Name=a NodeList=n\n", i);
	list = hvd_scontrol_steps(many, 1);
	assert_string_equal(list, "1.0 (a on n), 1.1 (a on n), 1.2 (a on n), 1.3 (a on n) and 2 more");
	free(list);
	free(many);
}

RUN_TESTS()
