/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/taskinfo.h"

#include "tests/unit/unit.h"

static const char *const names[] = {"SLURM_PROCID",         "SLURM_LOCALID",   "SLURM_NODEID",
				    "SLURM_STEP_NUM_NODES", "SLURM_NNODES",    "SLURM_STEP_NUM_TASKS",
				    "SLURM_NTASKS",         "SLURMD_NODENAME", "SLURM_GTIDS"};

/* Rank 5 of 8, the second of the second host of three. */
static int good_env(void **state)
{
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		unsetenv(names[i]);
	setenv("SLURM_PROCID", "5", 1);
	setenv("SLURM_LOCALID", "1", 1);
	setenv("SLURM_NODEID", "1", 1);
	setenv("SLURM_STEP_NUM_NODES", "3", 1);
	setenv("SLURM_STEP_NUM_TASKS", "8", 1);
	setenv("SLURMD_NODENAME", "n2", 1);
	setenv("SLURM_GTIDS", "3,5,7", 1);
	return 0;
}

TEST_WITH(in_a_step, good_env, NULL)
{
	struct hvd_taskinfo info;

	assert_int_equal(hvd_taskinfo_slurm(&info, NULL), 0);
	assert_string_equal(info.name, "n2");
	assert_int_equal(info.rank, 5);
	assert_int_equal(info.local_rank, 1);
	assert_int_equal(info.node, 1);
	assert_int_equal(info.nodes, 3);
	assert_int_equal(info.size, 8);
	assert_int_equal(info.local_size, 3);
	assert_int_equal(info.ranks[0], 3);
	assert_int_equal(info.ranks[1], 5);
	assert_int_equal(info.ranks[2], 7);
	hvd_taskinfo_free(&info);
	assert_null(info.ranks);
}

TEST_WITH(older_names_serve_too, good_env, NULL)
{
	struct hvd_taskinfo info;

	unsetenv("SLURM_STEP_NUM_NODES");
	unsetenv("SLURM_STEP_NUM_TASKS");
	setenv("SLURM_NNODES", "4", 1);
	setenv("SLURM_NTASKS", "9", 1);
	assert_int_equal(hvd_taskinfo_slurm(&info, NULL), 0);
	assert_int_equal(info.nodes, 4);
	assert_int_equal(info.size, 9);
	hvd_taskinfo_free(&info);
}

TEST(what_is_missing_is_named)
{
	static const char *const needed[] = {"SLURM_PROCID",         "SLURM_LOCALID",        "SLURM_NODEID",
					     "SLURM_STEP_NUM_NODES", "SLURM_STEP_NUM_TASKS", "SLURM_GTIDS"};
	struct hvd_taskinfo info;
	struct hvd_err err;

	for (size_t i = 0; i < sizeof(needed) / sizeof(needed[0]); i++) {
		good_env(state);
		unsetenv(needed[i]);
		memset(&err, 0, sizeof(err));
		assert_fails_with(hvd_taskinfo_slurm(&info, &err), err, HVD_E_NOENT, needed[i]);
		assert_null(info.ranks);
	}
	good_env(state);
	unsetenv("SLURMD_NODENAME");
	assert_int_equal(hvd_taskinfo_slurm(&info, &err), -1);
}

TEST(malformed_values)
{
	static const struct {
		const char *name, *value;
	} rows[] = {
		{"SLURM_PROCID", ""},
		{"SLURM_PROCID", "x"},
		{"SLURM_PROCID", "-5"},
		{"SLURM_PROCID", " 5"},
		{"SLURM_PROCID", "+5"},
		{"SLURM_PROCID", "5x"},
		{"SLURM_PROCID", "5 "},
		{"SLURM_PROCID", "0x5"},
		{"SLURM_PROCID", "99999999999999999999"},
		{"SLURM_PROCID", "4294967301"}, /* 5 in 32 bits */
		{"SLURM_PROCID", "3"},
		{"SLURM_LOCALID", "3"},
		{"SLURM_LOCALID", "0"},
		{"SLURM_NODEID", "3"},
		{"SLURM_STEP_NUM_TASKS", "5"},
		{"SLURM_STEP_NUM_NODES", "1"},
		{"SLURM_GTIDS", ""},
		{"SLURM_GTIDS", "3,,5"},
		{"SLURM_GTIDS", "3,5,"},
		{"SLURM_GTIDS", ",3,5"},
		{"SLURM_GTIDS", "3 5"},
		{"SLURM_GTIDS", "3,5x"},
		{"SLURM_GTIDS", "3,99999999"},
		{"SLURMD_NODENAME", ""},
	};
	struct hvd_taskinfo info;
	struct hvd_err err;
	char name[300];

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		good_env(state);
		setenv(rows[i].name, rows[i].value, 1);
		memset(&err, 0, sizeof(err));
		if (hvd_taskinfo_slurm(&info, &err) != -1) {
			print_error("%s=%s was taken\n", rows[i].name, rows[i].value);
			fail();
		}
		assert_int_equal(err.code, HVD_E_PROTO);
		assert_null(info.ranks);
	}
	good_env(state);
	memset(name, 'n', sizeof(name) - 1);
	name[sizeof(name) - 1] = '\0';
	setenv("SLURMD_NODENAME", name, 1);
	assert_int_equal(hvd_taskinfo_slurm(&info, &err), -1);
}

TEST(a_whole_host)
{
	struct hvd_taskinfo info;

	assert_int_equal(hvd_taskinfo_host("2:5:node-7.example", "8:4", &info, NULL), 0);
	assert_int_equal(info.node, 2);
	assert_int_equal(info.nodes, 5);
	assert_string_equal(info.name, "node-7.example");
	assert_int_equal(info.local_size, 4);
	for (uint32_t i = 0; i < 4; i++)
		assert_int_equal(info.ranks[i], 8 + i);
	hvd_taskinfo_free(&info);
}

TEST(malformed_hosts_and_ranks)
{
	static const char *const hosts[] = {"",      "2",     "2:5",    "2:5:",   ":5:n",   "2::n",
					    "5:5:n", "x:5:n", "-1:5:n", "2x:5:n", "2:5x:n", "2 :5:n"};
	static const char *const ranks[] = {
		"", "8", "8:", ":4", "8:0", "8:4x", "8:4:1", "8:-1", "-8:4", "8:99999999999", "x:y", "8 :4", "8: 4"};
	struct hvd_taskinfo info;
	struct hvd_err err;

	for (size_t i = 0; i < sizeof(hosts) / sizeof(hosts[0]); i++) {
		if (hvd_taskinfo_host(hosts[i], "0:1", &info, &err) != -1) {
			print_error("host %s was taken\n", hosts[i]);
			fail();
		}
		assert_null(info.ranks);
	}
	for (size_t i = 0; i < sizeof(ranks) / sizeof(ranks[0]); i++) {
		if (hvd_taskinfo_host("0:1:n", ranks[i], &info, &err) != -1) {
			print_error("ranks %s were taken\n", ranks[i]);
			fail();
		}
		assert_int_equal(err.code, HVD_E_USAGE);
		assert_null(info.ranks);
	}
}

RUN_TESTS()
