/* SPDX-License-Identifier: Apache-2.0 */
#include "spawn.h"

#include "close_fds.h"
#include "lib/base/signals.h"
#include "lib/base/strv.h"
#include "lib/base/xalloc.h"
#include "process_watch.h"
#include "program.h"
#include "rlimits.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* The stack for become(), which has no large variables. */
#define MEMBER_STACK 65536

extern char **environ;

/* What the child needs, prepared before it exists. */
struct prepared {
	const struct hvd_spawn *sp;
	char **paths; /* where the program may be, in the order of PATH; NULL-terminated */
	char *const *envp;
	pid_t parent;
	int report_fd; /* the child writes its errno there; -1 = there is no child (hvd_exec) */
	char *stack;   /* for a child in a group without a leader (hvd_spawn.group), until its exec; NULL = none */
	pid_t member;  /* the pid of such a child; -1 = none */
};

void hvd_spawn_fd(struct hvd_spawn *sp, int parent_fd, int child_fd)
{
	assert(sp->n_fds < HVD_SPAWN_MAX_FDS);
	sp->parent_fd[sp->n_fds] = parent_fd;
	sp->child_fd[sp->n_fds++] = child_fd;
}

void hvd_default_signals(void)
{
	struct sigaction sa;
	sigset_t none;

	memset(&sa, 0, sizeof(sa));
	sa.sa_handler = SIG_DFL;
	for (int sig = 1; sig < NSIG; sig++)
		sigaction(sig, &sa, NULL); /* fails for KILL and STOP, as it should */
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
}

/* Copy every descriptor to its number in the child, and close the others. All are first moved to numbers above those,
 * so that no copy overwrites a descriptor that is still needed. */
static int arrange_fds(const struct hvd_spawn *sp, int *report_fd)
{
	int tmp[HVD_SPAWN_MAX_FDS];
	int top = 2;

	for (int i = 0; i < sp->n_fds; i++)
		if (sp->child_fd[i] > top)
			top = sp->child_fd[i];
	if (*report_fd >= 0) {
		int moved = fcntl(*report_fd, F_DUPFD_CLOEXEC, top + 1);

		if (moved < 0)
			return -1;
		*report_fd = moved;
	}
	for (int i = 0; i < sp->n_fds; i++) {
		int from = sp->parent_fd[i];

		if (from < 0)
			from = open("/dev/null", O_RDWR | O_CLOEXEC);
		tmp[i] = from < 0 ? -1 : fcntl(from, F_DUPFD_CLOEXEC, top + 1);
		if (tmp[i] < 0)
			return -1;
	}
	for (int i = 0; i < sp->n_fds; i++)
		if (dup2(tmp[i], sp->child_fd[i]) < 0)
			return -1;
	if (sp->keep_fds)
		return 0;
	for (int fd = 3; fd <= top; fd++) {
		int wanted = 0;

		for (int i = 0; i < sp->n_fds; i++)
			wanted |= sp->child_fd[i] == fd;
		if (!wanted)
			close(fd);
	}
	/* Descriptors above, the report pipe among them, stay open until the exec closes them. */
	hvd_close_fds((unsigned)top + 1, ~0U, true);
	return 0;
}

static int set_nofile(unsigned long soft)
{
	struct rlimit rl;

	if (getrlimit(RLIMIT_NOFILE, &rl) != 0)
		return -1;
	rl.rlim_cur = soft;
	return setrlimit(RLIMIT_NOFILE, &rl);
}

/* Become the program: in the child, or for hvd_exec() in this process. Returns the errno of the failure. */
static int become(struct prepared *pr)
{
	const struct hvd_spawn *sp = pr->sp;
	int best = ENOENT;

	if (pr->report_fd >= 0)
		hvd_default_signals();
	if (sp->ignore_ends) {
		signal(SIGINT, SIG_IGN);
		signal(SIGTERM, SIG_IGN);
		signal(SIGHUP, SIG_IGN);
	}
	if (sp->ignore_user) {
		signal(SIGQUIT, SIG_IGN);
		signal(SIGUSR1, SIG_IGN);
		signal(SIGUSR2, SIG_IGN);
	}
	if (sp->new_session)
		setsid();
	else if (sp->new_group)
		setpgid(0, 0);
	else if (sp->join_group && setpgid(0, sp->join_group) != 0)
		return errno;
	if (sp->parent_death_signal) {
		if (prctl(PR_SET_PDEATHSIG, sp->parent_death_signal) != 0)
			return errno;
		if (pr->report_fd >= 0 && getppid() != pr->parent)
			return ESRCH; /* the parent died before the kernel was asked for the signal */
	}
	if (sp->root_fd > 0 && (fchdir(sp->root_fd) != 0 || chroot(".") != 0))
		return errno;
	if (sp->cpus && sched_setaffinity(0, sizeof(*sp->cpus), sp->cpus) != 0)
		return errno;
	if (arrange_fds(sp, &pr->report_fd) != 0)
		return errno;
	/* This comes after arrange_fds(), which needs descriptors beyond the child's limit. */
	if (sp->nofile && set_nofile(sp->nofile) != 0)
		return errno;
	if (sp->cwd && chdir(sp->cwd) != 0)
		return errno;
	for (char **path = pr->paths; *path; path++) {
		execve(*path, sp->argv, pr->envp);
		if (errno != ENOENT && errno != ENOTDIR && errno != EACCES)
			return errno;
		if (errno == EACCES || !pr->paths[1])
			best = errno;
	}
	return best;
}

/* A path is not looked at if the child's directory or root is not this process's. */
static int cannot_run(const struct prepared *pr, int error, struct hvd_err *err)
{
	const struct hvd_spawn *sp = pr->sp;

	errno = error;
	hvd_err_sys(err, "cannot run %s", sp->path);
	hvd_limits_explain(error, err);
	if (!strchr(sp->path, '/') || (sp->root_fd <= 0 && !sp->cwd))
		hvd_program_explain(sp->path, pr->envp, error, err);
	errno = error;
	return -1;
}

static int member(void *arg)
{
	struct prepared *pr = arg;
	int error = become(pr);

	return write(pr->report_fd, &error, sizeof(error)) == sizeof(error) ? 127 : 126;
}

/* In a child that only creates the group. It starts the member as its sibling, a child of this process, that is in the
 * group from its first moment; then it ends. CLONE_VFORK has it wait for the member's exec. */
static _Noreturn void lead(struct prepared *pr)
{
	int error = 0;

	if (setpgid(0, 0) != 0)
		error = errno;
	else if ((pr->member = clone(member, pr->stack + MEMBER_STACK, CLONE_VM | CLONE_VFORK | CLONE_PARENT | SIGCHLD,
				     pr)) < 0)
		error = errno;
	if (error && write(pr->report_fd, &error, sizeof(error)) != sizeof(error))
		_exit(126);
	_exit(0);
}

/*
 * Until the exec the child shares the memory of this process, and the calling thread waits: nothing is copied, whatever
 * the size of this process. become() changes nothing in memory but `pr` and errno; descriptors, signal dispositions,
 * limits and the directory are the child's own. This function needs a stack frame of its own, which the child does not
 * leave.
 */
static __attribute__((noinline)) pid_t start(struct prepared *pr)
{
	pid_t pid = vfork();

	if (pid == 0) {
		int error;

		if (pr->stack)
			lead(pr);
		error = become(pr);

		if (write(pr->report_fd, &error, sizeof(error)) != sizeof(error))
			_exit(126);
		_exit(127);
	}
	return pid;
}

static void reap(pid_t pid)
{
	while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
}

pid_t hvd_spawn(const struct hvd_spawn *sp, struct hvd_err *err)
{
	struct prepared pr = {.sp = sp, .envp = sp->envp ? sp->envp : environ, .parent = getpid(), .member = -1};
	struct hvd_strv paths = {0};
	sigset_t all, old;
	int report[2], error = 0;
	ssize_t n;
	pid_t pid;

	if (pipe2(report, O_CLOEXEC) != 0) {
		error = errno;
		hvd_err_sys(err, "cannot make a pipe to start %s", sp->path);
		hvd_limits_explain(error, err);
		return -1;
	}
	hvd_program_paths(&paths, sp->path, pr.envp);
	pr.paths = paths.v;
	pr.report_fd = report[1];

	/* No signal handler of this process may run in the child. */
	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, &old);
	if (sp->group)
		pr.stack = hvd_xcalloc(1, MEMBER_STACK);
	pid = start(&pr);
	error = errno;
	sigprocmask(SIG_SETMASK, &old, NULL);
	close(report[1]);
	hvd_strv_free(&paths);
	free(pr.stack);
	if (pid < 0) {
		close(report[0]);
		return cannot_run(&pr, error, err);
	}
	if (sp->group) {
		*sp->group = pid;
		reap(pid);
		pid = pr.member;
	}
	do
		n = read(report[0], &error, sizeof(error));
	while (n < 0 && errno == EINTR);
	close(report[0]);
	if (n == sizeof(error)) {
		if (pid > 0)
			reap(pid);
		return cannot_run(&pr, error, err);
	}
	return pid;
}

int hvd_exec(const struct hvd_spawn *sp, struct hvd_err *err)
{
	struct prepared pr = {.sp = sp, .envp = sp->envp ? sp->envp : environ, .report_fd = -1};
	struct hvd_strv paths = {0};
	int error;

	hvd_program_paths(&paths, sp->path, pr.envp);
	pr.paths = paths.v;
	hvd_default_signals();
	error = become(&pr);
	hvd_strv_free(&paths);
	return cannot_run(&pr, error, err);
}

int hvd_wait(pid_t pid, hvd_time deadline, int *status, struct hvd_err *err)
{
	struct pollfd pfd = {.fd = hvd_child_watch(pid), .events = POLLIN};
	int rc, wstatus = 0;
	bool ended;

	if (pfd.fd < 0)
		return hvd_err_sys(err, "cannot watch process %d", (int)pid);
	do {
		ended = hvd_child_ended(pfd.fd, pid);
		rc = ended ? 1 : poll(&pfd, 1, hvd_left_ms(deadline));
	} while (!ended && (rc > 0 || (rc < 0 && errno == EINTR)));
	close(pfd.fd);
	if (!ended)
		return hvd_err_set(err, HVD_E_TIMEOUT, "process %d is still running", (int)pid);
	while (waitpid(pid, &wstatus, 0) < 0) {
		if (errno != EINTR)
			return hvd_err_sys(err, "cannot wait for process %d", (int)pid);
	}
	if (status)
		*status = wstatus;
	return 0;
}

void hvd_end(pid_t pid, double grace, int *status)
{
	if (pid <= 0)
		return;
	kill(pid, SIGTERM);
	if (hvd_wait(pid, hvd_deadline_in(grace), status, NULL) == 0)
		return;
	kill(pid, SIGKILL);
	hvd_wait(pid, hvd_deadline_in(5), status, NULL);
}

int hvd_kill_children(void)
{
	char path[64], text[4096];
	int fd, n_killed = 0;
	ssize_t n;
	long pid;

	snprintf(path, sizeof(path), "/proc/self/task/%d/children", (int)getpid());
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return 0;
	n = read(fd, text, sizeof(text) - 1);
	close(fd);
	text[n > 0 ? n : 0] = '\0';
	for (char *p = text, *end; (pid = strtol(p, &end, 10)), end != p; p = end)
		n_killed += pid > 0 && kill((pid_t)pid, SIGKILL) == 0;
	return n_killed;
}

void hvd_kill_adopted(void)
{
	struct timespec moment = {.tv_nsec = 10000000};

	for (int tries = 0; tries < 100 && hvd_kill_children() > 0; tries++) {
		nanosleep(&moment, NULL);
		while (waitpid(-1, NULL, WNOHANG) > 0)
			;
	}
}

const char *hvd_status_text(int status, char *buf, size_t len)
{
	if (WIFSIGNALED(status)) {
		const char *name = hvd_signal_name(WTERMSIG(status));

		snprintf(buf, len, "killed by signal %d (%s%s)", WTERMSIG(status), name ? "SIG" : "",
			 name ? name : "?");
	} else {
		snprintf(buf, len, "exit code %d", WEXITSTATUS(status));
	}
	return buf;
}

int hvd_status_exit(int status)
{
	return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}
