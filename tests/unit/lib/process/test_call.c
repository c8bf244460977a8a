/* SPDX-License-Identifier: Apache-2.0 */
/* A function that is called in a child process. */
#include "lib/process/call.h"

#include "lib/process/capture.h"
#include "tests/unit/unit.h"

#include <fcntl.h>
#include <sys/wait.h>

static void say(int out, void *arg)
{
	dprintf(out, "%s", (const char *)arg);
}

static void crash(int out, void *arg)
{
	dprintf(out, "last words");
	raise(SIGKILL);
}

static void hang(int out, void *arg)
{
	for (;;)
		pause();
}

TEST(what_the_child_writes_comes_back)
{
	struct hvd_err err = {0};
	int status = -1, fds = open_fds();
	size_t len;
	char *text = hvd_call(say, (void *)"hello", "the child", 100, hvd_deadline_in(30), &len, &status, &err);

	assert_non_null(text);
	assert_string_equal(text, "hello");
	assert_int_equal(len, 5);
	assert_int_equal(status, 0);
	free(text);
	text = hvd_call(crash, NULL, "the child", 100, hvd_deadline_in(30), &len, &status, &err);
	assert_non_null(text);
	assert_string_equal(text, "last words");
	assert_int_equal(WTERMSIG(status), SIGKILL);
	free(text);
	assert_null(hvd_call(say, (void *)"too long", "the child", 4, hvd_deadline_in(30), &len, NULL, &err));
	assert_int_equal(err.code, HVD_E_LIMIT);
	assert_int_equal(open_fds(), fds);
}

static int told[2];

static void on_term(int sig)
{
	(void)!write(told[1], &sig, sizeof(sig));
}

/* libevent's handlers write to a socket that a forked child has, too. */
TEST(the_signal_that_ends_the_child_runs_no_handler_of_ours)
{
	const struct sigaction ours = {.sa_handler = on_term};
	struct sigaction before;
	struct hvd_err err = {0};
	size_t len;
	int sig;

	assert_int_equal(pipe2(told, O_CLOEXEC | O_NONBLOCK), 0);
	sigaction(SIGTERM, &ours, &before);
	assert_null(hvd_call(hang, NULL, "the child", 100, hvd_deadline_in(0.2), &len, NULL, &err));
	assert_int_equal(err.code, HVD_E_TIMEOUT);
	assert_string_equal(err.msg, "the child does not end");
	assert_int_equal(read(told[0], &sig, sizeof(sig)), -1);
	sigaction(SIGTERM, &before, NULL);
	close(told[0]);
	close(told[1]);
	assert_int_equal(waitpid(-1, NULL, WNOHANG), -1); /* it was reaped */
}

/* Answers what it reads, and how many descriptors it has. */
static void echo(int out, void *arg)
{
	char text[100];
	ssize_t n;

	while ((n = read(STDIN_FILENO, text, sizeof(text))) > 0)
		dprintf(out, "%.*s%s", (int)n, text, (const char *)arg);
	dprintf(out, " %d", open_fds());
}

TEST(a_detached_process_has_a_pipe_as_stdin_or_nothing)
{
	struct hvd_err err = {0};
	int fds = open_fds(), to, in;
	size_t len;
	char *text;

	assert_int_equal(hvd_call_detached(echo, (void *)"!", &to, &in, &err), 0);
	assert_true(fcntl(to, F_GETFL) & O_NONBLOCK);
	assert_int_equal(waitpid(-1, NULL, WNOHANG), -1); /* it is no child */
	assert_int_equal(write(to, "hello", 5), 5);
	close(to);
	text = hvd_capture_fd(in, "the process", 100, hvd_deadline_in(30), &len, &err);
	assert_non_null(text);
	assert_string_equal(text, "hello! 4");
	free(text);
	close(in);
	assert_int_equal(hvd_call_detached(echo, NULL, NULL, &in, &err), 0);
	text = hvd_capture_fd(in, "the process", 100, hvd_deadline_in(30), &len, &err);
	assert_non_null(text);
	assert_string_equal(text, " 4");
	free(text);
	close(in);
	assert_int_equal(open_fds(), fds);
}

RUN_TESTS()
