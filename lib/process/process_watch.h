/* SPDX-License-Identifier: Apache-2.0 */
/*
 * process_watch.h - the end of a process as a descriptor that becomes readable: its pidfd.
 *
 * Linux before 5.3 has no pidfds, and a container's filter of system calls may refuse them. Then the descriptor is a
 * timer, and whoever waits for it looks at the process each time. Signals cannot be used: in srun and slurmstepd SIGCHLD
 * is Slurm's.
 *
 * Uses nothing but libc: the SPANK plugin links it too.
 */
#ifndef HVD_PROCESS_WATCH_H
#define HVD_PROCESS_WATCH_H

#include <stdbool.h>
#include <sys/syscall.h>
#include <sys/types.h>

/* Newer than the headers of glibc 2.28, and the same on all architectures. A kernel that lacks one answers ENOSYS. */
#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434 /* Linux 5.3 */
#endif
#ifndef SYS_pidfd_getfd
#define SYS_pidfd_getfd 438 /* Linux 5.6 */
#endif

/* The pidfd of a process; -1 with errno set: there is no such process, or there are no pidfds. */
int hvd_pidfd_open(pid_t pid);
/* What stands in for pidfds: a timer that becomes readable after a millisecond, and then each `ms` until it is closed;
 * -1 with errno set. */
int hvd_ticks_open(int ms);

/* A descriptor that becomes readable when the child ends, and perhaps before; -1 with errno set. It does not reap the
 * child. The caller closes the descriptor. */
int hvd_child_watch(pid_t pid);
/* Can the child be reaped without waiting, or is it none of this process? If not, wait for the descriptor again. */
bool hvd_child_ended(int fd, pid_t pid);

#endif
