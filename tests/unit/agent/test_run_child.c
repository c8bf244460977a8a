/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a rank shim runs its command, and ends it. Each shim here is a process of its own, as it blocks all signals and
 * becomes the parent of what its command leaves behind. All of them have the writing end of a pipe as descriptor 9: the
 * command writes a byte when it is ready, and when no process is left, the pipe has ended.
 */
#include "agent/run_child.h"

#include "lib/process/spawn.h"
#include "tests/unit/unit.h"

#include <event2/event.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>

/* How long processes may take for what is to come at once. */
#define SOON 20.0
/* How long a command may take to end. */
#define KILL_WAIT 600.0
/* An exit code that no command here has. */
#define NOT_STARTED 99
/* A shell heeds its traps meanwhile. */
#define WAIT "while :; do sleep 0.1; done"

struct shim {
	const char *script;
	const char *path;        /* the command; NULL = a shell with the script */
	int ends;                /* when the command is ready: call hvd_child_end() so often */
	int sig;                 /* at that time, send it this signal; 0 = none */
	double kill_wait;        /* seconds; 0 = KILL_WAIT */
	bool own_group;          /* of the command */
	bool orphaned;           /* this process's parent ends when the command is ready */
	struct event_base *base; /* here and below: in the shim */
	struct event *readable;
	struct hvd_child_process *process;
};

/* ---- in the shim ---- */

static void on_ready(evutil_socket_t fd, short what, void *arg)
{
	struct shim *shim = arg;
	char byte;

	(void)what;
	if (read(fd, &byte, 1) != 1)
		_exit(NOT_STARTED);
	event_del(shim->readable);
	for (int i = 0; i < shim->ends; i++)
		hvd_child_end(shim->process);
	if (shim->sig)
		hvd_child_signal(shim->process, shim->sig);
	if (shim->orphaned)
		kill(getppid(), SIGKILL);
}

static void on_started(struct hvd_child_process *process, pid_t pid, void *arg)
{
	struct shim *shim = arg;

	(void)pid;
	shim->process = process;
}

static void be_shim(struct shim *shim, const int pipe_ends[2])
{
	const char *argv[] = {shim->path ? shim->path : "/bin/sh", "-c", shim->script, NULL};
	const struct hvd_output_style style = {0};
	struct hvd_child command = {.argv = (char *const *)argv,
				    .envp = environ,
				    .style = &style,
				    .started = on_started,
				    .adopts = true,
				    .own_group = shim->own_group,
				    .follow = !shim->orphaned,
				    .parent = getppid(),
				    .kill_wait = shim->kill_wait > 0 ? shim->kill_wait : KILL_WAIT,
				    .arg = shim};
	int status = 0;

	setpgid(0, 0); /* as a scheduler does it; nobody else gets what is sent to the group */
	dup2(pipe_ends[1], 9);
	close(pipe_ends[1]);
	shim->base = command.base = event_base_new();
	shim->readable = event_new(shim->base, pipe_ends[0], EV_READ, on_ready, shim);
	event_add(shim->readable, NULL);
	if (hvd_child_run(&command, &status, NULL) != 0)
		_exit(NOT_STARTED);
	_exit(hvd_child_mirror(status));
}

/* ---- in the test ---- */

/* Until no process has the pipe any longer. */
static void await_all(int fd)
{
	const hvd_time deadline = hvd_deadline_in(SOON);
	struct pollfd pfd = {.fd = fd, .events = POLLIN};
	char byte;

	do
		assert_int_equal(poll(&pfd, 1, hvd_left_ms(deadline)), 1);
	while (read(fd, &byte, 1) == 1);
	close(fd);
}

/* Run a shim. Returns its status, as from waitpid(2), when it and all processes that the command has started have
 * ended. */
static int run(struct shim shim)
{
	int pipe_ends[2], status = 0;
	pid_t pid;

	assert_int_equal(pipe(pipe_ends), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0)
		be_shim(&shim, pipe_ends);
	close(pipe_ends[1]);
	if (hvd_wait(pid, hvd_deadline_in(SOON), &status, NULL) != 0) {
		kill(-pid, SIGKILL);
		fail_msg("the command goes on");
	}
	await_all(pipe_ends[0]);
	return status;
}

static void exits(int status, int code)
{
	assert_int_equal(status, code << 8);
}

static void is_killed(int status, int sig)
{
	assert_int_equal(status, sig);
}

TEST(the_status_is_that_of_the_command)
{
	exits(run((struct shim){.script = "exit 7"}), 7);
	exits(run((struct shim){.script = "true"}), 0);
	is_killed(run((struct shim){.script = "kill -USR1 $$"}), SIGUSR1);
	exits(run((struct shim){.path = "/nonexistent/command"}), NOT_STARTED);
}

TEST(a_command_is_asked_to_end)
{
	static const char script[] = "trap 'exit 3' TERM; sh -c 'echo >&9; exec sleep 600' & " WAIT;

	exits(run((struct shim){.script = script, .ends = 1}), 3);
	exits(run((struct shim){.script = script, .ends = 1, .own_group = true}), 3);
}

TEST(a_command_that_goes_on_is_killed_after_its_time)
{
	const struct shim shim = {.script = "trap '' TERM; echo >&9; sleep 600", .ends = 1, .kill_wait = 0.5};
	const hvd_time began = hvd_now();

	is_killed(run(shim), SIGKILL);
	/* A timer of libevent may be early by a tick of the kernel's coarse clock. */
	assert_true(hvd_now() - began >= (hvd_time)((shim.kill_wait - 0.02) * 1e9));
}

TEST(a_command_that_is_to_end_again_is_killed_at_once)
{
	is_killed(run((struct shim){.script = "trap '' TERM; echo >&9; sleep 600", .ends = 2}), SIGKILL);
}

/* In a session of its own, and deaf to SIGTERM. */
TEST(what_the_command_leaves_behind_ends_with_it)
{
	static const char script[] =
		"trap 'exit 3' TERM; setsid sh -c 'trap \"\" TERM; echo >&9; exec sleep 600' & " WAIT;

	exits(run((struct shim){.script = script, .ends = 1}), 3);
}

TEST(a_signal_reaches_all_of_the_command)
{
	static const char script[] = "trap 'exit 4' USR1; sh -c 'echo >&9; exec sleep 600' & " WAIT;

	exits(run((struct shim){.script = script, .sig = SIGUSR1}), 4);
	exits(run((struct shim){.script = script, .sig = SIGUSR1, .own_group = true}), 4);
}

/* A shim's parent stands for a scheduler's daemon. */
TEST(without_a_parent_the_command_and_what_it_has_started_end)
{
	struct shim shim = {.script = "setsid sh -c 'echo >&9; exec sleep 600' & " WAIT, .orphaned = true};
	int pipe_ends[2], status;
	pid_t parent;

	assert_int_equal(pipe(pipe_ends), 0);
	parent = fork();
	assert_true(parent >= 0);
	if (parent == 0) {
		if (fork() == 0)
			be_shim(&shim, pipe_ends);
		close(pipe_ends[1]);
		for (;;)
			pause();
	}
	close(pipe_ends[1]);
	assert_int_equal(waitpid(parent, &status, 0), parent);
	is_killed(status, SIGKILL);
	await_all(pipe_ends[0]);
}

RUN_TESTS()
