/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stopped_child.h - continues a child that somebody has stopped.
 *
 * For a watchdog, whose child the ranks need: if the child stays stopped (SIGSTOP, as by pkill -STOP), they wait for it
 * until PyTorch's timeout. If Slurm suspends a job, it stops the watchdog, too, well before the watchdog would continue
 * the child.
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

/* Call this once, before the first hvd_stopped_child_poll(). It handles and blocks SIGCHLD in this process. */
void hvd_stopped_child_begin(struct hvd_stopped_child *child, pid_t pid);
/* Like poll(2) without a limit, but it also returns when the child was stopped or continued, and may return without a
 * reason. waitpid(2) still reports the child's end. */
void hvd_stopped_child_poll(struct hvd_stopped_child *child, struct pollfd *fds, nfds_t n);

#endif
