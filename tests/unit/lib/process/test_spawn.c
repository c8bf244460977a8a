/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/base/strv.h"
#include "lib/process/close_fds.h"
#include "lib/process/spawn.h"
#include "tests/standins/old_kernel.h"
#include "tests/unit/unit.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>

static char dir[] = "/tmp/hvd-test-spawn-XXXXXX";

static int make_dir(void **state)
{
	for (int fd = 3; fd < 1024; fd++) /* descriptors that this test has inherited would be in the way */
		close(fd);
	return mkdtemp(dir) ? 0 : -1;
}

static int remove_dir(void **state)
{
	return rmdir(dir);
}

/* Assert at the end of each test that no child is left, and no descriptor is open that was not open before. */
static int fds_before;

static int count_fds(void **state)
{
	fds_before = open_fds();
	return 0;
}

static int nothing_left(void **state)
{
	if (waitpid(-1, NULL, WNOHANG) != -1 || errno != ECHILD) {
		print_error("a child is left\n");
		return -1;
	}
	if (open_fds() != fds_before) {
		print_error("%d descriptors are open, %d were\n", open_fds(), fds_before);
		return -1;
	}
	return 0;
}

static const char *in_dir(const char *name)
{
	static char path[128];

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	return path;
}

static void put_file(const char *name, const char *text, mode_t mode)
{
	int fd = open(in_dir(name), O_WRONLY | O_CREAT | O_TRUNC, 0600);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	assert_int_equal(fchmod(fd, mode), 0);
	close(fd);
}

/* Run a shell command as `sp` asks for. Returns its stdout, unless `sp` has another use for descriptor 1. */
static const char *output_of(struct hvd_spawn *sp, const char *script, int *status)
{
	static char text[8192];
	char *argv[] = {(char *)"sh", (char *)"-c", (char *)script, NULL};
	size_t at = 0;
	ssize_t n;
	int fds[2];
	pid_t pid;

	assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
	sp->path = "/bin/sh";
	sp->argv = argv;
	hvd_spawn_fd(sp, fds[1], 1);
	pid = hvd_spawn(sp, NULL);
	assert_true(pid > 0);
	close(fds[1]);
	while ((n = read(fds[0], text + at, sizeof(text) - 1 - at)) > 0)
		at += (size_t)n;
	text[at] = '\0';
	close(fds[0]);
	assert_int_equal(hvd_wait(pid, hvd_deadline_in(20), status, NULL), 0);
	return text;
}

/* ---- descriptors ---- */

/* A file that holds its own name. */
static int marked(const char *mark)
{
	int fd;

	put_file(mark, mark, 0600);
	fd = open(in_dir(mark), O_RDONLY | O_CLOEXEC);
	assert_true(fd >= 0);
	unlink(in_dir(mark));
	return fd;
}

#define LIST "for f in /proc/self/fd/*; do f=${f##*/}; [ -e /proc/$$/fd/$f ] && echo $f; done"

TEST(only_what_was_named_is_open)
{
	struct hvd_spawn sp = {0};
	int a = marked("a"), loose = dup(a), high = fcntl(a, F_DUPFD, 200), status;

	hvd_spawn_fd(&sp, a, 7);
	assert_string_equal(output_of(&sp, "cat <&7; echo; " LIST, &status), "a\n0\n1\n2\n7\n");
	assert_int_equal(status, 0);
	close(a);
	close(loose);
	close(high);
}

TEST(the_others_stay_when_asked_for)
{
	struct hvd_spawn sp = {.keep_fds = 1};
	int a = marked("a"), loose = fcntl(a, F_DUPFD, 50), closing = fcntl(a, F_DUPFD_CLOEXEC, 60), status;

	hvd_spawn_fd(&sp, a, 9);
	assert_string_equal(output_of(&sp, LIST, &status), "0\n1\n2\n50\n9\n");
	close(a);
	close(loose);
	close(closing);
}

/* Every order of 3, 4 and 5 among themselves, swaps and cycles, and one source for two. */
TEST(numbers_that_overlap)
{
	static const char *const marks[] = {"three", "four", "five"};

	for (int from = 0; from < 27; from++) {
		struct hvd_spawn sp = {0};
		int want[3] = {from % 3, from / 3 % 3, from / 9}, status;
		char expected[64];

		for (int i = 0; i < 3; i++)
			assert_int_equal(marked(marks[i]), 3 + i);
		for (int i = 0; i < 3; i++)
			hvd_spawn_fd(&sp, 3 + want[i], 3 + i);
		snprintf(expected, sizeof(expected), "%s %s %s", marks[want[0]], marks[want[1]], marks[want[2]]);
		/* Two descriptors may share one open file with one position, so the file is opened anew by its name. */
		assert_string_equal(
			output_of(&sp,
				  "printf '%s %s %s' $(cat /proc/$$/fd/3) $(cat /proc/$$/fd/4) $(cat /proc/$$/fd/5)",
				  &status),
			expected);
		for (int i = 0; i < 3; i++)
			close(3 + i);
	}
}

/* The child may want a descriptor at the number that the pipe for errors has. */
TEST(every_low_number_at_once)
{
	struct hvd_spawn sp = {0};
	int a = marked("a"), status;
	const char *out;

	for (int fd = 3; fd < 3 + HVD_SPAWN_MAX_FDS - 2; fd++)
		hvd_spawn_fd(&sp, fd % 2 ? a : -1, fd);
	out = output_of(&sp, "for f in 3 5 7 9 11 13 15; do cat /proc/$$/fd/$f; done; cat <&4 <&6 <&8; echo; " LIST,
			&status);
	assert_string_equal(out, "aaaaaaa\n0\n1\n10\n11\n12\n13\n14\n15\n16\n2\n3\n4\n5\n6\n7\n8\n9\n");
	close(a);
}

TEST(dev_null_for_minus_one)
{
	struct hvd_spawn sp = {0};
	int status;

	hvd_spawn_fd(&sp, -1, 0);
	hvd_spawn_fd(&sp, -1, 2);
	assert_string_equal(output_of(&sp, "readlink /proc/$$/fd/0 /proc/$$/fd/2; cat; echo x >&2", &status),
			    "/dev/null\n/dev/null\n");
	assert_int_equal(status, 0);
}

/* ---- what cannot be run ---- */

static void cannot_run(const char *path, char *const *envp, int error)
{
	char *argv[] = {(char *)path, NULL};
	struct hvd_spawn sp = {.path = path, .argv = argv, .envp = envp};
	struct hvd_err err = {0};

	errno = 0;
	assert_fails_with(hvd_spawn(&sp, &err), err, HVD_E_SYS, path);
	assert_in(err.msg, strerror(error));
	assert_int_equal(errno, error);
}

TEST(errors_come_back)
{
	char *argv[] = {(char *)"sh", NULL};
	struct hvd_spawn sp = {.path = "/bin/sh", .argv = argv, .cwd = "/nonexistent"};
	struct hvd_err err;

	cannot_run("/nonexistent/program", NULL, ENOENT);
	cannot_run("/etc/passwd/program", NULL, ENOTDIR);
	cannot_run("/etc", NULL, EACCES);
	put_file("plain", "#!/bin/sh\n", 0600);
	cannot_run(in_dir("plain"), NULL, EACCES);
	put_file("rubbish", "\177ELF rubbish", 0700);
	cannot_run(in_dir("rubbish"), NULL, ENOEXEC);
	put_file("orphan", "#!/nonexistent/interpreter\n", 0700);
	cannot_run(in_dir("orphan"), NULL, ENOENT);
	assert_int_equal(hvd_spawn(&sp, &err), -1); /* no such folder to start in */
	unlink(in_dir("plain"));
	unlink(in_dir("rubbish"));
	unlink(in_dir("orphan"));
}

/* The errno is that of the last folder in PATH; the test only asks for an error. */
TEST(search_in_path)
{
	char path[512], first[160], second[160], *argv[] = {(char *)"prog", NULL};
	char *envp[] = {(char *)"A=1", path, NULL}, *nowhere[] = {(char *)"PATH=/nonexistent", NULL};
	struct hvd_spawn sp = {.path = "prog", .argv = argv, .envp = envp};
	struct hvd_err err;
	int status;
	pid_t pid;

	snprintf(first, sizeof(first), "%s/first", dir);
	snprintf(second, sizeof(second), "%s/second", dir);
	mkdir(first, 0700);
	mkdir(second, 0700);
	put_file("first/prog", "#!/bin/sh\nexit 1\n", 0600); /* not executable, so the next folder's is taken */
	put_file("second/prog", "#!/bin/sh\nexit 42\n", 0700);
	snprintf(path, sizeof(path), "PATH=/nonexistent:%s:%s", first, second);
	pid = hvd_spawn(&sp, &err);
	assert_true(pid > 0);
	assert_int_equal(hvd_wait(pid, hvd_deadline_in(20), &status, NULL), 0);
	assert_int_equal(hvd_status_exit(status), 42);

	snprintf(path, sizeof(path), "PATH=%s:/nonexistent", first);
	assert_fails(hvd_spawn(&sp, &err), err, "Permission denied");

	snprintf(path, sizeof(path), "PATH=/nonexistent:"); /* an empty entry means the current folder */
	sp.cwd = second;
	pid = hvd_spawn(&sp, &err);
	assert_true(pid > 0);
	assert_int_equal(hvd_wait(pid, hvd_deadline_in(20), &status, NULL), 0);
	assert_int_equal(hvd_status_exit(status), 42);

	sp.envp = nowhere;
	assert_fails(hvd_spawn(&sp, &err), err, "No such file");
	assert_in(err.hint, "PATH");
	unlink(in_dir("first/prog"));
	unlink(in_dir("second/prog"));
	rmdir(first);
	rmdir(second);
}

/* ---- the state of the child ---- */

static void on_signal(int sig)
{
}

TEST(signals_are_as_for_a_fresh_process)
{
	struct sigaction ignore = {.sa_handler = SIG_IGN}, handle = {.sa_handler = on_signal}, old_pipe, old_usr1,
			 old_hup;
	struct hvd_spawn sp = {0};
	sigset_t block, old;
	const char *out, *ignored;
	int status;

	sigaction(SIGPIPE, &ignore, &old_pipe);
	sigaction(SIGHUP, &ignore, &old_hup);
	sigaction(SIGUSR1, &handle, &old_usr1);
	sigemptyset(&block);
	sigaddset(&block, SIGTERM);
	sigaddset(&block, SIGRTMIN + 3);
	sigprocmask(SIG_BLOCK, &block, &old);
	out = output_of(&sp, "exec cat /proc/self/status", &status);
	assert_in(out, "SigBlk:\t0000000000000000");
	/* libc reserves 32 and 33: their inherited dispositions cannot be changed. */
	ignored = strstr(out, "SigIgn:\t");
	assert_non_null(ignored);
	assert_int_equal(strtoull(ignored + strlen("SigIgn:\t"), NULL, 16) & ~UINT64_C(0x180000000), 0);
	assert_in(out, "SigCgt:\t0000000000000000");
	/* Those of this process have not changed. */
	sigprocmask(SIG_SETMASK, NULL, &block);
	assert_int_equal(sigismember(&block, SIGTERM), 1);
	assert_int_equal(sigismember(&block, SIGUSR2), 0);
	sigaction(SIGPIPE, &old_pipe, &ignore);
	assert_ptr_equal(ignore.sa_handler, SIG_IGN);
	sigaction(SIGHUP, &old_hup, NULL);
	sigaction(SIGUSR1, &old_usr1, NULL);
	sigprocmask(SIG_SETMASK, &old, NULL);
}

TEST(groups_and_sessions)
{
	static const char script[] = "set -- $(cat /proc/$$/stat); echo $(($1 == $5)) $(($1 == $6))";
	struct hvd_spawn plain = {0}, group = {.new_group = 1}, session = {.new_session = 1};
	int status;

	assert_string_equal(output_of(&plain, script, &status), "0 0\n");
	assert_string_equal(output_of(&group, script, &status), "1 0\n");
	assert_string_equal(output_of(&session, script, &status), "1 1\n");
}

/* setsid(1) forks if it leads a group, and its first process ends at once. */
TEST(a_group_that_the_child_does_not_lead)
{
	static const char script[] = "set -- $(cat /proc/$$/stat); echo $5 $(($1 == $5)) $(($4 == $PPID)); "
				     "exec setsid sh -c 'set -- $(cat /proc/$$/stat); echo $(($1 == $6)) $$'; exit 3";
	struct hvd_err err = {0};
	char *argv[] = {(char *)"no", NULL};
	struct hvd_spawn sp = {0}, no = {.path = "/nowhere/no", .argv = argv};
	pid_t group = 0, of_none = 0;
	char want[64], *text;
	int status;

	sp.group = &group;
	text = (char *)output_of(&sp, script, &status);
	assert_int_equal(status, 0);
	assert_true(group > 1);
	snprintf(want, sizeof(want), "%d 0 1\n1 ", (int)group);
	if (strncmp(text, want, strlen(want)) != 0)
		fail_msg("not '%s' but '%s'", want, text);
	no.group = &of_none;
	assert_fails(hvd_spawn(&no, &err), err, "No such file");
	assert_int_equal(waitpid(-1, NULL, WNOHANG), -1); /* no child is left */
}

TEST(folder_environment_and_cpus)
{
	char *envp[] = {(char *)"ONLY=this", NULL};
	struct hvd_spawn sp = {.cwd = "/", .envp = envp};
	cpu_set_t all, one;
	int status, cpu = 0;
	char want[64];

	assert_string_equal(output_of(&sp, "pwd; exec /usr/bin/env", &status), "/\nONLY=this\nPWD=/\n");
	sched_getaffinity(0, sizeof(all), &all);
	while (!CPU_ISSET(cpu, &all))
		cpu++;
	for (int next = cpu + 1; next < CPU_SETSIZE; next++)
		if (CPU_ISSET(next, &all))
			cpu = next; /* the last one, which no default chooses */
	CPU_ZERO(&one);
	CPU_SET(cpu, &one);
	sp = (struct hvd_spawn){.cpus = &one};
	snprintf(want, sizeof(want), "Cpus_allowed_list:\t%d\n", cpu);
	assert_string_equal(output_of(&sp, "grep Cpus_allowed_list /proc/self/status", &status), want);
	CPU_ZERO(&one); /* no CPU at all is refused */
	sp = (struct hvd_spawn){.cpus = &one, .path = "/bin/true", .argv = envp};
	assert_int_equal(hvd_spawn(&sp, NULL), -1);
}

/* The child dies with the process that started it: a process in between starts it, writes its pid, and is killed. */
TEST(the_child_dies_with_its_parent)
{
	char *argv[] = {(char *)"sleep", (char *)"1000", NULL};
	struct hvd_spawn sp = {.path = "sleep", .argv = argv, .parent_death_signal = SIGKILL};
	pid_t middle, child = 0;
	int fds[2], alive[2], status;
	char c;

	assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
	assert_int_equal(pipe2(alive, O_CLOEXEC), 0);
	assert_int_equal(prctl(PR_SET_CHILD_SUBREAPER, 1), 0); /* so that this process can wait for it */
	middle = fork();
	if (middle == 0) {
		hvd_spawn_fd(&sp, alive[1], 5);
		child = hvd_spawn(&sp, NULL);
		if (write(fds[1], &child, sizeof(child)) < 0)
			_exit(1);
		close(alive[1]);
		pause();
		_exit(0);
	}
	close(alive[1]);
	assert_int_equal(read(fds[0], &child, sizeof(child)), sizeof(child));
	assert_true(child > 0);
	kill(middle, SIGKILL);
	assert_int_equal(waitpid(middle, &status, 0), middle);
	assert_int_equal(read(alive[0], &c, 1), 0); /* the end of the child closed it */
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	prctl(PR_SET_CHILD_SUBREAPER, 0);
	close(fds[0]);
	close(fds[1]);
	close(alive[0]);
}

/* ---- waiting and ending ---- */

static pid_t start(const char *script)
{
	char *argv[] = {(char *)"sh", (char *)"-c", (char *)script, NULL};
	struct hvd_spawn sp = {.path = "/bin/sh", .argv = argv};
	pid_t pid = hvd_spawn(&sp, NULL);

	assert_true(pid > 0);
	return pid;
}

/* Start a shell, and wait until it has written that it is ready. */
static pid_t start_ready(const char *script)
{
	char *argv[] = {(char *)"sh", (char *)"-c", (char *)script, NULL};
	struct hvd_spawn sp = {.path = "/bin/sh", .argv = argv};
	int fds[2];
	pid_t pid;
	char c;

	assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
	hvd_spawn_fd(&sp, fds[1], 1);
	pid = hvd_spawn(&sp, NULL);
	assert_true(pid > 0);
	assert_int_equal(read(fds[0], &c, 1), 1);
	close(fds[0]);
	close(fds[1]);
	return pid;
}

TEST(waiting_ends_at_the_deadline)
{
	pid_t pid = start("exec sleep 1000");
	struct hvd_err err = {0};
	int status = 0;

	assert_fails_with(hvd_wait(pid, hvd_deadline_in(0.01), &status, &err), err, HVD_E_TIMEOUT, "");
	assert_int_equal(kill(pid, 0), 0);
	assert_int_equal(hvd_wait(pid, hvd_now() - 1, &status, &err), -1);
	kill(pid, SIGINT);
	assert_int_equal(hvd_wait(pid, hvd_deadline_in(20), &status, &err), 0);
	assert_int_equal(hvd_status_exit(status), 130);
	assert_fails_with(hvd_wait(pid, hvd_deadline_in(20), &status, &err), err, HVD_E_SYS, "");
}

TEST(ending_asks_first)
{
	int status = 0;

	hvd_end(start_ready("trap 'exit 5' TERM; echo; while :; do sleep 0.01; done"), 20, &status);
	assert_true(WIFEXITED(status));
	assert_int_equal(hvd_status_exit(status), 5);
}

TEST(and_then_kills)
{
	int status = 0;

	hvd_end(start_ready("trap '' TERM; echo; while :; do sleep 0.01; done"), 0.05, &status);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	hvd_end(start("exit 0"), 20, NULL);
	hvd_end(0, 1, &status); /* no process: nothing happens, and above all not to this process's group */
	hvd_end(-1, 1, &status);
}

TEST(a_stopped_one_ends_too)
{
	pid_t pid = start_ready("echo; exec sleep 1000");
	int status = 0;

	kill(pid, SIGSTOP);
	assert_int_equal(waitpid(pid, &status, WUNTRACED), pid);
	hvd_end(pid, 0.05, &status);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

TEST(status_as_text)
{
	char text[64];
	int status;

	assert_int_equal(hvd_wait(start("exit 3"), hvd_deadline_in(20), &status, NULL), 0);
	assert_string_equal(hvd_status_text(status, text, sizeof(text)), "exit code 3");
	assert_int_equal(hvd_status_exit(status), 3);
	assert_int_equal(hvd_wait(start("kill -SEGV $$"), hvd_deadline_in(20), &status, NULL), 0);
	assert_string_equal(hvd_status_text(status, text, sizeof(text)), "killed by signal 11 (SIGSEGV)");
	assert_int_equal(hvd_status_exit(status), 139);
	assert_int_equal(hvd_wait(start("kill -40 $$"), hvd_deadline_in(20), &status, NULL), 0);
	assert_string_equal(hvd_status_text(status, text, sizeof(text)), "killed by signal 40 (?)");
}

TEST(becoming)
{
	char *argv[] = {(char *)"sh", (char *)"-c", (char *)"exit 9", NULL};
	struct hvd_spawn sp = {.path = "/bin/sh", .argv = argv}, none = {.path = "/nonexistent", .argv = argv};
	struct hvd_err err = {0};
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		/* hvd_exec() returns only if it has failed. */
		if (hvd_exec(&none, &err) != -1 || err.code != HVD_E_SYS)
			_exit(1);
		hvd_exec(&sp, NULL);
		_exit(2);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(hvd_status_exit(status), 9);
}

static _Noreturn void close_without_proc(void)
{
	const struct rlimit below = {40, 40};

	assert_int_equal(old_kernel_begin(), 0);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &below), 0);
	hvd_close_fds(51, 60, false);
	hvd_close_fds(70, ~0U, false);
	hvd_close_fds(52, 51, false);
	_exit(fcntl(50, F_GETFD) < 0 || fcntl(51, F_GETFD) >= 0 || fcntl(61, F_GETFD) < 0 || fcntl(900, F_GETFD) >= 0);
}

TEST(descriptors_above_the_limit_are_closed_without_proc)
{
	const int open_ones[] = {50, 51, 61, 900};
	pid_t pid = fork();
	int status;

	if (pid == 0) {
		for (size_t i = 0; i < 4; i++)
			dup2(0, open_ones[i]);
		if (chroot(dir) != 0 && (unshare(CLONE_NEWUSER) != 0 || chroot(dir) != 0))
			_exit(77);
		close_without_proc();
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	if (hvd_status_exit(status) == 77)
		skip_because("this user cannot change the root folder");
	assert_int_equal(status, 0);
}

/* The last test: there is no way back. */
TEST(on_an_old_kernel_the_same)
{
	const int high = fcntl(0, F_DUPFD, 900);
	struct rlimit limit;
	rlim_t soft;

	assert_int_equal(old_kernel_begin(), 0);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
	soft = limit.rlim_cur;
	limit.rlim_cur = 300;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
	only_what_was_named_is_open(state);
	limit.rlim_cur = soft;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
	close(high);
	numbers_that_overlap(state);
	waiting_ends_at_the_deadline(state);
	ending_asks_first(state);
	and_then_kills(state);
	a_stopped_one_ends_too(state);
}

RUN_TESTS(.setup = count_fds, .teardown = nothing_left, .group_setup = make_dir, .group_teardown = remove_dir)
