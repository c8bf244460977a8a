/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stopped_child.h - has a child go on that somebody has stopped.
 *
 * For a watchdog, whose child ranks need: if it stays stopped (SIGSTOP, as by pkill -STOP) they wait for it until
 * PyTorch's timeout. Where Slurm suspends a job it stops the watchdog, too, well before it would have the child go on.
 */
#ifndef HVD_STOPPED_CHILD_H
#define HVD_STOPPED_CHILD_H

#include "lib/base/deadline.h"

#include <poll.h>
#include <sys/types.h>

/* How long a child may be stopped. */
#define HVD_STOPPED_SECONDS 10

struct hvd_stopped_child {
	pid_t pid;
	hvd_time since; /* 0 = it is not stopped */
};

/* To be called once, before the first hvd_stopped_child_poll(): handles and blocks SIGCHLD in this process. */
void hvd_stopped_child_begin(struct hvd_stopped_child *child, pid_t pid);
/* As poll(2) without a limit, but for this: it returns when the child has been stopped, or has gone on, too, and may
 * return for no reason. The child's end is left to waitpid(2). */
void hvd_stopped_child_poll(struct hvd_stopped_child *child, struct pollfd *fds, nfds_t n);

#endif
