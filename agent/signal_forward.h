/* SPDX-License-Identifier: Apache-2.0 */
/*
 * signal_forward.h - which signals have come to this process, but not to its child.
 *
 * Whom a scheduler signals depends on the site: Slurm with proctrack/cgroup signals the children of slurmstepd only,
 * unless SignalChildrenProcesses is set; with proctrack/linuxproc all processes of the step; a terminal, or mpirun, a
 * process group. No process can see what signals another one has handled. So a child of this process, which is in the
 * same process group and does nothing else, says which ones it gets ("hvd-signals"). What comes to this process and
 * within a tenth of a second not to that one came to this process alone, and is to be passed on.
 *
 * For the thread of the event loop.
 */
#ifndef HVD_SIGNAL_FORWARD_H
#define HVD_SIGNAL_FORWARD_H

#include "lib/base/err.h"

#include <signal.h>
#include <stdbool.h>

/* The processes of a step are signalled one after the other: how long that takes at most on a host. */
#define HVD_SIGNAL_ROUND_MS 100

struct event_base;
struct hvd_signal_forward;

/* `alone` is called from the loop for a signal of `set` that came to this process alone. The caller has these blocked,
 * and keeps them so. NULL with err set. */
struct hvd_signal_forward *hvd_signal_forward_create(struct event_base *base, const sigset_t *set,
						     void (*alone)(int sig, void *arg), void *arg, struct hvd_err *err);

/* Has it come to this process? */
bool hvd_signal_forward_had(const struct hvd_signal_forward *forward, int sig);

/* The signals that have come are pending for this process again, but for SIGCONT. NULL is fine. */
void hvd_signal_forward_destroy(struct hvd_signal_forward *forward);

#endif
