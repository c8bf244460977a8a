/* SPDX-License-Identifier: Apache-2.0 */
#include "command.h"

#include "lib/process/spawn.h"

#include <errno.h>
#include <event2/event.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* slurmstepd signals the processes of a step one after the other: how long that takes at most on a host. */
#define SIGNAL_ROUND_MS 100
/* How long the command has after SIGTERM when the process that started this rank is gone. */
#define ORPHAN_SECONDS 5
/* The kernel sends it to the shim when the shim's parent ends. Nothing else uses it. */
#define ORPHAN_SIGNAL (SIGRTMIN + 7)

struct run {
	const struct hvd_command *command;
	struct event_base *base; /* if the output passes through this process; else NULL */
	struct hvd_output *out[2];
	pid_t pid;
	int status;
};

int hvd_command_follow(void)
{
	prctl(PR_SET_PDEATHSIG, ORPHAN_SIGNAL);
	return ORPHAN_SIGNAL;
}

/* Wait until the command has ended, for so many seconds at most. */
static bool ends_within(struct run *run, int seconds)
{
	struct timespec most = {.tv_sec = seconds};
	sigset_t chld;

	sigemptyset(&chld);
	sigaddset(&chld, SIGCHLD);
	for (;;) {
		if (waitpid(run->pid, &run->status, WNOHANG) == run->pid)
			return true;
		if (sigtimedwait(&chld, NULL, &most) < 0 && errno == EAGAIN)
			return false;
	}
}

/* End the command, since the process that started this rank is gone. Returns false if that process is still there. */
static bool end_orphan(struct run *run)
{
	bool leads = getpgrp() == getpid(), ended = false;
	sigset_t had;

	if (getppid() == run->command->parent)
		return false; /* only the thread that forked this process has ended */
	if (run->command->orphaned) {
		run->command->orphaned(run->command->arg);
		prctl(PR_SET_CHILD_SUBREAPER, 1); /* processes that outlive the command become children of this one */
	}
	/* If the scheduler has sent SIGTERM already, the command has had its time. */
	if (sigpending(&had) != 0 || !sigismember(&had, SIGTERM)) {
		kill(leads ? 0 : run->pid, SIGTERM);
		ended = ends_within(run, ORPHAN_SECONDS);
	}
	if (run->command->orphaned && !ended) {
		kill(run->pid, SIGKILL);
		while (waitpid(run->pid, &run->status, 0) < 0 && errno == EINTR)
			;
	}
	hvd_kill_adopted();
	if (run->command->orphaned)
		return true;
	if (leads)
		kill(0, SIGKILL);
	_exit(1);
}

static void on_output_end(void *arg)
{
	*(struct hvd_output **)arg = NULL;
}

static void on_child(evutil_socket_t sig, short what, void *arg)
{
	struct run *run = arg;

	(void)sig;
	(void)what;
	if (waitpid(run->pid, &run->status, WNOHANG) == run->pid)
		event_base_loopbreak(run->base);
}

static void on_orphan(evutil_socket_t sig, short what, void *arg)
{
	(void)sig;
	(void)what;
	if (end_orphan(arg))
		event_base_loopbreak(((struct run *)arg)->base);
}

static bool watches_parent(const struct hvd_command *command)
{
	return command->follow || command->orphaned;
}

static void wait_plainly(struct run *run)
{
	bool watches = watches_parent(run->command);
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGCHLD);
	sigaddset(&set, ORPHAN_SIGNAL);
	while (watches && waitpid(run->pid, &run->status, WNOHANG) == 0)
		if (sigwaitinfo(&set, NULL) == ORPHAN_SIGNAL && end_orphan(run))
			return;
	while (!watches && waitpid(run->pid, &run->status, 0) < 0 && errno == EINTR)
		;
}

/* Run the command with its output passing through this process. -1 with err set if it could not be started. */
static int run_labelled(struct run *run, struct hvd_spawn *spawn, struct hvd_err *err)
{
	struct event *child, *orphan;
	int pipes[2][2] = {{-1, -1}, {-1, -1}}, rc = 0;
	sigset_t chld;

	run->base = event_base_new();
	child = evsignal_new(run->base, SIGCHLD, on_child, run);
	event_add(child, NULL);
	orphan = evsignal_new(run->base, ORPHAN_SIGNAL, on_orphan, run);
	event_add(orphan, NULL);
	sigemptyset(&chld);
	sigaddset(&chld, SIGCHLD);
	sigaddset(&chld, ORPHAN_SIGNAL);
	sigprocmask(SIG_UNBLOCK, &chld, NULL);
	for (int s = 0; s < 2 && rc == 0; s++) {
		if (pipe2(pipes[s], O_CLOEXEC) != 0) {
			rc = hvd_err_sys(err, "cannot make a pipe");
			break;
		}
		hvd_spawn_fd(spawn, pipes[s][1], s + 1);
		run->out[s] = hvd_output_create(run->base, pipes[s][0], run->command->rank, (enum hvd_stream)s,
						run->command->style, on_output_end, &run->out[s], err);
		rc = run->out[s] ? 0 : -1;
	}
	if (rc == 0)
		rc = (run->pid = hvd_spawn(spawn, err)) < 0 ? -1 : 0;
	for (int s = 0; s < 2; s++)
		if (pipes[s][1] >= 0)
			close(pipes[s][1]);
	if (rc == 0)
		event_base_dispatch(run->base);
	for (int s = 0; s < 2; s++)
		hvd_output_destroy(run->out[s]);
	/* ORPHAN_SIGNAL must not end this process while it reports the end of the command. */
	sigprocmask(SIG_BLOCK, &chld, NULL);
	event_free(child);
	event_free(orphan);
	event_base_free(run->base);
	return rc;
}

int hvd_command_run(const struct hvd_command *command, int *status, struct hvd_err *err)
{
	struct hvd_spawn spawn = {.path = command->argv[0],
				  .argv = command->argv,
				  .envp = command->envp,
				  .keep_fds = 1,
				  .parent_death_signal = SIGKILL};
	struct run run = {.command = command};
	sigset_t all;
	int rc = 0;

	if (command->key_fd)
		hvd_spawn_fd(&spawn, command->key_fd, command->key_fd);
	if (command->follow)
		prctl(PR_SET_CHILD_SUBREAPER, 1);
	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, NULL);
	if (command->orphaned) {
		hvd_command_follow();
		if (getppid() != command->parent)
			raise(ORPHAN_SIGNAL); /* the parent ended before the kernel was asked for the signal */
	}
	if (hvd_output_wanted(command->style))
		rc = run_labelled(&run, &spawn, err);
	else if ((run.pid = hvd_spawn(&spawn, err)) < 0)
		rc = -1;
	else
		wait_plainly(&run);
	*status = run.status;
	return rc;
}

bool hvd_command_signalled_with_us(int status)
{
	struct timespec moment = {.tv_nsec = SIGNAL_ROUND_MS * 1000000L};
	sigset_t one;

	if (!WIFSIGNALED(status))
		return false;
	sigemptyset(&one);
	sigaddset(&one, WTERMSIG(status));
	return sigtimedwait(&one, NULL, &moment) == WTERMSIG(status);
}

int hvd_command_mirror(int status)
{
	struct rlimit none = {0, 0};
	sigset_t set;

	if (!WIFSIGNALED(status))
		return WEXITSTATUS(status);
	setrlimit(RLIMIT_CORE, &none); /* the core file of the command must not be overwritten by one of this process */
	signal(WTERMSIG(status), SIG_DFL);
	sigemptyset(&set);
	sigaddset(&set, WTERMSIG(status));
	raise(WTERMSIG(status));
	sigprocmask(SIG_UNBLOCK, &set, NULL);
	return hvd_status_exit(status);
}
