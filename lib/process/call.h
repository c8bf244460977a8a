/* SPDX-License-Identifier: Apache-2.0 */
/*
 * call.h - calls a function in a child process, because the function may hang or end the process that calls it.
 *
 * Uses nothing but libc.
 */
#ifndef HVD_CALL_H
#define HVD_CALL_H

#include "lib/base/deadline.h"
#include "lib/base/err.h"

#include <stddef.h>
#include <sys/types.h>

/* The function that the child calls. It writes its answer to `out`, which is closed on exec. Then the child ends with
 * 0. */
typedef void hvd_call_fn(int out, void *arg);

/* Start a child that calls `fn`. The child is killed when this process ends. Returns its pid, which the caller reaps
 * (hvd_end()). *in reads the child's answer, is closed on exec, and is the caller's. -1 with err set: there is nothing
 * to close. */
pid_t hvd_call_begin(hvd_call_fn *fn, void *arg, int *in, struct hvd_err *err);

/* Start a process that calls `fn` and is no child of this one: it goes on when this process ends, in a session of its own.
 * Of the descriptors it has `out` only, and /dev/null as 0, 1 and 2; it ignores SIGPIPE. *in is as above, and ends when the
 * process does. Unless `to` is NULL, the process reads from its descriptor 0 what is written to *to, a pipe that is the
 * caller's, is closed on exec and does not block. -1 with err set: there is nothing to close. */
int hvd_call_detached(hvd_call_fn *fn, void *arg, int *to, int *in, struct hvd_err *err);

/* Start a child as hvd_call_begin() does, and wait for its end. Returns the child's answer as hvd_capture() does; `what`
 * names the child in messages. After an error the child was killed; *status, unless it is NULL, is as from waitpid(2).
 */
char *hvd_call(hvd_call_fn *fn, void *arg, const char *what, size_t max, hvd_time deadline, size_t *len, int *status,
	       struct hvd_err *err);

#endif
