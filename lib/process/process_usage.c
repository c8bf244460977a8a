/* SPDX-License-Identifier: Apache-2.0 */
#include "process_usage.h"

#include "lib/base/cleanup.h"
#include "lib/base/xalloc.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MAX_PROCESSES 65536
/* PF_EXITING of the kernel's include/linux/sched.h. */
#define EXITING 0x4

/* The file's text, at most room - 1 bytes of it. -1: it cannot be read. */
static int read_text(pid_t pid, const char *file, char *text, size_t room)
{
	char path[64];
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, file);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -1;
	n = read(fd, text, room - 1);
	close(fd);
	if (n <= 0)
		return -1;
	text[n] = '\0';
	return 0;
}

int hvd_process_parse(const char *text, struct hvd_process *process)
{
	const char *end = strrchr(text, ')'); /* of the program's name, which may have brackets */
	unsigned long long user, sys;
	unsigned flags;
	long long children_user, children_sys;
	int64_t tick = 1000000000 / sysconf(_SC_CLK_TCK);

	if (!end || sscanf(text, "%d", &process->pid) != 1 ||
	    sscanf(end + 1, " %c %d %d %d %*d %*d %u %*u %*u %" SCNu64 " %*u %llu %llu %lld %lld", &process->state,
		   &process->parent, &process->group, &process->session, &flags, &process->faults, &user, &sys,
		   &children_user, &children_sys) != 10)
		return -1;
	process->ending = process->state == 'Z' || (flags & EXITING);
	process->cpu_ns =
		(int64_t)(user + sys + (unsigned long long)children_user + (unsigned long long)children_sys) * tick;
	return 0;
}

int hvd_process_read(pid_t pid, struct hvd_process *process)
{
	char text[1024];

	return read_text(pid, "stat", text, sizeof(text)) == 0 ? hvd_process_parse(text, process) : -1;
}

int hvd_process_io(pid_t pid, struct hvd_process_io *io)
{
	unsigned long long rchar, wchar, syscw, in, out;
	char text[512];

	if (read_text(pid, "io", text, sizeof(text)) != 0 ||
	    sscanf(text, "rchar: %llu wchar: %llu syscr: %*u syscw: %llu read_bytes: %llu write_bytes: %llu", &rchar,
		   &wchar, &syscw, &in, &out) != 5)
		return -1;
	*io = (struct hvd_process_io){.bytes = rchar + in + out, .written = wchar, .writes = syscw};
	return 0;
}

static int by_pid(const void *a, const void *b)
{
	const struct hvd_process *x = a, *y = b;

	return (x->pid > y->pid) - (x->pid < y->pid);
}

bool hvd_processes_read(struct hvd_processes *ps, size_t most)
{
	struct dirent *de = NULL;

	if (!ps->dir)
		ps->dir = opendir("/proc");
	while (ps->dir && most-- > 0 && ps->n < MAX_PROCESSES && (de = readdir(ps->dir))) {
		pid_t pid = (pid_t)atoi(de->d_name);

		if (pid <= 0)
			continue;
		if (ps->n == ps->room) {
			ps->room = ps->room ? 2 * ps->room : 256;
			ps->v = hvd_xrealloc(ps->v, ps->room, sizeof(*ps->v));
		}
		ps->n += hvd_process_read(pid, &ps->v[ps->n]) == 0;
	}
	if (de && ps->n < MAX_PROCESSES)
		return false;
	if (ps->dir)
		closedir(ps->dir);
	ps->dir = NULL;
	if (ps->n)
		qsort(ps->v, ps->n, sizeof(*ps->v), by_pid);
	return true;
}

const struct hvd_process *hvd_processes_find(const struct hvd_processes *ps, pid_t pid)
{
	struct hvd_process key = {.pid = pid};

	return ps->n ? bsearch(&key, ps->v, ps->n, sizeof(*ps->v), by_pid) : NULL;
}

void hvd_processes_clear(struct hvd_processes *ps)
{
	if (ps->dir)
		closedir(ps->dir);
	free(ps->v);
	memset(ps, 0, sizeof(*ps));
}
