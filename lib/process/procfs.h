/* SPDX-License-Identifier: Apache-2.0 */
/*
 * procfs.h - processes as proc(5) has them: what they have used until now, what they wait for and hold, and which processes
 * are below them.
 */
#ifndef HVD_PROCFS_H
#define HVD_PROCFS_H

#include <dirent.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct hvd_process {
	pid_t pid, parent, group, session;
	bool kernel;     /* it is a thread of the kernel */
	bool ending;     /* it is ending, or has ended: signals change nothing any more */
	char state;      /* 'R', 'S', 'D', 'T', … */
	uint64_t faults; /* pages that it had to wait for: they came from a file or a swap device */
	int64_t cpu_ns;  /* of all threads, and of those children that it has waited for */
	unsigned threads;
	uint64_t memory; /* resident bytes, also those that it shares with others */
};

/* -1: there is no such process. A process that has ended still counts until its parent has waited for it (state
 * 'Z'). */
int hvd_process_read(pid_t pid, struct hvd_process *process);
/* Read the text of /proc/PID/stat. -1: the text is malformed. */
int hvd_process_parse(const char *text, struct hvd_process *process);

struct hvd_process_io {
	uint64_t read;            /* bytes by system calls */
	uint64_t bytes;           /* that, and read and written from and to storage */
	uint64_t written, writes; /* bytes by system calls, and how many such calls */
};

/* The I/O of a process of this user and of the children that it has waited for. -1: it cannot be read. */
int hvd_process_io(pid_t pid, struct hvd_process_io *io);

/* The processor time that this thread has used, in nanoseconds. */
int64_t hvd_thread_cpu_ns(void);

/* For how long the threads of a process were ready to run and waited for a processor, in nanoseconds; those that have ended
 * no longer count. *most: how many threads may be looked at; reduced by those that were. -1: that cannot be read, or there
 * are more threads. */
int64_t hvd_process_delay(const struct hvd_process *process, size_t *most);

/* Threads of the kernel, of which a large host has thousands, so that the next scan need not read them again. The number of a
 * process may be used again, but then its folder in /proc has another inode. A zeroed struct has none. */
struct hvd_kernel_threads {
	struct hvd_kernel_thread {
		pid_t pid;
		ino_t inode;
	} * v; /* in ascending order of pid */
	size_t n, room;
};

void hvd_kernel_threads_clear(struct hvd_kernel_threads *threads);

/* All processes of this host but threads of the kernel. A zeroed struct is empty; hvd_processes_clear() ends a scan and empties the struct. At most
 * 65,536 processes are read. */
struct hvd_processes {
	struct hvd_process *v; /* in ascending order of pid, once all are there */
	size_t n;
	struct hvd_kernel_threads *kernel; /* the caller's: those that are known. NULL: none is */
	size_t room;                       /* private, as is what follows */
	size_t known;
	struct hvd_kernel_threads found;
	DIR *dir;
};

/* Read up to `most` further processes. True when all were read. */
bool hvd_processes_read(struct hvd_processes *processes, size_t most);
/* NULL if it is not there. */
const struct hvd_process *hvd_processes_find(const struct hvd_processes *processes, pid_t pid);
void hvd_processes_clear(struct hvd_processes *processes);

/* ---- threads ---- */

/* The state of the thread that keeps the process from ending: 'D' if there is one in this state, else that of any thread
 * that has not ended. The main thread may have ended ('Z') long before the others. 0: no thread can be read. `proc` is
 * "/proc". */
char hvd_process_state(pid_t pid, const char *proc);

/* Has the process a file open whose path begins with `prefix`? False where its descriptors may not be read. */
bool hvd_process_has_open(pid_t pid, const char *proc, const char *prefix);

/* ---- input ---- */

/* Does the main thread of the process sleep in a read of its standard input, so that it waits for its user? Only if that is
 * also the standard input of `rank`; otherwise the input comes from another process of the rank. If this user may not see
 * the system call (ptrace_scope), the name of the kernel's function decides. False if neither can be read. */
bool hvd_waits_for_input(pid_t pid, pid_t rank);

/* ---- children ---- */

/* Zeroed: empty. The caller frees `v`. */
struct hvd_pids {
	pid_t *v;
	size_t n, room;
};

/* Add the children of all threads of a process. A set has at most 65,536 processes. */
void hvd_pids_add_children(struct hvd_pids *pids, pid_t pid);

/* Do this process and all below it ignore the signal? A process that has ended does not count. A process whose signals
 * cannot be read counts as one that does not ignore it. */
bool hvd_all_ignore(pid_t pid, int sig);

#endif
