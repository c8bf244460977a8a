/* SPDX-License-Identifier: Apache-2.0 */
/*
 * capture.h - runs a program and returns what it prints.
 *
 * Uses nothing but libc: the SPANK plugin links it too.
 */
#ifndef HVD_CAPTURE_H
#define HVD_CAPTURE_H

#include "lib/base/deadline.h"
#include "lib/base/err.h"
#include "spawn.h"

#include <stddef.h>

/* Run the program of `sp` until it has ended and closed its stdout, with /dev/null as stdin and stderr, in a process
 * group of its own. Descriptors that `sp` already names stay. Returns the text of stdout, with a zero byte behind it
 * that *len does not count; the caller frees it. *status is as from waitpid(2). Returns NULL with err set if the
 * program cannot be started, prints more than `max` bytes (HVD_E_LIMIT), or has not ended by the deadline
 * (HVD_E_TIMEOUT); its group was then killed. */
char *hvd_capture(const struct hvd_spawn *sp, size_t max, hvd_time deadline, size_t *len, int *status,
		  struct hvd_err *err);

/* Read `fd` to its end in the same way. `fd` stays open. `what` is the writer's name, for messages. */
char *hvd_capture_fd(int fd, const char *what, size_t max, hvd_time deadline, size_t *len, struct hvd_err *err);

#endif
