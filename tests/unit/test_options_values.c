/* SPDX-License-Identifier: Apache-2.0 */
/* Values of options from the environment and from a configuration, and what workers are told. */
#include "options_lines.h"

static void test_environment(void **state)
{
	static const char *const text[] = {"SLURM_NTASKS=6",          "SLURM_NPROCS=7", "SLURM_JOB_NUM_NODES=3",
					   "SLURM_LABELIO=",          "SLURM_EXACT=0",  "SLURM_JOB_ID=12",
					   "HOROVOD_START_TIMEOUT=9", "HVD_NICS=ib0",   "HVD_LAUNCHER=",
					   "SLURM_WAIT=soon",         "HVD_VERBOSE=2"};
	char *envp[sizeof(text) / sizeof(text[0]) + 1] = {0};
	static char bad_timeout[] = "HVD_START_TIMEOUT=soon";
	char *bad_env[] = {bad_timeout, NULL};
	struct hvd_options o;
	struct hvd_err err;

	(void)state;
	for (size_t i = 0; i < sizeof(text) / sizeof(text[0]); i++)
		envp[i] = hvd_xstrdup(text[i]);
	assert_int_equal(load_env(&o, "hvdrun a", envp, &err), 0);
	assert_int_equal(o.ntasks, 6);
	assert_int_equal(hvd_options_np(&o), 6);
	assert_false(hvd_options_np_for_srun(&o));
	assert_int_equal(o.nodes_min, 3);
	assert_true(o.label);
	assert_false(o.exact);
	assert_string_equal(o.jobid, "12");
	assert_int_equal(hvd_options_source(&o, "jobid"), HVD_FROM_ENV);
	assert_true(o.start_timeout < 9.1);
	assert_words(&o.nics, "ib0");
	assert_int_equal(o.launcher, HVD_LAUNCHER_AUTO);
	assert_int_equal(o.verbose, 2);
	/* srun judges its own variables. */
	assert_int_equal(o.wait, -1);
	assert_int_equal(o.notes.n, 1);
	assert_int_equal(o.srun_args.n, 0);
	hvd_options_free(&o);
	/* The command line wins, and a list is not added to. */
	assert_int_equal(load_env(&o, "hvdrun -np 2 -N1 --nics eth0 --hvd-start-timeout 4 -v a", envp, &err), 0);
	assert_int_equal(hvd_options_np(&o), 2);
	assert_true(hvd_options_np_for_srun(&o));
	assert_int_equal(o.nodes_min, 1);
	assert_words(&o.nics, "eth0");
	assert_true(o.start_timeout < 4.1);
	assert_int_equal(o.verbose, 1);
	hvd_options_free(&o);
	for (size_t i = 0; envp[i]; i++)
		free(envp[i]);
	assert_int_equal(load_env(&o, "hvdrun a", bad_env, &err), -1);
	assert_non_null(strstr(err.msg, "HVD_START_TIMEOUT"));
	hvd_options_free(&o);
}

static void tunables(const char *line, const char *expected)
{
	struct hvd_options o;
	struct hvd_strv env = {0};

	ok(&o, line);
	hvd_options_tunables(&o, &env);
	assert_words(&env, expected);
	hvd_strv_free(&env);
	hvd_options_free(&o);
}

static void test_tunables(void **state)
{
	struct hvd_options o;

	(void)state;
	tunables("hvdrun a", "");
	tunables("hvdrun --fusion-threshold-mb 64 --cycle-time-ms=3.5 --cache-capacity 0 --tcp a",
		 "NCCL_IB_DISABLE=1 HOROVOD_FUSION_THRESHOLD=67108864 HOROVOD_CYCLE_TIME=3.5 HOROVOD_CACHE_CAPACITY=0");
	tunables("hvdrun --hierarchical-allreduce --no-hierarchical-allgather --no-torus-allreduce a",
		 "HOROVOD_HIERARCHICAL_ALLREDUCE=1 HOROVOD_HIERARCHICAL_ALLGATHER=0 HOROVOD_TORUS_ALLREDUCE=0");
	tunables("hvdrun --autotune --autotune-log-file f --autotune-warmup-samples 1 --autotune-steps-per-sample 2 "
		 "--autotune-bayes-opt-max-samples 3 --autotune-gaussian-process-noise 0.25 a",
		 "HOROVOD_AUTOTUNE=1 HOROVOD_AUTOTUNE_LOG=f HOROVOD_AUTOTUNE_WARMUP_SAMPLES=1 "
		 "HOROVOD_AUTOTUNE_STEPS_PER_SAMPLE=2 HOROVOD_AUTOTUNE_BAYES_OPT_MAX_SAMPLES=3 "
		 "HOROVOD_AUTOTUNE_GAUSSIAN_PROCESS_NOISE=0.25");
	tunables("hvdrun --no-autotune --autotune-log-file f a", "HOROVOD_AUTOTUNE=0");
	tunables("hvdrun --timeline-filename t --timeline-mark-cycles a",
		 "HOROVOD_TIMELINE=t HOROVOD_TIMELINE_MARK_CYCLES=1");
	tunables("hvdrun --timeline-mark-cycles a", "");
	tunables("hvdrun --no-stall-check --stall-check-warning-time-seconds 5 --stall-check-shutdown-time-seconds 6 a",
		 "HOROVOD_STALL_CHECK_DISABLE=1 HOROVOD_STALL_CHECK_TIME_SECONDS=5 "
		 "HOROVOD_STALL_SHUTDOWN_TIME_SECONDS=6");
	tunables("hvdrun --stall-check a", "HOROVOD_STALL_CHECK_DISABLE=0");
	tunables("hvdrun --mpi-threads-disable --num-nccl-streams 2 --thread-affinity 3 --gloo-timeout-seconds 4 a",
		 "HOROVOD_MPI_THREADS_DISABLE=1 HOROVOD_NUM_NCCL_STREAMS=2 HOROVOD_THREAD_AFFINITY=3 "
		 "HOROVOD_GLOO_TIMEOUT_SECONDS=4");
	tunables("hvdrun --log-level debug --log-without-timestamp a",
		 "HOROVOD_LOG_LEVEL=DEBUG HOROVOD_LOG_HIDE_TIME=1");
	tunables("hvdrun --no-log-hide-timestamp a", "HOROVOD_LOG_HIDE_TIME=0");
	refused("hvdrun --cycle-time-ms -1 a", "\"-1\" is out of range", "at least 0");
	refused("hvdrun --cache-capacity=-1 a", "out of range", "");
	refused("hvdrun --fusion-threshold-mb 1.5 a", "whole number", "");
	refused("hvdrun --fusion-threshold-mb 2147483648 a", "out of range", "");
	refused("hvdrun --autotune-gaussian-process-noise 1.1 a", "out of range", "0 to 1");
	refused("hvdrun --autotune --no-autotune a", "--autotune and --no-autotune", "");
	refused("hvdrun --hosts a:1 --hostfile f a", "--hosts and --hostfile", "");
	refused("hvdrun --log-level LOUD a", "LOUD", "TRACE|DEBUG");
	/* What has no effect is said, not hidden. */
	ok(&o, "hvdrun --autotune-log-file f a");
	assert_int_equal(o.notes.n, 1);
	assert_non_null(strstr(o.notes.v[0], "without --autotune"));
	hvd_options_free(&o);
}

static void test_cooldown(void **state)
{
	static const char *const lines[] = {"hvdrun --blacklist-cooldown-range 10 60 a",
					    "hvdrun --blacklist-cooldown-range=10,60 a"};
	struct hvd_options o;

	(void)state;
	for (size_t i = 0; i < 2; i++) {
		ok(&o, lines[i]);
		assert_int_equal(o.cooldown_min, 10);
		assert_int_equal(o.cooldown_max, 60);
		assert_words(&o.command, "a");
		hvd_options_free(&o);
	}
	refused("hvdrun --blacklist-cooldown-range 10", "two values", "MIN MAX");
	refused("hvdrun --blacklist-cooldown-range 10 a b", "two numbers", "60 300");
	refused("hvdrun --blacklist-cooldown-range 0 60 a", "1 to 3600", "");
	refused("hvdrun --blacklist-cooldown-range 60 10 a", "1 to 3600", "first");
	refused("hvdrun --blacklist-cooldown-range 60 3601 a", "1 to 3600", "");
}

static void test_discover(void **state)
{
	static const char *const good[] = {"slurm", "hosts", "jobs:a", "script:./x"};
	struct hvd_options o;
	char line[64];

	(void)state;
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		snprintf(line, sizeof(line), "hvdrun --discover %s a", good[i]);
		ok(&o, line);
		assert_string_equal(o.discover, good[i]);
		hvd_options_free(&o);
	}
	ok(&o, "hvdrun --discover hosts --hosts a:1 a");
	hvd_options_free(&o);
	ok(&o, "hvdrun a");
	assert_true(o.discovery_interval < 0);
	hvd_options_free(&o);
	ok(&o, "hvdrun --discovery-interval 0.2 a");
	assert_true(o.discovery_interval > 0.199 && o.discovery_interval < 0.201);
	hvd_options_free(&o);
	refused("hvdrun --discovery-interval 0.09 a", "out of range", "from 0.1 to 3600");
	refused("hvdrun --discovery-interval often a", "often", "");
	ok(&o, "hvdrun a");
	assert_true(o.kill_wait < 0);
	hvd_options_free(&o);
	ok(&o, "hvdrun --kill-wait 0 a");
	assert_true(o.kill_wait == 0);
	hvd_options_free(&o);
	ok(&o, "hvdrun --kill-wait=2m a");
	assert_true(o.kill_wait == 120);
	hvd_options_free(&o);
	refused("hvdrun --kill-wait 3601 a", "out of range", "from 0 to 3600");
	refused("hvdrun --kill-wait=-1 a", "-1", "");
	refused("hvdrun --discover nodes a", "nodes is not a source", "jobs:NAME");
	refused("hvdrun --discover jobs: a", "is not a source", "");
	refused("hvdrun --discover script: a", "is not a source", "");
	refused("hvdrun --discover slurm --host-discovery-script x a", "both say", "leave one");
	refused("hvdrun --discover jobs:x --hosts a:1 a", "hosts cannot be listed", "--hosts");
	refused("hvdrun --discover slurm --hostfile f a", "hosts cannot be listed", "--hostfile");
}

static void test_config(void **state)
{
	struct hvd_options o;
	struct hvd_err err;
	struct hvd_strv env = {0};

	(void)state;
	ok(&o, "hvdrun --cycle-time-ms 2 a");
	assert_int_equal(hvd_options_config(&o, HVD_FROM_CONFIG, "params.cycle_time_ms", "7", &err), 0);
	assert_int_equal(hvd_options_config(&o, HVD_FROM_CONFIG, "params.fusion_threshold_mb", "1", &err), 0);
	assert_int_equal(hvd_options_config(&o, HVD_FROM_CONFIG, "stall_check.enabled", "false", &err), 0);
	assert_int_equal(hvd_options_config(&o, HVD_FROM_CONFIG, "logging.with_timestamp", "yes", &err), 0);
	assert_int_equal(hvd_options_config(&o, HVD_FROM_CONFIG, "controller", "mpi", &err), 0);
	assert_int_equal(hvd_options_config(&o, HVD_FROM_CONFIG, "start-timeout", "90", &err), 0);
	assert_int_equal(hvd_options_config(&o, HVD_FROM_SITE, "start-timeout", "80", &err), 0);
	hvd_options_tunables(&o, &env);
	assert_words(&env, "HOROVOD_FUSION_THRESHOLD=1048576 HOROVOD_CYCLE_TIME=2 HOROVOD_STALL_CHECK_DISABLE=1 "
			   "HOROVOD_LOG_HIDE_TIME=0");
	assert_int_equal(o.controller, HVD_CONTROLLER_MPI);
	assert_true(o.start_timeout > 89.9);
	assert_int_equal(hvd_options_config(&o, HVD_FROM_CONFIG, "params.cycle_time_ms", "fast", &err), 0);
	assert_int_equal(hvd_options_config(&o, HVD_FROM_CONFIG, "params.cache_capacity", "big", &err), -1);
	assert_int_equal(err.code, HVD_E_USAGE);
	assert_int_equal(hvd_options_config(&o, HVD_FROM_CONFIG, "params.nothing", "1", &err), -1);
	assert_int_equal(err.code, HVD_E_NOENT);
	assert_int_equal(hvd_options_config(&o, HVD_FROM_CONFIG, "partition", "x", &err), -1);
	assert_int_equal(err.code, HVD_E_NOENT);
	hvd_strv_free(&env);
	hvd_options_free(&o);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_environment), cmocka_unit_test(test_tunables), cmocka_unit_test(test_cooldown),
		cmocka_unit_test(test_discover),    cmocka_unit_test(test_config),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
