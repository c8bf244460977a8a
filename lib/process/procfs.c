/* SPDX-License-Identifier: Apache-2.0 */
#include "procfs.h"

#include "lib/base/cleanup.h"
#include "lib/base/file.h"
#include "lib/base/xalloc.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <time.h>
#include <unistd.h>

/* Bytes that are read of a stat file: more than there are in front of the last field that is used. */
#define STAT_MAX 1024
/* Entries of a folder that are read. */
#define MOST_THREADS  65536
#define MOST_FILES    65536
#define MAX_PROCESSES 65536
/* PF_EXITING of the kernel's include/linux/sched.h. */
#define EXITING 0x4
/* PF_KTHREAD. */
#define KERNEL_THREAD 0x00200000

/* ---- what processes have used ---- */

/* The file's text, at most room - 1 bytes of it. False: it cannot be read. */
static bool read_text(pid_t pid, const char *file, char *text, size_t room)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, file);
	return hvd_read_start(path, text, room - 1);
}

int hvd_process_parse(const char *text, struct hvd_process *process)
{
	const char *end = strrchr(text, ')'); /* of the program's name, which may have brackets */
	unsigned long long user, sys;
	unsigned flags;
	long long children_user, children_sys, pages;
	int64_t tick = 1000000000 / sysconf(_SC_CLK_TCK);

	if (!end || sscanf(text, "%d", &process->pid) != 1 ||
	    sscanf(end + 1,
		   " %c %d %d %d %*d %*d %u %*u %*u %" SCNu64 " %*u %llu %llu %lld %lld %*d %*d %u %*d %*u %*u %lld",
		   &process->state, &process->parent, &process->group, &process->session, &flags, &process->faults,
		   &user, &sys, &children_user, &children_sys, &process->threads, &pages) != 12)
		return -1;
	process->memory = pages > 0 ? (uint64_t)pages * (uint64_t)sysconf(_SC_PAGESIZE) : 0;
	process->kernel = flags & KERNEL_THREAD;
	process->ending = process->state == 'Z' || (flags & EXITING);
	process->cpu_ns =
		(int64_t)(user + sys + (unsigned long long)children_user + (unsigned long long)children_sys) * tick;
	return 0;
}

int hvd_process_read(pid_t pid, struct hvd_process *process)
{
	char text[STAT_MAX];

	return read_text(pid, "stat", text, sizeof(text)) ? hvd_process_parse(text, process) : -1;
}

int hvd_process_io(pid_t pid, struct hvd_process_io *io)
{
	unsigned long long rchar, wchar, syscw, in, out;
	char text[512];

	if (!read_text(pid, "io", text, sizeof(text)) ||
	    sscanf(text, "rchar: %llu wchar: %llu syscr: %*u syscw: %llu read_bytes: %llu write_bytes: %llu", &rchar,
		   &wchar, &syscw, &in, &out) != 5)
		return -1;
	*io = (struct hvd_process_io){.read = rchar, .bytes = rchar + in + out, .written = wchar, .writes = syscw};
	return 0;
}

int64_t hvd_thread_cpu_ns(void)
{
	struct timespec used;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
	return used.tv_sec * 1000000000LL + used.tv_nsec;
}

static int by_pid(const void *a, const void *b)
{
	const struct hvd_process *x = a, *y = b;

	return (x->pid > y->pid) - (x->pid < y->pid);
}

void hvd_kernel_threads_clear(struct hvd_kernel_threads *threads)
{
	free(threads->v);
	memset(threads, 0, sizeof(*threads));
}

/* Is it a thread of the kernel that the last scan has found? Both scans go through /proc in the order of pids. */
static bool is_known(struct hvd_processes *ps, pid_t pid, ino_t inode)
{
	const struct hvd_kernel_threads *kernel = ps->kernel;

	while (kernel && ps->known < kernel->n && kernel->v[ps->known].pid < pid)
		ps->known++;
	return kernel && ps->known < kernel->n && kernel->v[ps->known].pid == pid &&
	       kernel->v[ps->known].inode == inode;
}

static void add_kernel_thread(struct hvd_kernel_threads *threads, pid_t pid, ino_t inode)
{
	threads->v = hvd_xgrow(threads->v, threads->n, &threads->room, sizeof(*threads->v));
	threads->v[threads->n++] = (struct hvd_kernel_thread){.pid = pid, .inode = inode};
}

static void add_process(struct hvd_processes *ps, pid_t pid, ino_t inode)
{
	bool known = is_known(ps, pid, inode);

	if (!known) {
		ps->v = hvd_xgrow(ps->v, ps->n, &ps->room, sizeof(*ps->v));
		if (hvd_process_read(pid, &ps->v[ps->n]) != 0)
			return;
		known = ps->v[ps->n].kernel;
	}
	if (!known)
		ps->n++;
	else if (ps->kernel && inode > 1) /* 1: the kernel had no memory for it */
		add_kernel_thread(&ps->found, pid, inode);
}

bool hvd_processes_read(struct hvd_processes *ps, size_t most)
{
	struct dirent *de = NULL;

	if (!ps->dir)
		ps->dir = opendir("/proc");
	while (ps->dir && most-- > 0 && ps->n < MAX_PROCESSES && (de = readdir(ps->dir))) {
		pid_t pid = (pid_t)atoi(de->d_name);

		if (pid > 0)
			add_process(ps, pid, de->d_ino);
	}
	if (de && ps->n < MAX_PROCESSES)
		return false;
	if (ps->dir)
		closedir(ps->dir);
	ps->dir = NULL;
	if (ps->n)
		qsort(ps->v, ps->n, sizeof(*ps->v), by_pid);
	if (ps->kernel) {
		hvd_kernel_threads_clear(ps->kernel);
		*ps->kernel = ps->found;
		ps->found = (struct hvd_kernel_threads){0};
	}
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
	hvd_kernel_threads_clear(&ps->found);
	*ps = (struct hvd_processes){.kernel = ps->kernel};
}

/* ---- threads ---- */

/* Call `fn` for each entry of the folder until it returns true. */
static bool any_entry(const char *folder, int most, bool (*fn)(const char *folder, const char *name, void *arg),
		      void *arg)
{
	DIR *dir = opendir(folder);
	struct dirent *de;
	bool found = false;

	while (dir && !found && most-- > 0 && (de = readdir(dir)))
		found = de->d_name[0] != '.' && fn(folder, de->d_name, arg);
	if (dir)
		closedir(dir);
	return found;
}

static bool is_waiting(const char *folder, const char *name, void *arg)
{
	hvd_cleanup_free char *path = hvd_xasprintf("%s/%s/stat", folder, name);
	struct hvd_process thread;
	char text[STAT_MAX], *state = arg;

	if (!hvd_read_start(path, text, sizeof(text) - 1) || hvd_process_parse(text, &thread) != 0)
		return false;
	if (!*state || *state == 'Z' || *state == 'X' || thread.state == 'D')
		*state = thread.state;
	return thread.state == 'D';
}

char hvd_process_state(pid_t pid, const char *proc)
{
	hvd_cleanup_free char *folder = hvd_xasprintf("%s/%d/task", proc, (int)pid);
	char state = 0;

	any_entry(folder, MOST_THREADS, is_waiting, &state);
	return state;
}

static bool begins(const char *folder, const char *name, void *arg)
{
	hvd_cleanup_free char *path = hvd_xasprintf("%s/%s", folder, name);
	const char *prefix = arg;
	char target[PATH_MAX];
	ssize_t n = readlink(path, target, sizeof(target) - 1);

	target[n > 0 ? n : 0] = '\0';
	return strncmp(target, prefix, strlen(prefix)) == 0;
}

/* The main thread has no descriptors left once it has ended. */
static bool thread_has_open(const char *folder, const char *name, void *arg)
{
	hvd_cleanup_free char *files = hvd_xasprintf("%s/%s/fd", folder, name);

	return any_entry(files, MOST_FILES, begins, arg);
}

/* ---- waiting for a processor ---- */

/* A host has thousands of threads, so this is as short as can be. -1: it cannot be read. */
static int64_t delay_in(int folder, const char *path)
{
	int fd = openat(folder, path, O_RDONLY | O_CLOEXEC);
	char text[128];
	int64_t ns;
	ssize_t n;

	if (fd < 0)
		return -1;
	n = read(fd, text, sizeof(text) - 1);
	close(fd);
	text[n > 0 ? n : 0] = '\0';
	return sscanf(text, "%*u %" SCNd64, &ns) == 1 && ns >= 0 ? ns : -1;
}

int64_t hvd_process_delay(const struct hvd_process *process, size_t *most)
{
	char path[300];
	struct dirent *de;
	int64_t sum = -1;
	DIR *tasks;

	snprintf(path, sizeof(path), "/proc/%d/%s", (int)process->pid, process->threads > 1 ? "task" : "schedstat");
	if (process->threads <= 1)
		return delay_in(AT_FDCWD, path);
	tasks = opendir(path);
	for (; tasks && (de = readdir(tasks)) && *most > 0; --*most) {
		int64_t ns;

		if (de->d_name[0] == '.')
			continue;
		snprintf(path, sizeof(path), "%s/schedstat", de->d_name);
		ns = delay_in(dirfd(tasks), path);
		sum = ns >= 0 ? (sum > 0 ? sum : 0) + ns : sum;
	}
	if (tasks)
		closedir(tasks);
	return *most > 0 ? sum : -1;
}

bool hvd_process_has_open(pid_t pid, const char *proc, const char *prefix)
{
	hvd_cleanup_free char *folder = hvd_xasprintf("%s/%d/task", proc, (int)pid);

	return any_entry(folder, MOST_THREADS, thread_has_open, (void *)prefix);
}

/* ---- input ---- */

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
	if (read_text(pid, "syscall", line, sizeof(line)))
		return reads_stdin(line);
	if (!read_text(pid, "wchan", line, sizeof(line)))
		return false;
	for (; *functions; functions++)
		if (strcmp(line, *functions) == 0)
			return true;
	return false;
}

/* ---- children ---- */

static void add_pid(struct hvd_pids *pids, pid_t pid)
{
	if (pids->n == MAX_PROCESSES)
		return;
	pids->v = hvd_xgrow(pids->v, pids->n, &pids->room, sizeof(*pids->v));
	pids->v[pids->n++] = pid;
}

static bool add_children(const char *folder, const char *name, void *arg)
{
	hvd_cleanup_free char *path = hvd_xasprintf("%s/%s/children", folder, name);
	hvd_cleanup_fclose FILE *f = fopen(path, "re");
	hvd_cleanup_free char *line = NULL;
	char *end;
	size_t room = 0;
	long child;

	if (f && getline(&line, &room, f) > 0)
		for (char *p = line; (child = strtol(p, &end, 10)) > 0 && end != p; p = end)
			add_pid(arg, (pid_t)child);
	return false;
}

/* /proc lists the children of each thread separately. */
void hvd_pids_add_children(struct hvd_pids *pids, pid_t pid)
{
	hvd_cleanup_free char *folder = hvd_xasprintf("/proc/%d/task", (int)pid);

	any_entry(folder, MOST_THREADS, add_children, pids);
}

static bool ignores(pid_t pid, int sig)
{
	char path[64], line[256];
	unsigned long long ignored;
	bool yes = false;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
	f = fopen(path, "re");
	if (!f)
		return errno == ENOENT;
	while (!yes && fgets(line, sizeof(line), f))
		yes = sscanf(line, "SigIgn: %llx", &ignored) == 1 && (ignored >> (sig - 1) & 1);
	fclose(f);
	return yes;
}

bool hvd_all_ignore(pid_t pid, int sig)
{
	struct hvd_pids pids = {0};
	bool all = ignores(pid, sig);

	/* The list grows while it is worked through: by the children of each process on it. */
	if (all)
		hvd_pids_add_children(&pids, pid);
	for (size_t i = 0; i < pids.n && all; i++) {
		all = ignores(pids.v[i], sig);
		hvd_pids_add_children(&pids, pids.v[i]);
	}
	free(pids.v);
	return all;
}
