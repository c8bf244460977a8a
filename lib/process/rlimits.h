/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rlimits.h - how many processes and open files there may be on this host, and what says so.
 *
 * Uses nothing but libc: the SPANK plugin links it too.
 */
#ifndef HVD_RLIMITS_H
#define HVD_RLIMITS_H

#include "lib/base/err.h"

#include <stdbool.h>

/* Is there room for `n` ranks, a process each? -1 with err set (HVD_E_LIMIT), which names the limit: the user's
 * (RLIMIT_NPROC, not for root), those of the control groups that this process is in, the kernel's. What other processes
 * take of the user's and the kernel's is not counted, so starting them may fail all the same. `root` is put in front of
 * /proc and /sys: "", but in tests. */
int hvd_limits_ranks(const char *root, long n, struct hvd_err *err);

/* May this process have so many open files? -1 with err set (HVD_E_LIMIT); `what` needs them ("8 ranks with labels").
 */
int hvd_limits_files(unsigned long n, const char *what, struct hvd_err *err);

/* `err` is about a failure with this errno. If that is a limit that was met, make it HVD_E_LIMIT and say in the hint
 * which, and what to do; else nothing. */
void hvd_limits_explain(int error, struct hvd_err *err);

#endif
