/* SPDX-License-Identifier: Apache-2.0 */
#include "input_wait.h"

#include "lib/base/cleanup.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>

#define TTY_MAJOR   4
#define PTY_MAJOR   136 /* and the seven after it */
#define PTY_MAJOR_N 8

/* The functions in which readers sleep, in the kernels since 3.10; no other kind of file makes a reader wait for a
 * user. Readers of TCP also sleep in wait_woken. */
static const char *const of_terminal[] = {"n_tty_read", "wait_woken", NULL};
static const char *const of_pipe[] = {"pipe_read", "anon_pipe_read",     "fifo_pipe_read",
				      "pipe_wait", "pipe_wait_readable", NULL};
static const char *const of_socket[] = {"unix_stream_read_generic", "unix_stream_data_wait", NULL};

static const char *const *readers(const struct stat *st)
{
	unsigned kind = S_ISCHR(st->st_mode) ? major(st->st_rdev) : 0;

	if (kind == TTY_MAJOR || (kind >= PTY_MAJOR && kind < PTY_MAJOR + PTY_MAJOR_N))
		return of_terminal;
	if (S_ISFIFO(st->st_mode))
		return of_pipe;
	return S_ISSOCK(st->st_mode) ? of_socket : NULL;
}

static bool stdin_of(pid_t pid, struct stat *st)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/fd/0", (int)pid);
	return stat(path, st) == 0;
}

static bool read_line(pid_t pid, const char *file, char *line, int room)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, file);
	hvd_cleanup_fclose FILE *f = fopen(path, "re");
	return f && fgets(line, room, f);
}

/* "NUMBER ARG1 …", or "running". A select(2) of one descriptor is of the first: readline waits so. */
static bool reads_stdin(const char *call)
{
	unsigned long first;
	long number;

	if (sscanf(call, "%ld 0x%lx", &number, &first) != 2)
		return false;
#ifdef SYS_select
	if (number == SYS_select && first == 1)
		return true;
#endif
	return ((number == SYS_read || number == SYS_readv) && first == 0) || (number == SYS_pselect6 && first == 1);
}

bool hvd_waits_for_input(pid_t pid, pid_t rank)
{
	const char *const *functions;
	struct stat own, ranks;
	char line[256];

	if (!stdin_of(pid, &own) || !(functions = readers(&own)) || !stdin_of(rank, &ranks) ||
	    own.st_ino != ranks.st_ino || own.st_dev != ranks.st_dev)
		return false;
	if (read_line(pid, "syscall", line, sizeof(line)))
		return reads_stdin(line);
	if (!read_line(pid, "wchan", line, sizeof(line)))
		return false;
	for (; *functions; functions++)
		if (strcmp(line, *functions) == 0)
			return true;
	return false;
}
