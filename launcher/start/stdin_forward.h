/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stdin_forward.h - writes what a process of the job reads from its stdin: the launch's data, and then, for one process
 * only, hvdrun's own stdin.
 */
#ifndef HVD_STDIN_FORWARD_H
#define HVD_STDIN_FORWARD_H

#include "lib/base/err.h"

#include <event2/event.h>
#include <stddef.h>
#include <sys/types.h>

struct hvd_stdin_forward;

/* Write `bytes` (taken over, wiped and freed) to a new pipe, then everything that can be read from `from` (-1:
 * nothing), then close the pipe. *out is its read end, which the caller closes. NULL with err set. */
struct hvd_stdin_forward *hvd_stdin_forward_create(struct event_base *base, unsigned char *bytes, size_t n, int from,
						   int *out, struct hvd_err *err);
/* Closes the pipe at once; NULL is fine. */
void hvd_stdin_forward_destroy(struct hvd_stdin_forward *forward);

/* As read(2), but never with EINTR, and where a process in the background would be stopped for reading from the
 * terminal with EIO. */
ssize_t hvd_stdin_forward_read(int from, void *to, size_t most);

/* Can an event loop wait for this descriptor? Not for a file, which is always ready. */
int hvd_stdin_forward_can_poll(int fd);

#endif
