/* SPDX-License-Identifier: Apache-2.0 */
/*
 * capture.h - run a program to its end and take what it prints.
 */
#ifndef HVD_CAPTURE_H
#define HVD_CAPTURE_H

#include "lib/base/deadline.h"
#include "lib/base/err.h"
#include "spawn.h"

#include <stddef.h>

/* Run what `sp` says, with /dev/null as stdin and stderr, in a process group of its own, until it has ended and closed
 * its stdout. Returns what it printed there, with a zero byte behind it (*len is without it), and its status as from
 * waitpid(2). NULL with err set when it cannot be started, prints more than `max` bytes (HVD_E_LIMIT), or is not done
 * by the deadline (HVD_E_TIMEOUT); its group is then killed. Descriptors added to `sp` before are kept. Caller frees.
 */
char *hvd_capture(const struct hvd_spawn *sp, size_t max, hvd_time deadline, size_t *len, int *status,
		  struct hvd_err *err);

#endif
