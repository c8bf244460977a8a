/* SPDX-License-Identifier: Apache-2.0 */
/*
 * spawn.h - the one place that starts processes.
 *
 * argv, envp and descriptors are prepared before the vfork; between that and
 * the exec only async-signal-safe calls are made, so a process with threads (srun,
 * slurmstepd) may call this, and one with much memory pays nothing for it. The child gets default signal dispositions
 * and an empty signal mask, and no descriptor but those named. A failing exec comes back as an error here, through a
 * close-on-exec pipe, not as an exit status.
 *
 * Uses nothing but libc: the SPANK plugin links it too.
 */
#ifndef HVD_SPAWN_H
#define HVD_SPAWN_H

#include "lib/base/deadline.h"
#include "lib/base/err.h"

#include <sched.h>
#include <sys/types.h>

#define HVD_SPAWN_MAX_FDS 16

struct hvd_spawn {
	const char *path;  /* what to exec; searched in PATH of `envp` when it has no slash */
	char *const *argv; /* NULL-terminated */
	char *const *envp; /* NULL-terminated; NULL = this process's environment */
	int root_fd;     /* a folder to become the child's root and directory, which needs CAP_SYS_CHROOT; 0 = leave */
	const char *cwd; /* NULL = leave */

	/* Descriptors of the child: child_fd[i] becomes a copy of parent_fd[i].
	 * 0, 1 and 2 stay as they are unless named here; a parent_fd of -1 means /dev/null. */
	int keep_fds; /* leave all others open too: for a command that inherits what its launcher was given (PMI_FD) */
	int n_fds;
	int parent_fd[HVD_SPAWN_MAX_FDS];
	int child_fd[HVD_SPAWN_MAX_FDS];

	int parent_death_signal; /* sent to the child when this *thread* ends; 0 = none */
	int new_group;           /* make the child the leader of a process group of its own */
	/* Not NULL: make the child a member of a new process group, whose number is stored here, that nobody leads.
	 * Unlike the leader of a group it may begin a session of its own, so that a command like setsid(1) stays this
	 * process instead of forking and ending. The group lasts as long as a process is in it. */
	pid_t *group;
	int new_session;       /* … of a session of its own (implies a group) */
	int ignore_ends;       /* SIGINT, SIGTERM and SIGHUP are ignored, until the program decides otherwise */
	int ignore_user;       /* the same with SIGQUIT, SIGUSR1 and SIGUSR2 */
	const cpu_set_t *cpus; /* bind to these CPUs; NULL = leave */
	unsigned long nofile;  /* soft limit of open files; 0 = leave */
};

/* Add a descriptor to the request. Ends nothing, owns nothing: the caller still
 * closes parent_fd. Asserts that there is room (HVD_SPAWN_MAX_FDS). */
void hvd_spawn_fd(struct hvd_spawn *sp, int parent_fd, int child_fd);

/* Start it. Returns its pid, or -1 with err set and no process left behind: HVD_E_LIMIT with a hint where processes,
 * descriptors or memory ran out. */
pid_t hvd_spawn(const struct hvd_spawn *sp, struct hvd_err *err);

/* Become it: as hvd_spawn without the fork. Returns only when it failed, with -1. */
int hvd_exec(const struct hvd_spawn *sp, struct hvd_err *err);

/* Wait for a child until the deadline. Returns 0 with *status as from waitpid(2), or -1 with
 * HVD_E_TIMEOUT (the child goes on) or HVD_E_SYS. Waits on a pidfd, without polling. */
int hvd_wait(pid_t pid, hvd_time deadline, int *status, struct hvd_err *err);

/* SIGTERM, wait up to `grace` seconds, SIGKILL, reap. *status may be NULL. */
void hvd_end(pid_t pid, double grace, int *status);

/* SIGKILL to every child of this process (of its main thread), those included that it has adopted as a subreaper.
 * Returns how many there were; reaping them is the caller's. */
int hvd_kill_children(void);
/* The same, again and again, and reap them, until none is left or a second has passed: what was below a killed child
 * becomes this process's own when that is a subreaper. For the end of a program; blocks. */
void hvd_kill_adopted(void);

/* "exit code 3", "killed by signal 9 (SIGKILL)": for messages. Returns buf. */
const char *hvd_status_text(int status, char *buf, size_t len);

/* A wait status as a shell would give it: the exit code, or 128 + the signal. */
int hvd_status_exit(int status);

#endif
