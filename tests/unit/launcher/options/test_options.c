/* SPDX-License-Identifier: Apache-2.0 */
/* The command line of hvdrun: what is taken, what is handed on, and what is refused. */
#include "options_lines.h"

TEST(test_arity)
{
	parts("hvdrun -N4 -n8 a", "-N4 -n8", "a");
	parts("hvdrun -N 1-2 --ntasks 3 --mem=4G a -N 1", "-N 1-2 --ntasks 3 --mem=4G", "a -N 1");
	/* A value that may be left out is never the next word. */
	parts("hvdrun -K a", "-K", "a");
	parts("hvdrun -K0 -I -I10 --immediate=3 --nice --exclusive a b", "-K0 -I -I10 --immediate=3 --nice --exclusive",
	      "a b");
	parts("hvdrun --gpu-bind=closest --x11= --x11 --resv-ports=2 a",
	      "--gpu-bind=closest --x11= --x11 --resv-ports=2", "a");
	/* srun's options may have any value, another option too. */
	parts("hvdrun --comment --label -w '' a", "--comment --label -w ''", "a");
	parts("hvdrun -lun4 -vvX a", "-lun4 -vvX", "a");
	parts("hvdrun -luw h1 a", "-luw h1", "a");
	refused("hvdrun --label=1 a", "--label takes no value", "");
	refused("hvdrun -n", "-n needs a value", "-n NUMBER");
	refused("hvdrun --nodes", "--nodes needs a value", "");
	refused("hvdrun --nics --json a", "option --nics needs a value, but --json follows", "--nics=--json");
	refused("hvdrun -y a", "unknown option -y", "--help");
	refused("hvdrun -ly a", "unknown option -y in \"-ly\"", "--help");
	refused("hvdrun --=a b", "not an option", "--");
}

TEST(test_end_of_options)
{
	struct hvd_options o;

	parts("hvdrun -n1 -- -n 2 --bogus", "-n1", "-n 2 --bogus");
	parts("hvdrun -n1 a -- b", "-n1", "a -- b");
	parts("hvdrun -n1 - b", "-n1", "- b");
	parts("hvdrun -w -- a", "-w --", "a");
	ok(&o, "hvdrun -n1 -- a");
	assert_true(o.dashdash);
	hvd_options_free(&o);
	ok(&o, "hvdrun -n1 a x : -n2 b");
	assert_words(&o.command, "a x : -n2 b");
	assert_int_equal(o.het_colon, 2);
	hvd_options_free(&o);
	refused("hvdrun", "no command", "hvdrun -n 4");
	refused("hvdrun -n 4 --", "no command", "");
}

/* What srun gets, but for one option and its values. */
TEST(test_srun_args_but)
{
	static const char *const lines[][3] = {
		{"label", "hvdrun --label -N 2 --comment --label a", "-N 2 --comment --label"},
		{"label", "hvdrun -luN2 --lab -l -wl --odd=1 a", "-u -N2 -wl --odd=1"},
		{"label", "hvdrun -Ol -n 3 a -l", "-O -n 3"},
		{"nodes", "hvdrun -N 2 --comment -N a", "--comment -N"},
		{"nodes", "hvdrun -lN2 --nodes=2-4 --nodelist=a -N3 a", "-l --nodelist=a"},
	};

	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
		struct hvd_strv args = {0};
		struct hvd_options o;

		ok(&o, lines[i][1]);
		if (strcmp(lines[i][0], "label") == 0)
			assert_true(o.label);
		hvd_options_srun_args_but(&o, lines[i][0], &args);
		assert_words(&args, lines[i][2]);
		hvd_strv_free(&args);
		hvd_options_free(&o);
	}
}

TEST(test_async)
{
	refused("hvdrun --async a", "--async cannot be used with hvdrun", "leave it out");
	refused("hvdrun --asy -n2 --min-np=1 a", "--async cannot be used with hvdrun", "sbatch");
}

TEST(test_abbreviations)
{
	struct hvd_options o;

	ok(&o, "hvdrun --ntasks-per-n=2 --nodel h1 --part debug --net ib --fus 3 --disable-c --launch=fork a");
	assert_words(&o.srun_args, "--ntasks-per-n=2 --nodel h1 --part debug --net ib");
	assert_values(&o, "ntasks-per-node=2 nodelist=h1 partition=debug fusion-threshold-mb=3 launcher=fork");
	assert_in(o.notes.v[0], "--disable-cache has no effect");
	hvd_options_free(&o);
	refused("hvdrun --no a", "--no is ambiguous", "--nodes, --nodelist");
	refused("hvdrun --ex=3 a", "ambiguous", "--exclude");
	refused("hvdrun --autot a", "ambiguous", "--autotune, --autotune-log-file");
	/* The exact name wins over longer ones, what srun always had over what only newer ones have. */
	parts("hvdrun --gpus 1 --time 3 --par p --container c a", "--gpus 1 --time 3 --par p --container c", "a");
	/* Names of one thing do not make each other ambiguous; in horovodrun its own come first. */
	values("horovodrun --network-interf eth0 --out d -np 1 a", "nics=eth0 output-filename=d");
	/* Nothing hidden is meant by an abbreviation. */
	parts("hvdrun --print-compl -- a", "--print-compl", "a");
}

TEST(test_srun_fields)
{
	struct hvd_options o;

	ok(&o,
	   "hvdrun -N2-4 -n8 --tasks-per-node=4 -c3 -G a100:8 --gpus-per-task=1 --tres-per-task=gres/gpu:1 -w h[1-4] "
	   "--jobid=7 --overlap -lu --export=A,B -i none -o out -e err --het-group=0 -m block --pty "
	   "-W5 -D /w -Q -vv --bcast=/x --mpi=pmix --exclusive=user -t 3 -p debug --cpu-bind=cores a");
	assert_values(&o, "ntasks=8 ntasks-per-node=4 cpus-per-task=3 gpus=a100:8 gpus-per-task=1 "
			  "tres-per-task=gres/gpu:1 nodelist=h[1-4] jobid=7 overlap=1 label=1 unbuffered=1 "
			  "pty=1 exclusive=1 export=A,B input=none output=out error=err het-group=0 "
			  "distribution=block wait=5 chdir=/w quiet=1 verbose=2 bcast=/x mpi=pmix time=3 "
			  "partition=debug cpu-bind=cores");
	assert_int_equal(o.controller, HVD_CONTROLLER_AUTO);
	assert_true(hvd_options_given(&o, "ntasks-per-node"));
	assert_false(hvd_options_given(&o, "exact"));
	hvd_options_free(&o);

	ok(&o, "hvdrun a");
	assert_values(&o, "nodes=-1 ntasks=-1 nodelist=- kill-on-bad-exit=-1 keep-going=0 start-timeout=30 "
			  "elastic-timeout=600");
	assert_int_equal(hvd_options_np(&o), -1);
	hvd_options_free(&o);
	refused("hvdrun -n 0 a", "-n", "at least 1");
	refused("hvdrun -n 4x a", "\"4x\" is not a whole number", "");
	refused("hvdrun -Kx a", "neither 0 nor 1", "-K0");
}

TEST(test_nodes)
{
	static const struct {
		const char *line;
		int min, max;
	} lines[] = {{"hvdrun -N2-4 a", 2, 4}, {"hvdrun -N 2k-0 a", 2048, 0}, {"hvdrun -N 4,2,8-16:2 a", 2, 16}};
	struct hvd_options o;

	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
		ok(&o, lines[i].line);
		assert_int_equal(o.nodes_min, lines[i].min);
		assert_int_equal(o.nodes_max, lines[i].max);
		hvd_options_free(&o);
	}
	refused("hvdrun -N x a", "\"x\" is not a number of nodes", "-N 2-4");
	refused("hvdrun -N 4-2 a", "4-2", "");
	refused("hvdrun -N 99999999999999999999 a", "number of nodes", "");
}

TEST(test_processes)
{
	static const char *const lines[] = {"hvdrun -np 4 a",
					    "hvdrun -np4 a",
					    "hvdrun -np=4 a",
					    "hvdrun --num-proc 4 a",
					    "hvdrun -n 4 -np 4 a",
					    "hvdrun -n4 a",
					    "horovodrun -n 4 a",
					    "horovodrun -np 4 a",
					    "horovodrun --num-proc=4 a",
					    "hvdrun --ntasks=4 a",
					    "/opt/b/horovodrun -np 4 a"};
	struct hvd_options o;

	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
		ok(&o, lines[i]);
		assert_int_equal(hvd_options_np(&o), 4);
		assert_words(&o.command, "a");
		/* In all of them srun hears of the number once. */
		assert_int_equal(hvd_options_np_for_srun(&o), o.srun_args.n == 0);
		hvd_options_free(&o);
	}
	refused("hvdrun -np 4 -n 8 a", "-np 4 and -n 8", "one of them");
	refused("hvdrun -np 0 a", "-np", "from 1 to 1048576");
	refused("hvdrun -npx a", "-n: \"px\"", "");
	refused("hvdrun --min-np 4 --max-np 2 a", "--min-np 4", "");
	refused("hvdrun -np 4 --max-np 2 a", "--max-np 2", "");
	refused("hvdrun -np 2 --min-np 4 a", "2 processes are fewer than --min-np 4", "raise -np, or lower --min-np");
	refused("hvdrun -n2 --min-np 4 a", "--min-np 4", "");
}

/* An elastic job within a batch job of another size: other jobs may bring the rest. */
TEST(test_np_of_the_batch_job)
{
	char few[] = "SLURM_NTASKS=2", many[] = "SLURM_NTASKS=8", *two[] = {few, NULL}, *eight[] = {many, NULL};
	struct hvd_options o;
	struct hvd_err err;

	assert_int_equal(load_env(&o, "hvdrun --min-np 4 a", two, &err), 0);
	hvd_options_free(&o);
	assert_int_equal(load_env(&o, "hvdrun --max-np 4 a", eight, &err), 0);
	hvd_options_free(&o);
}

TEST(test_options_that_others_read_otherwise)
{
	refused("hvdrun -np 2 -H hvdn1,hvdn2 a", "-H is srun's --hold", "write --hosts hvdn1,hvdn2");
	refused("hvdrun -np 2 -H hvdn1:2 a", "-H is srun's --hold", "write --hosts hvdn1:2");
	refused("hvdrun --include w1:0,2@w2 a", "--include is an option of deepspeed", "--hosts HOST:NUMBER");
	refused("hvdrun --exclude w1:0 a", "--exclude=w1:0 names GPUs", "CUDA_VISIBLE_DEVICES");
	refused("hvdrun -np 2 --max-restarts 1 -W5 a", "--wait (-W)", "leave it out");
	parts("hvdrun -N1 -H -x n1,n2 a", "-N1 -H -x n1,n2", "a");
}

/* The words of srun's options for the steps of an elastic job's agents, and for the salloc that makes the job. */
TEST(test_parts_of_srun_args)
{
	static const struct {
		const char *line, *agents, *salloc;
	} lines[] = {
		{"hvdrun -N2 -n 4 -p debug --mem=5G -l -Q a", "--mem=5G -Q", "-N2 -n 4 -p debug --mem=5G -Q"},
		{"hvdrun -N2 -c4 --gpus=4 --overlap -K0 --export=A a", "--overlap -K0 --export=A", "-N2 -c4 --gpus=4"},
		{"hvdrun -N2 -np 4 -w n1,n2 -H a", "", "--ntasks=4 -N2 -w n1,n2"},
		{"hvdrun -N2 -np 4 --spares=1 --cpu-bind=cores --mpi=pmix a", "--cpu-bind=cores --mpi=pmix", "-N2"},
		{"hvdrun -lN2 --of-a-plugin=3 a", "--of-a-plugin=3", "-N2"},
	};
	char partition[] = "SLURM_PARTITION=big", *envp[] = {partition, NULL};
	struct hvd_options o;
	struct hvd_err err;

	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
		struct hvd_strv agents = {0}, salloc = {0};
		char *a, *s;

		assert_int_equal(load_env(&o, lines[i].line, i ? NULL : envp, &err), 0);
		hvd_options_srun_args_of_agents(&o, &agents);
		hvd_options_salloc_args(&o, &salloc);
		a = hvd_strv_join(&agents, " ");
		s = hvd_strv_join(&salloc, " ");
		assert_string_equal(a, lines[i].agents);
		assert_string_equal(s, lines[i].salloc);
		free(a);
		free(s);
		hvd_strv_free(&agents);
		hvd_strv_free(&salloc);
		hvd_options_free(&o);
	}
	assert_int_equal(load_env(&o, "hvdrun -N2 a", envp, &err), 0);
	{
		struct hvd_strv salloc = {0};

		hvd_options_salloc_args(&o, &salloc);
		assert_string_equal(salloc.v[0], "--partition=big");
		hvd_strv_free(&salloc);
	}
	hvd_options_free(&o);
}

/* srun reads the job's number of tasks itself. An elastic job has as many ranks only on the job's own hosts. */
TEST(test_tasks_of_the_batch_job)
{
	static const struct {
		const char *line;
		int n, first_np;
	} lines[] = {
		{"hvdrun a", 0, 0},
		{"hvdrun --launcher=fork a", 0, 0},
		{"hvdrun --launcher=ssh --hosts n1:1,n2:1 a", 0, 0},
		{"hvdrun --launcher=ssh --hosts n1:1,n2:1 -np 2 a", 2, 0},
		{"hvdrun -n 3 a", 3, 0},
		{"hvdrun --max-restarts 1 a", 0, 4},
		{"hvdrun --max-restarts 1 --launcher=fork a", 0, 1},
		{"hvdrun --max-restarts 1 --hosts n1:2 a", 0, 1},
		{"hvdrun --max-restarts 1 --host-discovery-script ./d a", 0, 1},
	};
	char tasks[] = "SLURM_NTASKS=4", *envp[] = {tasks, NULL};
	struct hvd_launch_spec spec;
	struct hvd_options o;
	struct hvd_err err;

	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
		assert_int_equal(load_env(&o, lines[i].line, envp, &err), 0);
		hvd_launch_spec_make(&spec, &o, envp);
		if (spec.ranks.n != lines[i].n || (lines[i].first_np && spec.elastic.first_np != lines[i].first_np))
			fail_msg("%s: %d, %d", lines[i].line, spec.ranks.n, spec.elastic.first_np);
		hvd_launch_spec_clear(&spec);
		hvd_options_free(&o);
	}
}

/* Letters and names that srun and horovodrun have both. */
TEST(test_both_meanings)
{
	parts("hvdrun -v --verbose -p debug -i in -H a", "-v --verbose -p debug -i in -H", "a");
	values("hvdrun -v --verbose -p debug -i in -H a", "verbose=2 hold=1");
	refused("horovodrun -p debug a", "-p: \"debug\" is not a whole number", "");
	refused("horovodrun -p 65536 a", "out of range", "1 to 65535");
}

TEST(test_called_as_horovodrun)
{
	struct hvd_options o;

	ok(&o, "horovodrun --verbose -p2222 -i key -H h1:2,h2:2 -np 4 -prefix-timestamp --mpi pmix");
	assert_int_equal(o.srun_args.n, 0);
	assert_values(&o, "verbose=1 ssh-port=2222 ssh-identity-file=key hosts=h1:2,h2:2");
	assert_true(o.prefix_timestamp);
	assert_int_equal(o.controller, HVD_CONTROLLER_MPI);
	assert_words(&o.command, "pmix");
	hvd_options_free(&o);
	acts("horovodrun -v", HVD_SHOW_VERSION);
	/* srun's options go on being understood where they mean nothing else. */
	parts("horovodrun -N2 -w h1 --mpi=pmix -np 2 a", "-N2 -w h1 --mpi=pmix", "a");
	values("horovodrun -N2 -w h1 --mpi=pmix -np 2 a", "mpi=pmix");
	/* A word of letters of both families: srun gets its own, value and all. */
	parts("horovodrun -lOi key -uN2 -lH h1:1 a", "-l -O -uN2 -l", "a");
	values("horovodrun -lOi key -uN2 -lH h1:1 a", "ssh-identity-file=key hosts=h1:1");
}

TEST(test_mpi)
{
	static const struct {
		const char *line;
		int controller;
	} lines[] = {{"hvdrun --mpi python x", HVD_CONTROLLER_MPI},
		     {"hvdrun --gloo --mpi=pmix a", HVD_CONTROLLER_GLOO}};
	struct hvd_options o;

	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
		ok(&o, lines[i].line);
		assert_int_equal(o.controller, lines[i].controller);
		hvd_options_free(&o);
	}
	parts("hvdrun --mpi python x", "", "python x");
	parts("hvdrun --mpi=special a", "--mpi=special", "a");
	parts("hvdrun --mpi pmi2 a", "--mpi pmi2", "a");
	parts("hvdrun --mpi pmix_v4 a", "--mpi pmix_v4", "a");
	parts("hvdrun --mpi -- pmix", "", "pmix");
	parts("hvdrun --mp=pmix a", "--mp=pmix", "a");
	acts("hvdrun --mpi=list", HVD_ASK_SRUN);
	refused("hvdrun --gloo --mpi a", "--gloo and --mpi", "one of them");
	refused("hvdrun --jsrun --gloo a", "--gloo and --jsrun", "");
	refused("hvdrun --jsrun --launcher=srun a", "--jsrun", "");
	values("hvdrun --jsrun a", "launcher=jsrun");
	refused("hvdrun -H h1:2,h2:2 a", "-H is srun's --hold", "--hosts h1:2,h2:2");
}

TEST(test_words)
{
	acts("hvdrun -cb", HVD_CHECK_BUILD);
	parts("hvdrun -hostfile f -prefix-timestamp -np 2 a", "", "a");
	values("hvdrun -hostfile f -prefix-timestamp -np 2 a", "hostfile=f prefix-output-with-timestamp=1");
	/* Close to them, but srun's. */
	parts("hvdrun -c4 -prefix a", "-c4 -prefix", "a");
	refused("hvdrun -np a", "-np", "");
}

TEST(test_unknown)
{
	struct hvd_options o;

	ok(&o, "hvdrun --special-image=x -n1 --special-flag --special-other -- a");
	assert_words(&o.srun_args, "--special-image=x -n1 --special-flag --special-other");
	assert_words(&o.unknown, "--special-image=x --special-flag --special-other");
	assert_int_equal(o.notes.n, 3);
	hvd_options_free(&o);
	refused("hvdrun --special-image x a", "--special-image, followed by \"x\"", "--special-image=x");
	refused("hvdrun --netwrok-interfaces eth0 a", "unknown option", "did you mean --network-interfaces");
	ok(&o, "hvdrun --netwrok-interfaces=eth0 -n1 a");
	assert_in(o.warnings.v[0], "--netwrok-interfaces is not known here: did you mean --network-interfaces?");
	hvd_options_free(&o);
	/* Other words for what is here, and one dash too many or too few. */
	refused("hvdrun --np 4 a", "unknown option --np", "did you mean -np?");
	refused("hvdrun --nproc 4 a", "unknown option --nproc", "did you mean -np?");
	refused("hvdrun --num_procs 4 a", "unknown option --num_procs", "did you mean -np?");
	refused("hvdrun --min_np 4 a", "unknown option --min_np", "did you mean --min-np?");
	refused("hvdrun -gpus 4 a", "unknown option -g", "did you mean --gpus?");
	refused("hvdrun -np 99999999999 a", "out of range", "from 1 to 1048576");
	refused("hvdrun -N2 --spares=2 a", "of 2 nodes 2 cannot be spare", "-N3 or more");
	refused("hvdrun -N1 --spares=1 a", "of 1 node 1 cannot be spare", "-N2 or more");
	parts("hvdrun -N1-3 --spares=2 a", "-N1-3", "a");
	/* Those of pyxis are known, in both forms. */
	parts("hvdrun --container-image i --no-container-mount-home a", "--container-image i --no-container-mount-home",
	      "a");
}

TEST(test_own)
{
	static const struct {
		const char *line, *values, *warning;
		size_t notes;
	} lines[] = {
		{"hvdrun --dry-run --json --trace t --launcher=SSH --nics eth0,ib0 --hvd-nics=eth0,eth1 "
		 "--network-interface en --start-timeout 2m --slots-per-host 4 --hosts h1:2 "
		 "--config-file c --hvd-verbose --controller=gloo a",
		 "dry-run=1 json=1 trace=t launcher=ssh nics=eth0,ib0,eth1,en start-timeout=120 slots-per-host=4 "
		 "config-file=c verbose=1",
		 NULL, 0},
		/* The plugin's spellings; the later one of two holds, as with srun. */
		{"hvdrun --hvd --no-hvd a", "hvd=0", NULL, 1},
		{"hvdrun --hvd --hvd-start-timeout=5 --hvd-trace=t --hvd-config=c "
		 "--hvd-key-file=k a",
		 "start-timeout=5 trace=t config-file=c key-file=k hvd=1", NULL, 1},
		{"hvdrun --hvd-store=RANK0 --hvd-init-timeout=2m a", "store=rank0 init-timeout=120", NULL, 0},
		{"hvdrun --hvd-hang-timeout=10m --hang-action=Kill --signal-ranks=usr1@300 --requeue-on=limit,ask "
		 "--preflight=full --hvd-spares=2 --stderr-lines=0 a",
		 "hang-timeout=600 hang-action=kill requeue-on=limit,ask preflight=full spares=2 stderr-lines=0", NULL,
		 0},
		{"hvdrun --stacks=123.0", "stacks=123.0 samples=1 requeue-on= stderr-lines=20", NULL, 0},
		{"hvdrun --stacks=123.0 --samples=5", "stacks=123.0 samples=5", NULL, 0},
		{"horovodrun --disable-cache -np 2 a", "num-proc=2", NULL, 1},
	};
	struct hvd_options o;

	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
		ok(&o, lines[i].line);
		assert_values(&o, lines[i].values);
		assert_int_equal(o.srun_args.n, 0);
		assert_int_equal(o.notes.n, lines[i].notes);
		assert_int_equal(o.warnings.n, lines[i].warning != NULL);
		if (lines[i].warning)
			assert_in(o.warnings.v[0], lines[i].warning);
		hvd_options_free(&o);
	}
	ok(&o, "hvdrun --hvd-frameworks=torch,Jax --signal-ranks=usr1@300 a");
	assert_int_equal(o.frameworks, HVD_FW_TORCH | HVD_FW_JAX);
	assert_true(hvd_options_given(&o, "signal-ranks"));
	assert_int_equal(o.signal_ranks.signal, SIGUSR1);
	assert_true(o.signal_ranks.seconds > 299 && o.signal_ranks.seconds < 301);
	hvd_options_free(&o);
	ok(&o, "hvdrun a");
	assert_int_equal(o.signal_ranks.signal, -1);
	hvd_options_free(&o);
	acts("hvdrun --stacks=123.0", HVD_SHOW_STACKS);
	acts("hvdrun --status=123.0 --json", HVD_SHOW_STATUS);
	acts("hvdrun --watch=123.0 --json --interval=2", HVD_SHOW_WATCH);
	acts("hvdrun --selftest", HVD_RUN);
	refused("hvdrun --launcher=x a", "\"x\" is not known", "auto|srun");
	refused("hvdrun --start-timeout=0 a", "out of range", "");
	refused("hvdrun --start-timeout=inf a", "seconds", "30");
	refused("hvdrun --start-timeout=0x10 a", "seconds", "");
	refused("hvdrun --nics=a,,b a", "not a list", "commas");
	refused("hvdrun --hosts --gloo a", "--gloo follows", "--hosts=--gloo");
	refused("hvdrun --trace= a", "empty", "");
	refused("hvdrun --store=torch a", "\"torch\" is not known", "agent|rank0|off");
	refused("hvdrun --frameworks=torch,mxnet a", "option --frameworks: \"mxnet\" is not known", "horovod|torch|");
	refused("hvdrun --hvd-frameworks=torch,auto a", "option --hvd-frameworks: \"auto\"", "auto, none, or");
	refused("hvdrun --frameworks= a", "not a list", "");
	refused("hvdrun --init-timeout=-1 a", "-1", "");
	refused("hvdrun --signal-ranks=USR1 a", "not a signal and a time", "USR1@300");
	refused("hvdrun --requeue-on=always a", "\"always\" is not known", "limit|node|preempt|ask|hang");
	refused("hvdrun --status=1 a", "--status inspects a running job, and starts no command",
		"leave out the command");
	refused("hvdrun --status=1 --stacks=1", "two questions", "leave one of them out");
	refused("hvdrun --watch=1 --status=1", "--status and --watch are two questions", "leave one of them out");
	refused("hvdrun --watch=1 a", "--watch inspects a running job, and starts no command", "leave out the command");
	refused("hvdrun --watch=1 --interval=0", "out of range", "");
	refused("hvdrun --stacks=1 a", "starts no command", "leave out the command");
	refused("hvdrun --stacks=1 --samples=0", "out of range", "");
	refused("hvdrun --stacks=1 --samples=21", "out of range", "");
	refused("hvdrun --samples=5 a", "--samples has no effect without --stacks",
		"leave out --samples, or add --stacks");
	refused("hvdrun --status=1 --interval=5", "--interval has no effect without --watch", "or add --watch");
	refused("hvdrun --rank=5 a", "--rank has no effect without --status or --stacks", "or add --status=JOB");
	refused("hvdrun --status=1 --rank=x", "--rank=x is no rank", "--rank=trainer:3");
	refused("hvdrun --status=1 --rank=:3", "--rank=:3 is no rank", "--rank=3");
	refused("hvdrun --status=1 --rank=1000000000", "--rank=1000000000 is no rank", "--rank=3");
	values("hvdrun --status=1 --rank=rollout/1:0", "rank=rollout/1:0");
	refused("hvdrun --watch=1 --rank=5", "--rank has no effect", "leave it out");
	refused("hvdrun --metrics-token-file=f a", "no effect without --metrics=[ADDRESS:]PORT",
		"or add --metrics=PORT");
	refused("hvdrun --metrics=file:f --metrics-token-file=f a", "no effect without --metrics=[ADDRESS:]PORT",
		"decided by its mode");
	refused("hvdrun --spares=1 --mpi -np 2 a", "--spares cannot be used with the MPI controller", "");
	refused("hvdrun --stderr-lines=1001 a", "out of range", "");
}

/* Options of other launchers, which users have in their fingers. */
TEST(test_elsewhere)
{
	struct hvd_options o;

	refused("hvdrun --nproc-per-node=4 a", "--nproc-per-node is an option of torchrun", "--slots-per-host=NUMBER");
	refused("hvdrun --nproc_per_node 4 a", "--nproc_per_node is an option of torchrun", "-np NUMBER");
	refused("hvdrun --nnodes=1:4 a", "--nnodes is an option of torchrun", "--min-np and --max-np");
	refused("hvdrun --rdzv-backend=c10d a", "--rdzv-backend is an option of torchrun", "leave it out");
	refused("hvdrun --rdzv_endpoint=n1:29400 a", "--rdzv_endpoint is an option of torchrun", "leave it out");
	refused("horovodrun -np 2 --master_port=1 a", "--master_port is an option of torchrun", "MASTER_PORT");
	refused("hvdrun --num_processes 4 a", "--num_processes is an option of accelerate", "-np NUMBER");
	refused("hvdrun --num_gpus=4 a", "--num_gpus is an option of deepspeed", "--slots-per-host");
	/* All of them at once, with the whole line. */
	refused("hvdrun --nproc_per_node=4 --nnodes=2 --rdzv_backend c10d train.py --lr 2",
		"--nproc_per_node, --nnodes, --rdzv_backend are options of torchrun",
		"write hvdrun -N2 --ntasks-per-node=4 python train.py --lr 2 (without Slurm: --hosts");
	refused("hvdrun --standalone --nproc-per-node 2 -v -m pkg.train --a b",
		"--standalone, --nproc-per-node are options", "write hvdrun -np 2 -v python -m pkg.train --a b;");
	refused("hvdrun -np 3 --multi_gpu --num_processes 8 train.py",
		"--multi_gpu, --num_processes are options of accelerate", "write hvdrun -np 3 python train.py;");
	refused("hvdrun --nproc-per-node=4 train.py", "is an option", "for all of them: hvdrun -np 4 python train.py");
	/* Options of the command are its own. */
	parts("hvdrun -n 2 a --nproc-per-node=4", "-n 2", "a --nproc-per-node=4");
	ok(&o, "hvdrun --launcher=srun --nnodes-of-a-plugin=4 a");
	assert_words(&o.unknown, "--nnodes-of-a-plugin=4");
	hvd_options_free(&o);
}

TEST(test_frameworks)
{
	static char store[] = "HVD_STORE=off", names[] = "HVD_FRAMEWORKS=none", init[] = "HVD_INIT_TIMEOUT=5",
		    wrong[] = "HVD_FRAMEWORKS=mxnet";
	char *envp[] = {store, names, init, NULL}, *bad[] = {wrong, NULL};
	struct hvd_launch_spec spec;
	struct hvd_options o;
	struct hvd_err err;

	ok(&o, "hvdrun -np 2 a");
	hvd_launch_spec_make(&spec, &o, NULL);
	assert_int_equal(spec.store, HVD_STORE_AGENT);
	assert_int_equal(spec.frameworks, HVD_FW_AUTO);
	assert_true(spec.init_timeout <= 0);
	hvd_launch_spec_clear(&spec);
	hvd_options_free(&o);
	assert_int_equal(load_env(&o, "hvdrun -np 2 --frameworks=tensorflow a", envp, &err), 0);
	hvd_launch_spec_make(&spec, &o, envp);
	assert_int_equal(spec.store, HVD_STORE_OFF);
	assert_int_equal(spec.frameworks, HVD_FW_TENSORFLOW);
	assert_true(spec.init_timeout > 4.9 && spec.init_timeout < 5.1);
	hvd_launch_spec_clear(&spec);
	hvd_options_free(&o);
	assert_fails(load_env(&o, "hvdrun a", bad, &err), err, "environment variable HVD_FRAMEWORKS: \"mxnet\"");
	hvd_options_free(&o);
}

/* --spares has hosts checked, and --requeue-on=hang has the job requeued, unless something as strong says otherwise. */
TEST(test_implied)
{
	static const struct {
		const char *line, *env, *site, *value; /* site: a setting in the site's file */
		int preflight, hang_action, requeued;
	} lines[] = {
		{"a", NULL, NULL, NULL, HVD_PREFLIGHT_OFF, HVD_HANG_REPORT, 0},
		{"--spares=1 a", NULL, NULL, NULL, HVD_PREFLIGHT_QUICK, HVD_HANG_REPORT, 0},
		{"--hvd-spares=1 a", NULL, "preflight", "off", HVD_PREFLIGHT_QUICK, HVD_HANG_REPORT, 0},
		{"--spares=1 --hvd-preflight=off a", NULL, NULL, NULL, HVD_PREFLIGHT_OFF, HVD_HANG_REPORT, 0},
		{"--spares=1 a", NULL, "preflight", "full", HVD_PREFLIGHT_FULL, HVD_HANG_REPORT, 0},
		{"--preflight=off a", "HVD_SPARES=1", NULL, NULL, HVD_PREFLIGHT_OFF, HVD_HANG_REPORT, 0},
		{"a", NULL, "spares", "1", HVD_PREFLIGHT_QUICK, HVD_HANG_REPORT, 0},
		{"--spares=0 a", NULL, "spares", "1", HVD_PREFLIGHT_OFF, HVD_HANG_REPORT, 0},
		{"--requeue-on=limit a", NULL, NULL, NULL, HVD_PREFLIGHT_OFF, HVD_HANG_REPORT, 0},
		{"--requeue-on=limit,hang a", NULL, NULL, NULL, HVD_PREFLIGHT_OFF, HVD_HANG_REQUEUE, 1},
		{"--hvd-requeue-on=hang a", NULL, "hang-action", "kill", HVD_PREFLIGHT_OFF, HVD_HANG_REQUEUE, 1},
		{"--requeue-on=hang --hang-action=kill a", NULL, NULL, NULL, HVD_PREFLIGHT_OFF, HVD_HANG_KILL, 1},
		{"--hang-action=kill a", "HVD_REQUEUE_ON=hang", NULL, NULL, HVD_PREFLIGHT_OFF, HVD_HANG_KILL, 1},
		{"a", NULL, "requeue-on", "hang", HVD_PREFLIGHT_OFF, HVD_HANG_REQUEUE, 1},
		{"--hang-action=requeue a", NULL, NULL, NULL, HVD_PREFLIGHT_OFF, HVD_HANG_REQUEUE, 1},
	};

	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
		char *envp[] = {(char *)lines[i].env, NULL}, *line = hvd_xasprintf("hvdrun %s", lines[i].line);
		struct hvd_launch_spec spec;
		struct hvd_options o;
		struct hvd_err err;

		if (load_env(&o, line, envp, &err) != 0)
			fail_msg("%s: %s", line, err.msg);
		if (lines[i].site)
			assert_int_equal(hvd_options_config(&o, HVD_FROM_SITE, lines[i].site, lines[i].value, &err), 0);
		hvd_launch_spec_make(&spec, &o, envp);
		if (spec.preflight != lines[i].preflight || spec.hang_action != lines[i].hang_action ||
		    (spec.requeue_on >> HVD_REQUEUE_HANG & 1U) != (unsigned)lines[i].requeued)
			fail_msg("%s, %zu: %d %d %x", line, i, spec.preflight, spec.hang_action, spec.requeue_on);
		hvd_launch_spec_clear(&spec);
		hvd_options_free(&o);
		free(line);
	}
}

/* --max-restarts makes an elastic job of PyTorch's kind. */
TEST(test_max_restarts)
{
	static const struct {
		const char *line;
		int max_restarts, first, min, max;
	} lines[] = {
		{"hvdrun -np 4 --max-restarts 3 a", 3, 4, 4, 4},
		{"hvdrun -np 4 --max-restarts 0 a", 0, 4, 4, 4},
		{"hvdrun --min-np 2 --max-np 8 --max-restarts 3 a", 3, 2, 2, 8},
		{"hvdrun -np 4 --max-np 8 --max-restarts 3 a", 3, 4, 0, 8},
		{"hvdrun -np 4 --min-np 2 --max-restarts 3 a", 3, 4, 2, 0},
		{"hvdrun --hosts a:2 --max-restarts 3 a", 3, 1, 0, 0},
		{"hvdrun -np 4 --min-np 2 a", -1, 4, 2, 0},
	};
	struct hvd_launch_spec spec;
	struct hvd_options o;

	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
		ok(&o, lines[i].line);
		hvd_launch_spec_make(&spec, &o, NULL);
		assert_true(spec.elastic.on);
		assert_int_equal(spec.max_restarts, lines[i].max_restarts);
		assert_int_equal(spec.elastic.first_np, lines[i].first);
		assert_int_equal(spec.elastic.min_np, lines[i].min);
		assert_int_equal(spec.elastic.max_np, lines[i].max);
		hvd_launch_spec_clear(&spec);
		hvd_options_free(&o);
	}
	ok(&o, "hvdrun -np 4 a");
	hvd_launch_spec_make(&spec, &o, NULL);
	assert_false(spec.elastic.on);
	hvd_launch_spec_clear(&spec);
	hvd_options_free(&o);
	refused("hvdrun -np 2 --max-restarts=-1 a", "-1", "");
	refused("hvdrun -np 2 --max-restarts 2 --reset-limit 3 a", "--reset-limit is for Horovod's", "leave one");
	refused("hvdrun -np 2 --max-restarts 2 --keep-going a", "--keep-going", "--max-restarts");
	refused("hvdrun -np 2 --max-restarts 2 --mpi a", "MPI controller", "--max-restarts");
}

TEST(test_keep_going)
{
	static const struct {
		const char *line, *env, *keep_going;
	} lines[] = {
		{"hvdrun -K0 a", NULL, "keep-going=1"},
		{"hvdrun --keep-going a", NULL, "keep-going=1"},
		{"hvdrun -K a", NULL, "keep-going=0"},
		{"hvdrun a", "SLURM_KILL_BAD_EXIT=0", "keep-going=1"},
		{"hvdrun -K a", "HVD_KEEP_GOING=1", "keep-going=0"},
		{"hvdrun --keep-going -K0 a", "HVD_KEEP_GOING=1", "keep-going=1"},
	};

	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
		char *envp[] = {(char *)lines[i].env, NULL};
		struct hvd_options o;
		struct hvd_err err;

		assert_int_equal(load_env(&o, lines[i].line, envp, &err), 0);
		assert_values(&o, lines[i].keep_going);
		hvd_options_free(&o);
	}
	refused("hvdrun -K --keep-going a", "contradict", "");
}

RUN_TESTS()
