/* SPDX-License-Identifier: Apache-2.0 */
/*
 * run_child.h - runs the user's command as the one child of a rank shim, which then ends as the command did.
 *
 * These functions block: they are for the main thread of a process that does nothing else meanwhile, except the work of
 * its event loop. All signals are blocked. A signal that only the shim gets is passed on to the command
 * (signal_forward.h). Signals stay blocked, and pending, when hvd_child_run() returns, so that the shim can find out
 * which it got.
 *
 * A shim that "follows" is for an MPI, whose ranks no scheduler tracks. When the process that started the shim is gone,
 * or when the command has ended, the shim ends every process that the command has started.
 */
#ifndef HVD_RUN_CHILD_H
#define HVD_RUN_CHILD_H

#include "lib/base/err.h"
#include "streams.h"

#include <stdbool.h>
#include <sys/types.h>

struct hvd_child_process;

struct hvd_child {
	struct event_base *base; /* not owned; the caller's other events are handled while the command runs */
	char *const *argv;       /* NULL-terminated; the first is searched in PATH of `envp` */
	char *const *envp;
	int rank;                             /* for labels and files */
	const struct hvd_output_style *style; /* what passes through this process: streams.h */
	hvd_streams_tap_fn *tap;              /* who looks at standard error; may be NULL */
	bool no_input;                        /* the command gets /dev/null in place of this process's stdin */
	/* The command runs in this process. The functions below take `process`, until hvd_child_run() returns. */
	void (*started)(struct hvd_child_process *process, pid_t pid, void *arg);
	/* The command has ended, with this status as from waitpid(2). Output that passes through this process may go
	 * on. */
	void (*ended)(pid_t pid, int status, void *arg);
	int key_fd; /* the command gets it at the same number; 0 = none */
	/* Needs hvd_child_follow(). When the process `parent`, which has started this one, is gone: SIGTERM to the
	 * process group if this process leads it, else to the command; SIGKILL after `kill_wait`; then this process
	 * ends too, and hvd_child_run() does not return.
	 * Without `follow` the parent is a scheduler's daemon. When it is gone, nobody looks after the command. So the
	 * command and all processes that it has started are ended in the same way; hvd_child_run() returns. */
	bool follow;
	pid_t parent;
	/* This process becomes the parent of processes that the command leaves behind, for hvd_kill_adopted(); `follow`
	 * implies it. */
	bool adopts;
	bool own_group;   /* the command is in a process group of its own */
	double kill_wait; /* seconds between SIGTERM and SIGKILL */
	void *arg;        /* of all functions */
};

/* Have the kernel send this process a signal when its parent ends, or when the parent's thread ends that started this
 * process. Call it first in a program that follows. Returns the number of the signal, which ends a process that does
 * not handle it. */
int hvd_child_follow(void);
int hvd_child_orphan_signal(void); /* its number */

/* The name of the program that started this one. Call it while that program runs. */
#define HVD_COMMAND_PARENT 32
void hvd_child_parent(char name[HVD_COMMAND_PARENT]);

/* Run the command until it has ended and all of its output was passed on. *status is as from waitpid(2). -1 with err
 * set if the command could not be started. */
int hvd_child_run(const struct hvd_child *command, int *status, struct hvd_err *err);

/* From the event loop: send the command and its process group a signal. hvd_child_end() sends SIGTERM, and SIGKILL after
 * `kill_wait`, or at once when called again; it also ends all processes that the command has left behind. */
void hvd_child_signal(struct hvd_child_process *process, int sig);
void hvd_child_end(struct hvd_child_process *process);

/* After hvd_child_run(): was the command ended by a signal that this process got too, as from scancel, a time limit, a
 * lost node or Ctrl-C? Takes a tenth of a second if it was not. */
bool hvd_child_signalled_with_us(int status);

/* End this process by the signal that ended the command, or return the exit code with which to end. */
int hvd_child_mirror(int status);

#endif
