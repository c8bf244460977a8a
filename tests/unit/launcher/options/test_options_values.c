/* SPDX-License-Identifier: Apache-2.0 */
/* Values of options from the environment and from a configuration, and what workers are told. */
#include "options_lines.h"

TEST(test_environment)
{
	char *envp[] = {(char *)"SLURM_NTASKS=6",          (char *)"SLURM_NPROCS=7", (char *)"SLURM_JOB_NUM_NODES=3",
			(char *)"SLURM_LABELIO=",          (char *)"SLURM_EXACT=0",  (char *)"SLURM_JOB_ID=12",
			(char *)"HOROVOD_START_TIMEOUT=9", (char *)"HVD_NICS=ib0",   (char *)"HVD_LAUNCHER=",
			(char *)"SLURM_WAIT=soon",         (char *)"HVD_VERBOSE=2",  NULL};
	char *bad_env[] = {(char *)"HVD_START_TIMEOUT=soon", NULL};
	struct hvd_options o;
	struct hvd_err err;

	assert_int_equal(load_env(&o, "hvdrun a", envp, &err), 0);
	/* srun judges its own variables. */
	assert_values(&o, "ntasks=6 nodes=3 label=1 exact=0 jobid=12 start-timeout=9 nics=ib0 launcher=auto verbose=2 "
			  "wait=-1");
	assert_int_equal(hvd_options_np(&o), 6);
	assert_false(hvd_options_np_for_srun(&o));
	assert_int_equal(hvd_options_source(&o, "jobid"), HVD_FROM_ENV);
	assert_int_equal(o.notes.n, 1);
	assert_int_equal(o.srun_args.n, 0);
	hvd_options_free(&o);
	/* The command line wins, and a list is not added to. */
	assert_int_equal(load_env(&o, "hvdrun -np 2 -N1 --nics eth0 --hvd-start-timeout 4 -v a", envp, &err), 0);
	assert_values(&o, "nodes=1 nics=eth0 start-timeout=4 verbose=1");
	assert_int_equal(hvd_options_np(&o), 2);
	assert_true(hvd_options_np_for_srun(&o));
	hvd_options_free(&o);
	assert_fails(load_env(&o, "hvdrun a", bad_env, &err), err, "HVD_START_TIMEOUT");
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

TEST(test_tunables)
{
	struct hvd_options o;

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

TEST(test_cooldown)
{
	struct hvd_options o;

	for (int comma = 0; comma < 2; comma++) {
		ok(&o,
		   comma ? "hvdrun --blacklist-cooldown-range=10,60 a" : "hvdrun --blacklist-cooldown-range 10 60 a");
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

TEST(test_kill_wait)
{
	values("hvdrun a", "kill-wait=-1");
	values("hvdrun --kill-wait 0 a", "kill-wait=0");
	values("hvdrun --kill-wait=2m a", "kill-wait=120");
	refused("hvdrun --kill-wait 3601 a", "out of range", "from 0 to 3600");
	refused("hvdrun --kill-wait=-1 a", "-1", "");
}

TEST(test_discover)
{
	values("hvdrun --discover slurm a", "discover=slurm");
	values("hvdrun --discover jobs:a a", "discover=jobs:a");
	values("hvdrun --discover script:./x a", "discover=script:./x");
	values("hvdrun --discover hosts --hosts a:1 a", "discover=hosts hosts=a:1");
	values("hvdrun a", "discovery-interval=-1");
	values("hvdrun --discovery-interval 0.2 a", "discovery-interval=0.2");
	refused("hvdrun --discovery-interval 0.09 a", "out of range", "from 0.1 to 3600");
	refused("hvdrun --discovery-interval often a", "often", "");
	refused("hvdrun --discover nodes a", "nodes is not a source", "jobs:NAME");
	refused("hvdrun --discover jobs: a", "is not a source", "");
	refused("hvdrun --discover script: a", "is not a source", "");
	refused("hvdrun --discover slurm --host-discovery-script x a", "both say", "leave one");
	refused("hvdrun --discover jobs:x --hosts a:1 a", "hosts cannot be listed", "--hosts");
	refused("hvdrun --discover slurm --hostfile f a", "hosts cannot be listed", "--hostfile");
}

TEST(test_config)
{
	static const struct {
		enum hvd_opt_source from;
		const char *key, *value;
		enum hvd_errc code; /* HVD_OK: it is taken */
	} rows[] = {
		{HVD_FROM_CONFIG, "params.cycle_time_ms", "7", HVD_OK}, /* the command line has it */
		{HVD_FROM_CONFIG, "params.fusion_threshold_mb", "1", HVD_OK},
		{HVD_FROM_CONFIG, "stall_check.enabled", "false", HVD_OK},
		{HVD_FROM_CONFIG, "logging.with_timestamp", "yes", HVD_OK},
		{HVD_FROM_CONFIG, "controller", "mpi", HVD_OK},
		{HVD_FROM_CONFIG, "start-timeout", "90", HVD_OK},
		{HVD_FROM_SITE, "start-timeout", "80", HVD_OK},
		{HVD_FROM_CONFIG, "params.cycle_time_ms", "fast", HVD_OK},
		{HVD_FROM_CONFIG, "params.cache_capacity", "big", HVD_E_USAGE},
		{HVD_FROM_CONFIG, "params.nothing", "1", HVD_E_NOENT},
		{HVD_FROM_CONFIG, "partition", "x", HVD_E_NOENT},
	};
	struct hvd_options o;
	struct hvd_strv env = {0};

	ok(&o, "hvdrun --cycle-time-ms 2 a");
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct hvd_err err = {0};

		assert_int_equal(hvd_options_config(&o, rows[i].from, rows[i].key, rows[i].value, &err),
				 rows[i].code == HVD_OK ? 0 : -1);
		assert_int_equal(err.code, rows[i].code);
	}
	hvd_options_tunables(&o, &env);
	assert_words(&env, "HOROVOD_FUSION_THRESHOLD=1048576 HOROVOD_CYCLE_TIME=2 HOROVOD_STALL_CHECK_DISABLE=1 "
			   "HOROVOD_LOG_HIDE_TIME=0");
	assert_int_equal(o.controller, HVD_CONTROLLER_MPI);
	assert_values(&o, "start-timeout=90");
	hvd_strv_free(&env);
	hvd_options_free(&o);
}

RUN_TESTS()
