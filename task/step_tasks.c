/* SPDX-License-Identifier: Apache-2.0 */
#include "step_tasks.h"

#include "lib/base/xalloc.h"

#include <ctype.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* The parent and session of a process that runs. -1: it has ended. */
static int look_up(pid_t pid, pid_t *parent, pid_t *session)
{
	char path[64], text[512], state;
	const char *end;
	size_t n = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	f = fopen(path, "re");
	if (f) {
		n = fread(text, 1, sizeof(text) - 1, f);
		fclose(f);
	}
	text[n] = '\0';
	end = strrchr(text, ')'); /* of the program's name, which may have brackets */
	if (!end || sscanf(end + 1, " %c %d %*d %d", &state, parent, session) != 3)
		return -1;
	return state == 'Z' || state == 'X' ? -1 : 0;
}

static bool is_task(const struct hvd_step_tasks *tasks, pid_t pid)
{
	pid_t parent, session;

	return look_up(pid, &parent, &session) == 0 && parent == tasks->parent && session == tasks->session;
}

static void find_others(struct hvd_step_tasks *tasks)
{
	DIR *dir = opendir("/proc");
	const struct dirent *entry;

	tasks->others = hvd_xcalloc(1, sizeof(*tasks->others));
	while (dir && (entry = readdir(dir))) {
		pid_t pid = isdigit((unsigned char)entry->d_name[0]) ? (pid_t)atoi(entry->d_name) : 0;

		if (pid <= 0 || pid == tasks->task || !is_task(tasks, pid))
			continue;
		tasks->others = hvd_xrealloc(tasks->others, tasks->n + 1, sizeof(*tasks->others));
		tasks->others[tasks->n++] = pid;
	}
	if (dir)
		closedir(dir);
}

void hvd_step_tasks_init(struct hvd_step_tasks *tasks, pid_t task)
{
	*tasks = (struct hvd_step_tasks){.task = task};
	if (look_up(task, &tasks->parent, &tasks->session) != 0)
		tasks->parent = 0;
}

static int open_pid(pid_t pid)
{
	return (int)syscall(SYS_pidfd_open, pid, 0);
}

int hvd_step_tasks_next(struct hvd_step_tasks *tasks)
{
	int fd;

	/* The pidfd is opened before the process is looked up, as its number may be another process's by now. */
	if (!tasks->others && (fd = open_pid(tasks->task)) >= 0) {
		if (tasks->parent && is_task(tasks, tasks->task))
			return fd;
		close(fd);
	}
	if (!tasks->others && tasks->parent)
		find_others(tasks);
	while (tasks->at < tasks->n) {
		pid_t pid = tasks->others[tasks->at++];

		fd = open_pid(pid);
		if (fd >= 0 && is_task(tasks, pid))
			return fd;
		if (fd >= 0)
			close(fd);
	}
	return -1;
}

void hvd_step_tasks_clear(struct hvd_step_tasks *tasks)
{
	free(tasks->others);
	*tasks = (struct hvd_step_tasks){0};
}
