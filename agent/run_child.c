/* SPDX-License-Identifier: Apache-2.0 */
#include "run_child.h"

#include "lib/base/deadline.h"
#include "lib/base/file.h"
#include "lib/base/timer.h"
#include "lib/process/spawn.h"
#include "signal_forward.h"

#include <errno.h>
#include <event2/event.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* How long the report of that may take. */
#define REPORT_MS 20
/* The kernel sends it to the shim when the shim's parent ends. Nothing else uses it. */
#define ORPHAN_SIGNAL (SIGRTMIN + 7)

struct hvd_child_process {
	const struct hvd_child *command;
	struct hvd_streams streams;
	pid_t pid, group; /* group: 0 = this process's */
	int status;
	bool ended;              /* and was reaped */
	bool orphan;             /* the process that started this one is gone */
	bool ending;             /* the command is to be ended */
	struct hvd_timer *grace; /* runs then until the command gets SIGKILL */
	struct hvd_signal_forward *forward;
};

int hvd_child_orphan_signal(void)
{
	return ORPHAN_SIGNAL;
}

int hvd_child_follow(void)
{
	prctl(PR_SET_PDEATHSIG, ORPHAN_SIGNAL);
	return ORPHAN_SIGNAL;
}

void hvd_child_parent(char name[HVD_COMMAND_PARENT])
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/comm", (int)getppid());
	if (!hvd_read_start(path, name, HVD_COMMAND_PARENT - 1))
		snprintf(name, HVD_COMMAND_PARENT, "the starter of the ranks");
	name[strcspn(name, "\n")] = '\0';
}

/* Reap the command. Returns false if it still runs. */
static bool reap(struct hvd_child_process *run)
{
	pid_t pid;

	do
		pid = waitpid(run->pid, &run->status, WNOHANG);
	while (pid < 0 && errno == EINTR);
	return run->ended = pid == run->pid;
}

/* An MPI's rank ends without a report: who would get it is gone. */
static void end_with_all(void)
{
	hvd_kill_adopted();
	if (getpgrp() == getpid())
		kill(0, SIGKILL);
	_exit(1);
}

static void on_child(int sig, void *arg)
{
	struct hvd_child_process *run = arg;

	(void)sig;
	if (run->ended || !reap(run))
		return;
	if (run->orphan || run->ending)
		hvd_kill_adopted();
	if (run->orphan && run->command->follow)
		end_with_all();
	event_base_loopbreak(run->command->base);
}

static void on_grace(void *arg)
{
	struct hvd_child_process *run = arg;

	if (run->orphan && run->command->follow)
		end_with_all();
	kill(run->pid, SIGKILL); /* its end comes as SIGCHLD */
}

/* A scheduler makes each task the leader of a process group. This process has all signals blocked. */
void hvd_child_signal(struct hvd_child_process *run, int sig)
{
	if (!run->ended)
		kill(run->group ? -run->group : getpgrp() == getpid() ? 0 : run->pid, sig);
}

void hvd_child_end(struct hvd_child_process *run)
{
	if (run->ended || run->orphan)
		return;
	prctl(PR_SET_CHILD_SUBREAPER, 1); /* processes that outlive the command become children of this one */
	if (!run->ending)
		hvd_child_signal(run, SIGTERM);
	hvd_timer_at(run->grace, hvd_deadline_in(run->ending ? 0 : run->command->kill_wait));
	run->ending = true;
}

/* End the command, if the process that started this rank is gone. */
static void on_orphan(int sig, void *arg)
{
	struct hvd_child_process *run = arg;

	(void)sig;
	/* It may be that only the thread that forked this process has ended. */
	if (run->ended || run->orphan || getppid() == run->command->parent)
		return;
	run->orphan = true;
	if (!run->command->follow)
		prctl(PR_SET_CHILD_SUBREAPER, 1); /* processes that outlive the command become children of this one */
	/* If the scheduler has sent SIGTERM already, the command has had its time. */
	if (!hvd_signal_forward_had(run->forward, SIGTERM)) {
		hvd_child_signal(run, SIGTERM);
		hvd_timer_at(run->grace, hvd_deadline_in(run->command->kill_wait));
	} else {
		hvd_timer_in_ms(run->grace, REPORT_MS);
	}
}

/* All that a scheduler or a user may send. */
static void forwarded(sigset_t *set)
{
	static const int plain[] = {SIGHUP,  SIGINT,  SIGQUIT, SIGUSR1, SIGUSR2,
				    SIGTERM, SIGCONT, SIGTSTP, SIGXCPU, SIGWINCH};

	sigemptyset(set);
	for (size_t i = 0; i < sizeof(plain) / sizeof(plain[0]); i++)
		sigaddset(set, plain[i]);
	for (int sig = SIGRTMIN; sig <= SIGRTMAX; sig++)
		if (sig != ORPHAN_SIGNAL)
			sigaddset(set, sig);
}

static void on_signal(int sig, void *arg)
{
	struct hvd_child_process *run = arg;

	if (!run->ended)
		kill(run->group ? -run->group : run->pid, sig);
}

static void wait_for_end(struct hvd_child_process *run)
{
	struct event_base *base = run->command->base;
	struct hvd_signal_watch *child = hvd_signal_watch(base, SIGCHLD, on_child, run);
	struct hvd_signal_watch *orphan = hvd_signal_watch(base, ORPHAN_SIGNAL, on_orphan, run);
	sigset_t handled;

	sigemptyset(&handled);
	sigaddset(&handled, SIGCHLD);
	sigaddset(&handled, ORPHAN_SIGNAL);
	sigprocmask(SIG_UNBLOCK, &handled, NULL);
	/* The command may have ended before its signal was waited for; and something else may end the loop. */
	on_child(SIGCHLD, run);
	while (!run->ended && event_base_dispatch(base) == 0)
		;
	/* ORPHAN_SIGNAL must not end this process while it reports the end of the command. */
	sigprocmask(SIG_BLOCK, &handled, NULL);
	hvd_signal_unwatch(child);
	hvd_signal_unwatch(orphan);
	hvd_timer_free(run->grace);
}

int hvd_child_run(const struct hvd_child *command, int *status, struct hvd_err *err)
{
	struct hvd_spawn spawn = {.path = command->argv[0],
				  .argv = command->argv,
				  .envp = command->envp,
				  .keep_fds = 1,
				  .parent_death_signal = SIGKILL};
	struct hvd_child_process run = {.command = command};
	sigset_t all, set;
	int rc;

	if (command->key_fd)
		hvd_spawn_fd(&spawn, command->key_fd, command->key_fd);
	if (command->follow || command->adopts)
		prctl(PR_SET_CHILD_SUBREAPER, 1);
	forwarded(&set);
	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, NULL);
	if (!command->follow) {
		hvd_child_follow();
		if (getppid() != command->parent)
			raise(ORPHAN_SIGNAL); /* the parent ended before the kernel was asked for the signal */
	}
	if (command->own_group)
		spawn.group = &run.group;
	if (command->no_input)
		hvd_spawn_fd(&spawn, -1, STDIN_FILENO);
	rc = hvd_streams_open(&run.streams, command->base, (struct hvd_output_rank){command->rank, ""}, command->style,
			      NULL, command->tap, command->arg, &spawn, err);
	if (rc == 0)
		rc = (run.forward = hvd_signal_forward_create(command->base, &set, on_signal, &run, err)) ? 0 : -1;
	if (rc == 0)
		rc = (run.pid = hvd_spawn(&spawn, err)) < 0 ? -1 : 0;
	hvd_streams_started(&run.streams);
	if (rc == 0) {
		run.grace = hvd_timer_new(command->base, on_grace, &run);
		if (command->started)
			command->started(&run, run.pid, command->arg);
		wait_for_end(&run);
	}
	hvd_signal_forward_destroy(run.forward);
	if (rc == 0 && command->ended)
		command->ended(run.pid, run.status, command->arg);
	hvd_streams_close(&run.streams);
	*status = run.status;
	return rc;
}

bool hvd_child_signalled_with_us(int status)
{
	struct timespec moment = {.tv_nsec = HVD_SIGNAL_ROUND_MS * 1000000L};
	sigset_t one;

	if (!WIFSIGNALED(status))
		return false;
	sigemptyset(&one);
	sigaddset(&one, WTERMSIG(status));
	return sigtimedwait(&one, NULL, &moment) == WTERMSIG(status);
}

int hvd_child_mirror(int status)
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
