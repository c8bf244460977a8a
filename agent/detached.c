/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The processes, and who waits for whom:
 *
 *   hvd-agent shim, or plan ── leader ── watchdog ── detached process
 *
 * The leader begins the session, and ends at once; the first process reaps it. So init, or slurmstepd where it is a
 * subreaper, is the watchdog's parent. None of them calls exec: the detached process shares its code and the tables of
 * its libraries with the watchdog, and begins within a millisecond.
 */
#include "detached.h"

#include "lib/base/timer.h"
#include "lib/base/xalloc.h"
#include "lib/process/close_fds.h"
#include "process_name.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

/* How long the detached process may be stopped. */
#define STOPPED_SECONDS 10

/* ---- becoming a process that stays ---- */

/* SIGTSTP, SIGTTIN and SIGTTOU come to processes of a terminal's session only. */
static void ignore_signals(void)
{
	static const int ignored[] = {SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGPIPE, SIGALRM};

	for (size_t i = 0; i < sizeof(ignored) / sizeof(ignored[0]); i++)
		signal(ignored[i], SIG_IGN);
	signal(SIGCHLD, SIG_DFL);
}

static bool listed(int fd, const int *keep, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (keep[i] == fd)
			return true;
	return false;
}

/* Close all descriptors but the n in `keep` (0 = none): this process outlives its parent, and must hold nothing of the
 * parent's open. Descriptors 0, 1 and 2 become /dev/null. */
static void keep_fds(const int *keep, size_t n)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC), top = 2, from = 3;

	for (int fd = 0; fd < 3 && null >= 0; fd++)
		dup2(null, fd);
	for (size_t i = 0; i < n; i++)
		top = keep[i] > top ? keep[i] : top;
	for (int fd = 3; fd <= top; fd++)
		if (listed(fd, keep, n)) {
			hvd_close_fds((unsigned)from, (unsigned)fd - 1, false);
			from = fd + 1;
		}
	hvd_close_fds((unsigned)from, ~0U, false);
}

/* ---- the detached ---- */

/* A task's standard error is where its launch's messages are read. A task that does not read delays nothing. */
static void on_log(enum hvd_log_level level, const char *text, void *arg)
{
	const struct hvd_detached *self = arg;
	char path[64];
	struct hvd_log log = {.prog = self->log.prog, .level = self->log.level, .fd = self->err};
	pid_t task = self->task ? self->task : hvd_step_tasks_first(&self->tasks);

	snprintf(path, sizeof(path), "/proc/%d/fd/2", (int)task);
	if (!self->err)
		log.fd = task ? open(path, O_WRONLY | O_APPEND | O_NONBLOCK | O_NOCTTY | O_CLOEXEC) : -1;
	if (log.fd < 0)
		return;
	hvd_log(&log, level, "%s", text);
	if (!self->err)
		close(log.fd);
}

void hvd_detached_detach(struct hvd_detached *self)
{
	if (self->err)
		close(self->err);
	self->err = 0;
	if (chdir("/") != 0) /* the job's folder may be one that can be unmounted */
		_exit(1);
}

static void on_task_ended(evutil_socket_t fd, short what, void *arg)
{
	struct hvd_detached *self = arg;

	(void)fd;
	(void)what;
	if (hvd_step_tasks_left(&self->tasks))
		return;
	event_del(self->ended);
	self->over(self->arg);
}

bool hvd_detached_tasks_over(struct hvd_detached *self)
{
	if (hvd_step_tasks_left(&self->tasks))
		return false;
	event_active(self->ended, EV_READ, 0); /* the epoll instance does not tell of them again */
	return true;
}

void hvd_detached_unwatch(struct hvd_detached *self)
{
	hvd_event_unwatch(&self->ended);
}

void hvd_detached_watch(struct hvd_detached *self, struct event_base *base, void (*over)(void *arg), void *arg)
{
	self->over = over;
	self->arg = arg;
	self->ended = hvd_event_watch(base, self->tasks.fd, EV_READ | EV_PERSIST, on_task_ended, self);
	event_active(self->ended, EV_READ, 0); /* the tasks may have ended already */
}

/* Ends the parent, and waits until it has gone: what waits for this process's end may look for others that are left. */
static void end_watchdog(pid_t watchdog)
{
	struct timespec last = {.tv_nsec = HVD_DETACHED_LAST_MS * 1000000L};
	sigset_t gone;

	sigemptyset(&gone);
	sigaddset(&gone, SIGUSR1);
	sigprocmask(SIG_BLOCK, &gone, NULL);
	prctl(PR_SET_PDEATHSIG, SIGUSR1);
	/* A process that was killed is nobody's parent any longer, and another process may have its number. */
	if (!watchdog || getppid() != watchdog)
		return;
	kill(watchdog, SIGKILL);
	sigtimedwait(&gone, NULL, &last);
}

static void reside(struct hvd_detached *self, const struct hvd_detached_opts *opts, int tell)
{
	pid_t pid = getpid();

	hvd_process_describe("hvd-agent", "%s", opts->purpose);
	if (write(tell, &pid, sizeof(pid)) != (ssize_t)sizeof(pid))
		_exit(1);
	close(tell);
	if (hvd_step_tasks_open(&self->tasks, NULL) == 0)
		opts->run(self, opts->arg);
	end_watchdog(self->watchdog);
	_exit(0);
}

/* ---- the watchdog ---- */

static void on_child(int sig)
{
	(void)sig; /* it interrupts ppoll(2) */
}

static void watch_child(void)
{
	struct sigaction sa = {.sa_handler = on_child};
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGCHLD);
	sigprocmask(SIG_BLOCK, &set, NULL);
	sigaction(SIGCHLD, &sa, NULL);
}

static bool has_ended(pid_t detached)
{
	siginfo_t info = {0};

	return waitid(P_PID, (id_t)detached, &info, WEXITED | WNOWAIT | WNOHANG) == 0 && info.si_pid == detached;
}

/* Wait until a task may have ended, or the detached has ended, was stopped or continued; perhaps without a reason. *stopped
 * is since when somebody has it stopped (SIGSTOP, as by pkill -STOP), 0 = it is not: the ranks would wait for it until
 * PyTorch's timeout, so after a while it is continued. */
static void wait_for_change(const struct hvd_step_tasks *tasks, pid_t detached, hvd_time *stopped)
{
	struct pollfd ends = {.fd = tasks->fd, .events = POLLIN};
	struct timespec left = {0};
	siginfo_t info = {0};
	sigset_t set;

	if (waitid(P_PID, (id_t)detached, &info, WSTOPPED | WCONTINUED | WNOHANG) == 0 && info.si_pid)
		*stopped = info.si_code == CLD_STOPPED ? hvd_now() : 0;
	if (*stopped) {
		hvd_time end = *stopped + (hvd_time)STOPPED_SECONDS * 1000000000;

		left.tv_sec = hvd_left_ms(end) / 1000;
		left.tv_nsec = hvd_left_ms(end) % 1000 * 1000000;
		if (hvd_left(end) <= 0) {
			kill(detached, SIGCONT);
			*stopped = 0;
			return;
		}
	}
	sigprocmask(SIG_SETMASK, NULL, &set);
	sigdelset(&set, SIGCHLD);
	ppoll(&ends, 1, *stopped ? &left : NULL, &set);
}

/* Returns false if the detached has ended before the tasks. */
static bool wait_for_end(struct hvd_step_tasks *tasks, pid_t detached)
{
	struct timespec last = {.tv_nsec = HVD_DETACHED_LAST_MS * 1000000L};
	hvd_time stopped = 0;
	sigset_t ended;
	bool left;

	watch_child();
	while ((left = hvd_step_tasks_left(tasks)) && !has_ended(detached))
		wait_for_change(tasks, detached, &stopped);
	if (left)
		return false;
	sigemptyset(&ended);
	sigaddset(&ended, SIGCHLD);
	if (!has_ended(detached))
		sigtimedwait(&ended, NULL, &last);
	kill(detached, SIGKILL);
	return true;
}

static void stand_by(const struct hvd_detached_opts *opts, struct hvd_step_tasks *tasks, pid_t detached)
{
	hvd_process_describe("hvd-watchdog", "guards hvd-agent %d", (int)detached);
	keep_fds(&opts->backup_fd, 1);
	if (chdir("/") != 0)
		_exit(1);
	if (hvd_step_tasks_open(tasks, NULL) == 0 && !wait_for_end(tasks, detached)) {
		int status = 0;

		waitpid(detached, &status, 0);
		if (opts->lost)
			opts->lost(detached, status, opts->backup_fd, tasks, opts->arg);
		detached = 0;
	}
	if (detached)
		kill(detached, SIGKILL);
	_exit(0);
}

/* `tell` gets the detached's pid. */
static void watch(struct hvd_detached *self, const struct hvd_detached_opts *opts, int tell)
{
	struct hvd_step_tasks tasks = self->tasks;
	int *keep = hvd_xcalloc(opts->n_keep + 3, sizeof(*keep));
	pid_t detached;

	if (opts->n_keep > 0)
		memcpy(keep, opts->keep, opts->n_keep * sizeof(*keep));
	keep[opts->n_keep] = self->err;
	keep[opts->n_keep + 1] = opts->backup_fd;
	keep[opts->n_keep + 2] = tell;
	ignore_signals();
	keep_fds(keep, opts->n_keep + 3);
	free(keep);
	self->watchdog = getpid();
	detached = fork();
	if (detached < 0) /* go on without a watchdog */
		self->watchdog = 0;
	if (detached <= 0) {
		if (opts->backup_fd)
			close(opts->backup_fd);
		reside(self, opts, tell);
	}
	stand_by(opts, &tasks, detached);
}

/* Read the pid that the detached writes. 0: it has ended. */
static pid_t read_pid(int fd)
{
	pid_t pid;
	ssize_t n;

	do
		n = read(fd, &pid, sizeof(pid));
	while (n < 0 && errno == EINTR);
	return n == (ssize_t)sizeof(pid) ? pid : 0;
}

pid_t hvd_detached_start(const struct hvd_detached_opts *opts, struct hvd_err *err)
{
	struct hvd_detached self = {.log = *opts->log, .tasks = opts->tasks};
	int status, pid_pipe[2];
	pid_t leader, pid;

	self.log.sink = on_log;
	self.log.arg = &self;
	if (pipe2(pid_pipe, O_CLOEXEC) != 0)
		return hvd_err_sys(err, "cannot make a pipe");
	self.err = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
	if (self.err < 0)
		self.err = 0;
	leader = fork();
	if (leader == 0) {
		setsid();
		leader = fork();
		if (leader == 0)
			watch(&self, opts, pid_pipe[1]);
		_exit(leader < 0 ? errno : 0);
	}
	close(pid_pipe[1]);
	if (self.err)
		close(self.err);
	while (leader > 0 && waitpid(leader, &status, 0) < 0 && errno == EINTR)
		;
	pid = leader > 0 ? read_pid(pid_pipe[0]) : 0;
	close(pid_pipe[0]);
	if (pid > 0)
		return pid;
	if (leader > 0)
		errno = WIFEXITED(status) && WEXITSTATUS(status) ? WEXITSTATUS(status) : ECHILD;
	return hvd_err_sys(err, "cannot fork");
}
