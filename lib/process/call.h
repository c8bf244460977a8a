/* SPDX-License-Identifier: Apache-2.0 */
/*
 * call.h - a function called in a child process, since it may hang, or end the process that calls it.
 *
 * Uses nothing but libc.
 */
#ifndef HVD_CALL_H
#define HVD_CALL_H

#include "lib/base/deadline.h"
#include "lib/base/err.h"

#include <stddef.h>
#include <sys/types.h>

/* What the child calls: it writes its answer to `out`, which is closed on exec. Then the child ends with 0. */
typedef void hvd_call_fn(int out, void *arg);

/* Start a child that calls `fn`, and is killed when this process ends. Returns its pid, which the caller reaps
 * (hvd_end()); *in reads what it writes, is closed on exec, and is the caller's. -1 with err set, and nothing to
 * close. */
pid_t hvd_call_begin(hvd_call_fn *fn, void *arg, int *in, struct hvd_err *err);

/* The same to its end. Returns what the child has written, as hvd_capture() does, with `what` as the child's name.
 * After an error the child was killed; *status, unless it is NULL, is as from waitpid(2). */
char *hvd_call(hvd_call_fn *fn, void *arg, const char *what, size_t max, hvd_time deadline, size_t *len, int *status,
	       struct hvd_err *err);

#endif
