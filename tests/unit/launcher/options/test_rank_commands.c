/* SPDX-License-Identifier: Apache-2.0 */
/* --multi-prog: the file and the other options, and how many ranks there are. */
#include "launcher/options/rank_commands.h"
#include "lib/process/multi_prog.h"
#include "options_lines.h"

static char path[32];

/* A command line that ends with the name of a file with this text. */
static const char *line(const char *options, const char *text)
{
	static char all[256];
	FILE *file = fopen(path, "w");

	assert_non_null(file);
	assert_true(fputs(text, file) >= 0);
	assert_int_equal(fclose(file), 0);
	snprintf(all, sizeof(all), "hvdrun %s %s", options, path);
	return all;
}

static int begin(void **state)
{
	int fd;

	strcpy(path, "/tmp/hvd-programs-XXXXXX");
	fd = mkstemp(path);
	assert_true(fd >= 0);
	return close(fd);
}

static int end(void **state)
{
	return unlink(path);
}

/* The number of ranks for `text` is `np`; -1: the hosts or srun count them. */
static void counts(const char *options, const char *text, int np)
{
	struct hvd_options o;

	ok(&o, line(options, text));
	assert_int_equal(hvd_options_np(&o), np);
	assert_non_null(o.programs);
	hvd_options_free(&o);
}

TEST_WITH(test_number_of_ranks, begin, end)
{
	counts("--multi-prog", "0-2 a\n", 3);
	counts("-N2 --multi-prog", "0 a\n1 b\n", 2);
	counts("--multi-prog", "0 a\n* b\n", -1);
	counts("--ntasks-per-node=2 --multi-prog", "0-2 a\n", -1);
	counts("-n4 --multi-prog", "0-3 a\n", 4);
	counts("-np 4 --multi-prog", "1 a\n* b\n", 4);
	counts("--max-restarts=1 --multi-prog", "0-3 a\n", 4);
	counts("--max-restarts=1 --min-np=2 --max-np=4 --multi-prog", "0-3 a\n", -1);
	counts("--max-restarts=1 --min-np=2 --multi-prog", "0 a\n* b", -1);
	refused(line("-n4 --multi-prog", "0-2 a\n"), "no executable program specified for rank 3 of 4", "*");
	refused(line("-np 2 --multi-prog", "0-2 a\n"), "there is no rank 2 in a job of 2", "start 3 ranks");
	refused(line("--multi-prog", "0,2 a\n"), "no executable program specified for rank 1 of 3", "*");
	refused(line("--max-restarts=1 --max-np=4 --multi-prog", "0-2 a\n"), "rank 3 of 4", "*");
	refused(line("--max-restarts=1 --min-np=2 --multi-prog", "0-3 a\n"), "no line for all other ranks (*)",
		"--max-np");
}

TEST_WITH(test_what_excludes_it, begin, end)
{
	refused(line("-n1 --preload=torch --multi-prog", "0 python a.py"), "--preload cannot be used with --multi-prog",
		"leave one");
	refused(line("-n1 --run-func=f --results=r --multi-prog", "0 a"), "--run-func cannot be used with --multi-prog",
		"leave one");
	refused(line("-n1 --selftest --multi-prog", "0 a"), "--selftest cannot be used with --multi-prog", "leave one");
	refused(line("--min-np=1 --multi-prog", "* a"), "Horovod's kind of elastic job", "--max-restarts");
	refused("hvdrun --multi-prog /nonexistent/f", "/nonexistent/f: No such file", "");
	refused(line("--multi-prog", "a b"), "these are no ranks: \"a\"", "0-3,7");
	refused(line("--multi-prog", "0 a \xff"), "is no UTF-8", "");
	refused("hvdrun --multi-prog", "no command", "");
}

TEST_WITH(test_commands_of_ranks, begin, end)
{
	static char *const envp[] = {(char *)"SLURM_SRUN_MULTI=1", NULL};
	struct hvd_launch_spec spec;
	struct hvd_options o;
	struct hvd_err err = {0};
	json_t *command;

	assert_int_equal(load_env(&o, line("-l -n2", "0 a %t more\n1 mpirun -np 2 b\n"), envp, &err), 0);
	assert_words(&o.srun_args, "-l -n2");
	hvd_launch_spec_make(&spec, &o, envp);
	command = hvd_rank_command(&spec, 0, false);
	assert_int_equal(json_array_size(command), 3);
	assert_string_equal(json_string_value(json_array_get(command, 1)), "0");
	assert_string_equal(json_string_value(json_array_get(command, 2)), "more");
	json_decref(command);
	assert_int_equal(hvd_rank_commands_refuse(&spec, 2, true, &err), -1);
	in_text(err.msg, "line 2 of /tmp/hvd-programs-", __FILE__, __LINE__);
	in_text(err.msg, "mpirun is a launcher, too", __FILE__, __LINE__);
	assert_int_equal(hvd_rank_commands_refuse(&spec, 1, false, &err), 0);
	hvd_launch_spec_clear(&spec);
	hvd_options_free(&o);
}

RUN_TESTS()
