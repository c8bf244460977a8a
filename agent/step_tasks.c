/* SPDX-License-Identifier: Apache-2.0 */
#include "step_tasks.h"

#include "lib/base/xalloc.h"
#include "lib/process/process_watch.h"
#include "lib/process/procfs.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

/* How often processes are looked at that have no pidfd. */
#define TICK_MS 200

struct hvd_step_task {
	pid_t pid; /* 0: what has started the tasks */
	int fd;    /* a pidfd; -1 = there are none */
};

static bool runs_at_all(pid_t pid, struct hvd_process *process)
{
	return hvd_process_read(pid, process) == 0 && process->state != 'Z' && process->state != 'X';
}

static bool is_task(const struct hvd_step_tasks *tasks, pid_t pid)
{
	struct hvd_process process;

	return runs_at_all(pid, &process) && process.parent == tasks->parent && process.session == tasks->session;
}

/* Do they run, and are they not others that have got their numbers since? A task whose parent has ended gets another
 * parent, but stays in its session. /proc may hide other users' processes, as slurmstepd is. */
static bool runs(const struct hvd_step_tasks *tasks, pid_t pid)
{
	struct hvd_process process;

	if (pid != 0)
		return runs_at_all(pid, &process) && process.session == tasks->session;
	if (hvd_process_read(tasks->parent, &process) == 0)
		return process.state != 'Z' && process.state != 'X';
	return kill(tasks->parent, 0) == 0 || errno == EPERM;
}

/* `fd`: its pidfd, which is taken; -1 where there are none. */
static void add(struct hvd_step_tasks *tasks, pid_t pid, int fd)
{
	struct epoll_event ev = {.events = EPOLLIN, .data.fd = fd};

	if (!tasks->ticks && epoll_ctl(tasks->fd, EPOLL_CTL_ADD, fd, &ev) != 0) {
		close(fd);
		return;
	}
	tasks->all = hvd_xrealloc(tasks->all, tasks->n + 1, sizeof(*tasks->all));
	tasks->all[tasks->n++] = (struct hvd_step_task){pid, fd};
}

static bool has(const struct hvd_step_tasks *tasks, pid_t pid)
{
	for (size_t i = 0; i < tasks->n; i++)
		if (tasks->all[i].pid == pid)
			return true;
	return false;
}

static void consider(struct hvd_step_tasks *tasks, pid_t pid)
{
	int fd;

	if (pid <= 0 || has(tasks, pid) || !is_task(tasks, pid))
		return;
	fd = tasks->ticks ? -1 : hvd_pidfd_open(pid);
	/* Its number may be another process's by the time that the pidfd is opened, so look again. */
	if (fd >= 0 && !is_task(tasks, pid))
		close(fd);
	else if (fd >= 0 || tasks->ticks)
		add(tasks, pid, fd);
}

static void find_in_proc(struct hvd_step_tasks *tasks)
{
	DIR *dir = opendir("/proc");
	const struct dirent *entry;

	while (dir && (entry = readdir(dir)))
		if (isdigit((unsigned char)entry->d_name[0]))
			consider(tasks, (pid_t)atoi(entry->d_name));
	if (dir)
		closedir(dir);
}

/* A kernel that tells a process' children (CONFIG_PROC_CHILDREN) spares a look at all processes of the host. */
static void find_others(struct hvd_step_tasks *tasks)
{
	struct hvd_pids pids = {0};

	if (!tasks->parent || !tasks->task)
		return;
	if (access("/proc/thread-self/children", F_OK) != 0) {
		find_in_proc(tasks);
		return;
	}
	hvd_pids_add_children(&pids, tasks->parent);
	for (size_t i = 0; i < pids.n; i++)
		consider(tasks, pids.v[i]);
	free(pids.v);
}

void hvd_step_tasks_init(struct hvd_step_tasks *tasks, pid_t task)
{
	struct hvd_process process;

	*tasks = (struct hvd_step_tasks){.task = task};
	if (!runs_at_all(task, &process))
		return;
	tasks->parent = process.parent;
	tasks->session = process.session;
}

int hvd_step_tasks_open(struct hvd_step_tasks *tasks, struct hvd_err *err)
{
	int self = hvd_pidfd_open(getpid());

	tasks->ticks = self < 0;
	if (self >= 0)
		close(self);
	tasks->fd = tasks->ticks ? hvd_ticks_open(TICK_MS) : epoll_create1(EPOLL_CLOEXEC);
	if (tasks->fd < 0) {
		tasks->fd = 0;
		return hvd_err_sys(err, "cannot watch processes");
	}
	/* A task that has ended already is no failure: others may run. */
	if (tasks->task)
		consider(tasks, tasks->task);
	if (tasks->parent) {
		int parent = tasks->ticks ? -1 : hvd_pidfd_open(tasks->parent);

		if (parent >= 0 || tasks->ticks)
			add(tasks, 0, parent);
	}
	find_others(tasks);
	return 0;
}

static void forget(struct hvd_step_tasks *tasks, size_t i)
{
	if (tasks->all[i].pid == 0)
		tasks->orphaned = true;
	tasks->all[i] = tasks->all[--tasks->n];
}

/* Forget the pidfd of a process that has ended. */
static void drop(struct hvd_step_tasks *tasks, int fd)
{
	for (size_t i = 0; i < tasks->n; i++) {
		if (tasks->all[i].fd != fd)
			continue;
		forget(tasks, i);
		break;
	}
	/* A process that was forked since may hold the pidfd, too, which would stay in the epoll instance. */
	epoll_ctl(tasks->fd, EPOLL_CTL_DEL, fd, NULL);
	close(fd);
}

/* Look at all. */
static void tick(struct hvd_step_tasks *tasks)
{
	uint64_t times;

	if (read(tasks->fd, &times, sizeof(times)) < 0 && errno != EAGAIN)
		return;
	for (size_t i = 0; i < tasks->n;)
		if (runs(tasks, tasks->all[i].pid))
			i++;
		else
			forget(tasks, i);
}

pid_t hvd_step_tasks_first(const struct hvd_step_tasks *tasks)
{
	pid_t first = 0;

	for (size_t i = 0; i < tasks->n; i++)
		if (tasks->all[i].pid == tasks->task || !first)
			first = tasks->all[i].pid;
	return first;
}

bool hvd_step_tasks_left(struct hvd_step_tasks *tasks)
{
	struct epoll_event evs[32];
	int n;

	if (tasks->ticks)
		tick(tasks);
	while (!tasks->ticks && (n = epoll_wait(tasks->fd, evs, 32, 0)) > 0)
		for (int i = 0; i < n; i++)
			drop(tasks, evs[i].data.fd);
	if (tasks->orphaned || !tasks->task)
		return !tasks->orphaned;
	if (!hvd_step_tasks_first(tasks))
		find_others(tasks);
	return hvd_step_tasks_first(tasks) != 0;
}

void hvd_step_tasks_kill(const struct hvd_step_tasks *tasks)
{
	for (size_t i = 0; i < tasks->n; i++) {
		struct hvd_process process;
		pid_t pid = tasks->all[i].pid, group;

		/* Their parent is another one by now, but not their session. */
		if (pid == 0 || !runs_at_all(pid, &process) || process.session != tasks->session)
			continue;
		group = getpgid(pid);
		kill(group > 1 && group != getpgrp() ? -group : pid, SIGKILL);
		kill(pid, SIGKILL);
	}
}

void hvd_step_tasks_clear(struct hvd_step_tasks *tasks)
{
	for (size_t i = 0; i < tasks->n; i++)
		if (tasks->all[i].fd >= 0)
			close(tasks->all[i].fd);
	free(tasks->all);
	if (tasks->fd > 0)
		close(tasks->fd);
	*tasks = (struct hvd_step_tasks){0};
}
