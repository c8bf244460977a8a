/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ready_file.h - waits until a file was made or changed.
 *
 * A file that was there before is one of an earlier run. It does not count until it has another inode, size or time. A file
 * whose time is later than the beginning, by this host's clock, counts as well.
 *
 * A file system of a server that is gone may block whoever looks at it, so that a child process looks. The kernel
 * wakes it when something changes in the folder; it also looks by itself, each second at last, for changes by other hosts.
 */
#ifndef HVD_READY_FILE_H
#define HVD_READY_FILE_H

#include "lib/base/err.h"

#include <event2/event.h>

struct hvd_ready_file;

/* `path` is relative to the folder of this process. `changed` is called once, from the event loop, and may destroy the object,
 * which the caller owns. NULL with err set. */
struct hvd_ready_file *hvd_ready_file_watch(struct event_base *base, const char *path, void (*changed)(void *arg),
					    void *arg, struct hvd_err *err);
void hvd_ready_file_destroy(struct hvd_ready_file *file); /* the child ends; NULL is fine */

#endif
