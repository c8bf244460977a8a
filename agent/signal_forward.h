/* SPDX-License-Identifier: Apache-2.0 */
/*
 * signal_forward.h - which signals have reached this process, but not its child.
 *
 * The recipients of a scheduler's signals depend on the site: Slurm with proctrack/cgroup signals only the children of
 * slurmstepd, unless SignalChildrenProcesses is set; with proctrack/linuxproc it signals all processes of the step. A
 * terminal, or mpirun, signals a process group. No process can see which signals another one has handled. So a child of
 * this process ("hvd-signals"), which is in the same process group and does nothing else, reports the signals that it
 * gets. A signal that reaches this process, and within a tenth of a second not that child, has reached this process
 * alone, and must be passed on.
 *
 * For the thread of the event loop.
 */
#ifndef HVD_SIGNAL_FORWARD_H
#define HVD_SIGNAL_FORWARD_H

#include "lib/base/err.h"

#include <signal.h>
#include <stdbool.h>

/* The processes of a step are signalled one after the other: the longest time that this takes on a host. */
#define HVD_SIGNAL_ROUND_MS 100

struct event_base;
struct hvd_signal_forward;

/* `alone` is called from the loop for a signal of `set` that has reached this process alone. The caller has these
 * signals blocked, and keeps them so. NULL with err set. */
struct hvd_signal_forward *hvd_signal_forward_create(struct event_base *base, const sigset_t *set,
						     void (*alone)(int sig, void *arg), void *arg, struct hvd_err *err);

/* Has this process got the signal? */
bool hvd_signal_forward_had(const struct hvd_signal_forward *forward, int sig);

/* All received signals except SIGCONT become pending for this process again. NULL is fine. */
void hvd_signal_forward_destroy(struct hvd_signal_forward *forward);

#endif
