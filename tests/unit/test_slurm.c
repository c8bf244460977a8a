/* SPDX-License-Identifier: Apache-2.0 */
/* What of libslurm works without a cluster. */
#include "lib/base/xalloc.h"
#include "slurm/gres.h"
#include "slurm/scontrol.h"
#include "slurm/slurm.h"
#include "slurm/slurm_nodes.h"
#include "unit.h"

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

#ifdef HVD_WITH_SLURM
TEST(some_nodes_are_not_to_be_used)
{
	static const uint32_t usable[] = {NODE_STATE_IDLE,
					  NODE_STATE_ALLOCATED,
					  NODE_STATE_MIXED,
					  NODE_STATE_UNKNOWN,
					  NODE_STATE_IDLE | NODE_STATE_NO_RESPOND,
					  NODE_STATE_ALLOCATED | NODE_STATE_COMPLETING},
			      unusable[] = {NODE_STATE_DOWN,
					    NODE_STATE_ERROR,
					    NODE_STATE_FUTURE,
					    NODE_STATE_IDLE | NODE_STATE_DRAIN,
					    NODE_STATE_ALLOCATED | NODE_STATE_DRAIN,
					    NODE_STATE_IDLE | NODE_STATE_FAIL,
					    NODE_STATE_IDLE | NODE_STATE_POWERED_DOWN,
					    NODE_STATE_IDLE | NODE_STATE_POWERING_DOWN,
					    NODE_STATE_ALLOCATED | NODE_STATE_REBOOT_ISSUED};

	for (size_t i = 0; i < sizeof(usable) / sizeof(usable[0]); i++)
		assert_false(hvd_slurm_node_unusable(usable[i]));
	for (size_t i = 0; i < sizeof(unusable) / sizeof(unusable[0]); i++)
		assert_true(hvd_slurm_node_unusable(unusable[i]));
}

/* In place of n0 a job can be given n1, until that one differs or cannot be used. */
TEST(nodes_like_another_one)
{
	node_info_t nodes[] = {
		{.name = (char *)"n0", .cpus = 8, .partitions = (char *)"a,b", .node_state = NODE_STATE_DOWN},
		{.name = (char *)"n1", .cpus = 8, .partitions = (char *)"a,b", .node_state = NODE_STATE_ALLOCATED},
		{.name = (char *)"n2", .cpus = 4, .partitions = (char *)"a,b", .node_state = NODE_STATE_IDLE},
		{.name = NULL, .cpus = 8, .partitions = (char *)"a,b", .node_state = NODE_STATE_IDLE},
	};
	const node_info_msg_t all = {.record_count = 4, .node_array = nodes};
	const node_info_t other = nodes[1];
	struct hvd_strv excluded = {0};

	assert_int_equal(hvd_slurm_nodes_like(&all, "n0", &excluded), 1);
	assert_int_equal(hvd_slurm_nodes_like(&all, "n1", &excluded), 0); /* n0 is down */
	assert_int_equal(hvd_slurm_nodes_like(&all, "n2", &excluded), 0);
	assert_int_equal(hvd_slurm_nodes_like(&all, "n3", &excluded), -1);
	nodes[1].node_state |= NODE_STATE_DRAIN;
	assert_int_equal(hvd_slurm_nodes_like(&all, "n0", &excluded), 0);
	nodes[1].node_state = NODE_STATE_IDLE | NODE_STATE_NO_RESPOND;
	assert_int_equal(hvd_slurm_nodes_like(&all, "n0", &excluded), 0);
	nodes[1] = other;
	nodes[1].features = (char *)"gpu";
	assert_int_equal(hvd_slurm_nodes_like(&all, "n0", &excluded), 0);
	nodes[0].features = (char *)"gpu";
	assert_int_equal(hvd_slurm_nodes_like(&all, "n0", &excluded), 1);
	nodes[1].gres = (char *)"gpu:8";
	assert_int_equal(hvd_slurm_nodes_like(&all, "n0", &excluded), 0);
	nodes[1].gres = (char *)"";
	nodes[1].partitions = (char *)"a";
	assert_int_equal(hvd_slurm_nodes_like(&all, "n0", &excluded), 0);
	nodes[1].partitions = nodes[0].partitions;
	hvd_strv_add(&excluded, "n1");
	assert_int_equal(hvd_slurm_nodes_like(&all, "n0", &excluded), 0);
	hvd_strv_free(&excluded);
}
#endif

/* libslurm ends a process that has no configuration; hvd_slurm_open() turns that into an error. */
TEST(a_missing_configuration_is_an_error)
{
	struct hvd_slurm_job job;
	struct hvd_err err;
	struct hvd_slurm_site site = {1, 1, true, 1, true};

	setenv("SLURM_CONF", "/nonexistent/slurm.conf", 1);
	/* Configured to be retried for a minute by libslurm itself when the file is missing. */
	if (hvd_slurm_built_in()) {
		char path[] = "/tmp/hvd-test-conf-XXXXXX";
		int fd = mkstemp(path);

		assert_true(fd >= 0);
		assert_int_equal(write(fd, "Nonsense=1\n", 11), 11);
		close(fd);
		setenv("SLURM_CONF", path, 1);
		assert_fails_with(hvd_slurm_site_get(&site, &err), err, HVD_E_SYS,
				  "Slurm's configuration cannot be read");
		unlink(path);
	} else {
		setenv("PATH", "/nonexistent", 1);
		assert_int_equal(hvd_slurm_site_get(&site, &err), -1);
		assert_int_equal(hvd_slurm_step_signal(1, 0, 9, &err), -1);
		assert_int_equal(hvd_slurm_job_get(1, &job, &err), -1);
	}
	assert_int_equal(site.port_lo, 0);
	assert_int_equal(site.port_hi, 0);
	assert_int_equal(site.kill_wait, 0);
	assert_false(site.binds);
	memset(&job, 0, sizeof(job));
	hvd_slurm_job_clear(&job);
	unsetenv("SLURM_CONF");
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
