/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/process/program.h"

#include "lib/process/interpreter.h"
#include "lib/process/spawn.h"

#include "tests/unit/unit.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

static char dir[] = "/tmp/hvd-test-program-XXXXXX";
static char path[] = "PATH=/nowhere:/tmp/hvd-test-program-XXXXXX/bin";
static char *envp[] = {path, NULL};

static void put(const char *name, const char *text, mode_t mode)
{
	int fd = open(name, O_WRONLY | O_CREAT | O_EXCL, 0600);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	assert_int_equal(fchmod(fd, mode), 0);
	close(fd);
}

static int make_files(void **state)
{
	if (!mkdtemp(dir) || chdir(dir) != 0)
		return -1;
	snprintf(path, sizeof(path), "PATH=/nowhere:%s/bin", dir);
	assert_int_equal(mkdir("bin", 0700) + mkdir("folder", 0700), 0);
	put("bin/python3", "#!/bin/sh\n", 0755);
	put("bin/closed", "#!/bin/sh\n", 0644);
	put("train.py", "print(1)\n", 0644);
	put("run", "#!/bin/sh\nexit 3\n", 0755);
	put("closed", "#!/usr/bin/env python3\n", 0644);
	put("plain", "exit 0\n", 0755);
	put("dead", "#! /no/such/python -u\n", 0755);
	put("crlf", "#!/bin/sh\r\nexit\r\n", 0755);
	put("wrong", "\177ELF and nothing more\n", 0755);
	return 0;
}

static int remove_files(void **state)
{
	static const char *const names[] = {"bin/python3", "bin/closed", "train.py", "run",  "closed",
					    "plain",       "dead",       "crlf",     "wrong"};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		unlink(names[i]);
	return rmdir("bin") | rmdir("folder") | chdir("/") | rmdir(dir);
}

/* What the kernel says of a file decides; the look before that agrees, as far as it goes. */
TEST(a_program_that_cannot_be_run_is_explained)
{
	static const struct {
		const char *name;
		int error;
		bool seen; /* without running it */
		const char *hint;
	} cases[] = {
		{"train.py", ENOENT, true,
		 "train.py is a file in this folder, not a program in PATH: write python3 train.py"},
		{"./train.py", EACCES, true,
		 "./train.py is not executable: write python3 ./train.py, or chmod +x ./train.py"},
		{"run", ENOENT, true, "run is a file in this folder, not a program in PATH: write bash run"},
		{"plain", ENOENT, true, "plain is a file in this folder, which is not in PATH: write ./plain"},
		{"./closed", EACCES, true, "write python3 ./closed, or chmod"},
		{"closed", EACCES, true, "/bin/closed is not executable: write bash "},
		{"./plain", ENOEXEC, false, "no first line with #! and an interpreter: write bash ./plain"},
		{"./dead", ENOENT, true,
		 "(#!) names /no/such/python, which does not exist here: correct the line, or write "
		 "python3 ./dead"},
		{"./crlf", ENOENT, true, "end as on Windows"},
		{"./wrong", ENOEXEC, false, "was built for another processor"},
		{"folder", ENOENT, true, "folder is a folder, not a program: write the program in front of it"},
		{"./folder", EACCES, true, "./folder is a folder, not a program"},
		{"python", ENOENT, true, "there is no python in PATH, but python3"},
		{"nosuch", ENOENT, true, "nosuch was not found in PATH; give its full path or load its module"},
		{"./nosuch", ENOENT, true, ""},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char *argv[] = {(char *)cases[i].name, NULL};
		struct hvd_spawn sp = {.path = cases[i].name, .argv = argv, .envp = envp};
		char msg[128];
		struct hvd_err err = {0};

		assert_int_equal(hvd_program_look(cases[i].name, envp), cases[i].seen ? cases[i].error : 0);
		snprintf(msg, sizeof(msg), "cannot run %s: %s", cases[i].name, strerror(cases[i].error));
		assert_fails(hvd_spawn(&sp, &err), err, msg);
		assert_in(err.hint, cases[i].hint);
		if (!*cases[i].hint)
			assert_string_equal(err.hint, "");
	}
	assert_int_equal(hvd_program_look("./run", envp), 0);
	assert_int_equal(hvd_program_look("python3", envp), 0);
	assert_int_equal(hvd_program_look("/bin/sh", NULL), 0);
	assert_int_equal(hvd_program_look("sh", NULL), 0);
}

TEST(slurmstepd_says_that_it_could_not_run_a_program)
{
	static const char line[] = "warm\nslurmstepd-h1: error: execve(): /data/job 1: Permission denied\nmore\n";
	static const char bad[] =
		"slurmstepd: error: execve(): bad interpreter(/no/python): No such file or directory\n";
	struct hvd_err err = {0};

	assert_true(hvd_program_refused(line, EACCES, envp, &err));
	assert_string_equal(err.msg, "cannot run /data/job 1: Permission denied");
	assert_true(hvd_program_refused(bad, ENOENT, envp, &err));
	assert_string_equal(err.msg, "cannot run /no/python: No such file or directory");
	assert_string_equal(err.hint, "the first line of the program (#!) names it");
	assert_true(hvd_program_refused("slurmstepd: error: execve(): train.py: No such file or directory", ENOENT,
					envp, &err));
	assert_in(err.hint, "write python3 train.py");
	/* A program that quotes such a line, and ends with another status. */
	assert_false(hvd_program_refused(line, 1, envp, &err));
	assert_false(hvd_program_refused(line, 0, envp, &err));
	assert_true(
		hvd_program_refused("[2026-11-27T13:20:10.538] error: execve(): train.py: No such file or directory\n",
				    ENOENT, envp, &err));
	assert_false(hvd_program_refused("| slurmstepd: error: execve(): x: Permission denied\n", EACCES, envp, &err));
	assert_false(hvd_program_refused("slurmstepd: error: execve(): Permission denied\n", EACCES, envp, &err));
	assert_false(hvd_program_refused("slurmstepd: error: no\n", EACCES, envp, &err));
	assert_false(hvd_program_refused(NULL, EACCES, envp, &err));
}

TEST(a_hint_becomes_part_of_a_message)
{
	struct hvd_err err = {0};

	hvd_program_error("nosuch", envp, ENOENT, &err);
	hvd_err_join(&err);
	assert_in(err.msg, "No such file or directory; nosuch was not found in PATH");
	assert_string_equal(err.hint, "");
	hvd_err_join(&err);
	assert_in(err.msg, "load its module");
}

TEST(interpreters_that_read_their_program_from_stdin)
{
	static const struct {
		const char *words[4];
		bool reads;
	} rows[] = {
		{{"bash"}, true},
		{{"/bin/sh", "-s", "word"}, true},
		{{"bash", "-e", "-u"}, true},
		{{"bash", "-o", "pipefail"}, true},
		{{"bash", "--norc", "-"}, true},
		{{"bash", "-ls"}, true},
		{{"zsh", "--"}, true},
		{{"python"}, true},
		{{"python3.11", "-", "word"}, true},
		{{"/opt/bin/python3", "-u", "-"}, true},
		{{"python", "-W", "ignore"}, true},
		{{"env", "X=1", "bash"}, true},
		{{"bash", "run.sh"}, false},
		{{"bash", "-e", "run.sh"}, false},
		{{"bash", "-c", "echo"}, false},
		{{"bash", "-lc", "echo"}, false},
		{{"bash", "--", "run.sh"}, false},
		{{"bash", "--version"}, false},
		{{"python", "train.py"}, false},
		{{"python", "-u", "train.py"}, false},
		{{"python", "-c", "print()"}, false},
		{{"python", "-um", "train"}, false},
		{{"python", "-V"}, false},
		{{"python", "--version"}, false},
		{{"./train.py"}, false},
		{{"env", "X=1"}, false},
		{{NULL}, false},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		if ((hvd_interpreter_of_stdin((char *const *)rows[i].words) != NULL) != rows[i].reads)
			fail_msg("%zu: %s %s", i, rows[i].words[0], rows[i].words[1]);
}

RUN_TESTS(.group_setup = make_files, .group_teardown = remove_files)
