/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rlimits.h - how many processes and open files this process and its children may have.
 *
 * Uses nothing but libc: the SPANK plugin links it too.
 */
#ifndef HVD_RLIMITS_H
#define HVD_RLIMITS_H

#include "lib/base/err.h"

/* May `n` more processes be started on this host, one for each rank? -1 with err set (HVD_E_LIMIT), which names the
 * limit: of the user (RLIMIT_NPROC; not for root), of a control group that this process is in, or of the kernel. The
 * check does not count other processes of the user or the host, so a start may still fail. `root` is put in front of
 * /proc and /sys: "" except in tests. */
int hvd_limits_ranks(const char *root, long n, struct hvd_err *err);

/* May this process have `n` open files? -1 with err set (HVD_E_LIMIT). `what` says what needs them ("8 ranks with
 * labels"). */
int hvd_limits_files(unsigned long n, const char *what, struct hvd_err *err);

/* Explain a failed call: `err` is set, and `error` is the errno. If the errno means that a limit was reached, set the
 * code to HVD_E_LIMIT, and the hint to the limit and the remedy. */
void hvd_limits_explain(int error, struct hvd_err *err);

/* The soft limit of open files, and the hard one. */
unsigned long hvd_nofile(void);
unsigned long hvd_nofile_most(void);

/* Raise the soft limit of open files to the hard limit, for a process with thousands of connections. Returns the former
 * soft limit, which programs that this process starts should get (hvd_spawn.nofile); 0 = not known. */
unsigned long hvd_raise_nofile(void);

#endif
