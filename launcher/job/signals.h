/* SPDX-License-Identifier: Apache-2.0 */
/*
 * signals.h - the signals that a job reacts to, as events of its loop.
 *
 * SIGCHLD, signals that end a program, and signals that a user may have a meaning for (SIGUSR1, SIGUSR2) are blocked in
 * this process and are read from a descriptor (signalfd(2)). Programs that lib/process/spawn.h starts get an empty
 * mask.
 */
#ifndef HVD_SIGNALS_H
#define HVD_SIGNALS_H

#include "lib/base/err.h"

#include <event2/event.h>
#include <stdbool.h>

struct hvd_signals;
typedef void hvd_signal_fn(int sig, bool tty, void *arg);

/* `job_control`: SIGTSTP, SIGTTIN, SIGTTOU and SIGCONT, too. `fn` is called from the loop, once for each signal; `tty`: the
 * signal came from the terminal, so that the whole foreground process group has it. NULL with err set. */
struct hvd_signals *hvd_signals_catch(struct event_base *base, bool job_control, hvd_signal_fn *fn, void *arg,
				      struct hvd_err *err);
/* Signals stay blocked. NULL is fine. */
void hvd_signals_release(struct hvd_signals *signals);

#endif
