/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How srun and its shims are told that the launch's key comes on stdin.
 */
#include "launcher/options/options.h"
#include "launcher/start/backend.h"

#include "lib/base/xalloc.h"
#include "tests/unit/unit.h"

#define TASK "/opt/libexec/hvd/hvd-agent"

static struct hvd_launch launch;
static struct hvd_options options;
static struct hvd_launch_spec spec;
static struct hvd_err err;

/* What comes of `line`: 0 with the words of srun's command line in *words, the caller's to free. */
static int by_stdin(const char *line, char **words)
{
	char *copy = hvd_xstrdup(line), *save = NULL, *argv[16];
	int argc = 0, rc;

	for (char *word = strtok_r(copy, " ", &save); word; word = strtok_r(NULL, " ", &save))
		argv[argc++] = word;
	argv[argc] = NULL;
	hvd_options_init(&options);
	assert_int_equal(hvd_options_parse(&options, argc, argv, &err), 0);
	hvd_launch_spec_make(&spec, &options, NULL);
	launch = (struct hvd_launch){.spec = &spec, .agent = TASK};
	launch.procs = hvd_xcalloc(1, sizeof(*launch.procs));
	launch.procs[0].fd = -1;
	launch.n_procs = 1;
	hvd_strv_add(&launch.procs[0].argv, "srun");
	hvd_strv_add(&launch.procs[0].argv, "-N2");
	hvd_strv_add(&launch.procs[0].argv, TASK);
	hvd_strv_add(&launch.procs[0].argv, "shim");
	hvd_strv_add(&launch.procs[0].argv, "--");
	hvd_strv_add(&launch.procs[0].argv, TASK); /* the command may be anything */
	rc = hvd_srun_by_stdin(&launch, &err);
	*words = hvd_shell_join(launch.procs[0].argv.v);
	hvd_launch_clear(&launch);
	hvd_launch_spec_clear(&spec);
	hvd_options_free(&options);
	free(copy);
	return rc;
}

static void told(const char *line, const char *want, bool no_input)
{
	char *words;

	assert_int_equal(by_stdin(line, &words), 0);
	assert_string_equal(words, want);
	assert_true(launch.by_stdin);
	assert_int_equal(launch.no_input, no_input);
	free(words);
}

TEST(every_task_gets_the_key)
{
	told("hvdrun a", "srun -N2 " TASK " shim --stdin -- " TASK, false);
	told("hvdrun --input=all a", "srun -N2 " TASK " shim --stdin -- " TASK, false);
	told("hvdrun --input=3 a", "srun -N2 --input=all " TASK " shim --stdin --input=3 -- " TASK, false);
	told("hvdrun -i none a", "srun -N2 --input=all " TASK " shim --stdin --input=none -- " TASK, true);
	told("horovodrun -np 2 a", "srun -N2 --input=all " TASK " shim --stdin --input=0 -- " TASK, false);
}

static void refused(const char *line, const char *what)
{
	char *words;

	assert_int_equal(by_stdin(line, &words), -1);
	assert_int_equal(err.code, HVD_E_USAGE);
	assert_in(err.msg, "there is no munge here");
	assert_in(err.msg, what);
	assert_in(err.hint, "--key-file=FILE");
	assert_string_equal(words, "srun -N2 " TASK " shim -- " TASK);
	assert_false(launch.by_stdin);
	free(words);
}

TEST(what_takes_its_way)
{
	refused("hvdrun --pty a", ", which is impossible with --pty");
	refused("hvdrun --input=/etc/hosts a", ", which is impossible with a file as --input");
	refused("hvdrun --input=in.%t a", ", which is impossible with a file as --input");
}

RUN_TESTS()
