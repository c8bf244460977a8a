/* SPDX-License-Identifier: Apache-2.0 */
/*
 * spawn.h - the one place that starts programs.
 *
 * argv, envp and descriptors are prepared before the vfork. Between the vfork and the exec the child makes only
 * async-signal-safe calls, so a process with threads (srun, slurmstepd) may use this, and a process with much memory
 * pays nothing for it. The child has default signal dispositions, an empty signal mask, and only the descriptors that
 * were asked for. If the exec fails, its errno comes back through a close-on-exec pipe, and the caller gets an error.
 *
 * The exception are ranks of hvdrun --preload, which a Python forks, in the same way (agent/preload.h).
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
	const char *path;  /* the program; searched in PATH of `envp` if it has no slash */
	char *const *argv; /* NULL-terminated */
	char *const *envp; /* NULL-terminated; NULL = this process's environment */
	int root_fd;       /* the child's root and working directory (needs CAP_SYS_CHROOT); 0 = this process's */
	const char *cwd;   /* the child's working directory; NULL = this process's */

	/* Descriptors of the child: child_fd[i] becomes a copy of parent_fd[i], or of /dev/null if that is -1.
	 * 0, 1 and 2 stay as they are if they are not among child_fd. Use hvd_spawn_fd(). */
	int n_fds;
	int parent_fd[HVD_SPAWN_MAX_FDS];
	int child_fd[HVD_SPAWN_MAX_FDS];
	int keep_fds; /* leave all other descriptors open too: a command inherits what its launcher has (PMI_FD) */

	int parent_death_signal; /* sent to the child when the *thread* that started it ends; 0 = none */
	int new_group;           /* make the child the leader of a new process group */
	/* If not NULL: make the child a member of a new process group without a leader, and store the group's number
	 * here. Unlike a leader, such a child may begin a session of its own. So a command like setsid(1) goes on in
	 * this process instead of forking and ending. The group exists as long as a process is in it. */
	pid_t *group;
	pid_t join_group;      /* make the child a member of this group, of the same session; 0 = do not */
	int new_session;       /* make the child the leader of a new session, and so of a new group */
	int ignore_ends;       /* the child starts with SIGINT, SIGTERM and SIGHUP ignored */
	int ignore_user;       /* the child starts with SIGQUIT, SIGUSR1 and SIGUSR2 ignored */
	const cpu_set_t *cpus; /* bind the child to these CPUs; NULL = do not */
	unsigned long nofile;  /* the child's soft limit of open files; 0 = this process's */
};

/* Have the child get a copy of parent_fd (-1 = /dev/null) as child_fd. The caller still closes parent_fd. Asserts that
 * there is room (HVD_SPAWN_MAX_FDS). */
void hvd_spawn_fd(struct hvd_spawn *sp, int parent_fd, int child_fd);

/* Start a process. Returns its pid, or -1 with err set and no process left behind. The code is HVD_E_LIMIT, with a
 * hint, if there is no more room for processes, descriptors or memory. */
pid_t hvd_spawn(const struct hvd_spawn *sp, struct hvd_err *err);

/* Replace this process by the program. Returns only after a failure, with -1 and err set. */
int hvd_exec(const struct hvd_spawn *sp, struct hvd_err *err);

/* Wait for a child until the deadline. Returns 0 with *status as from waitpid(2), or -1 with HVD_E_TIMEOUT (the child
 * still runs) or HVD_E_SYS. `status` and `err` may be NULL. */
int hvd_wait(pid_t pid, hvd_time deadline, int *status, struct hvd_err *err);

/* End a child: SIGTERM, up to `grace` seconds of time, SIGKILL; and reap it. `status` may be NULL. Does nothing if
 * `pid` is no child (0 or less). */
void hvd_end(pid_t pid, double grace, int *status);

/* Reset the signals of a forked child: no handler, nothing ignored, nothing blocked. */
void hvd_default_signals(void);

/* Send SIGKILL to every child of this process (of its main thread), including those that it has adopted as a subreaper.
 * Returns how many there were; the caller reaps them. */
int hvd_kill_children(void);
/* Kill the children and reap them until none is left, or a second has passed. A subreaper adopts the children of a
 * killed child, so this repeats. For the end of a program; blocks. */
void hvd_kill_adopted(void);

/* Describe a wait status in a message: "exit code 3", "killed by signal 9 (SIGKILL)". Returns buf. */
const char *hvd_status_text(int status, char *buf, size_t len);

/* The exit status that a shell gives for a wait status: the exit code, or 128 + the signal. */
int hvd_status_exit(int status);

#endif
