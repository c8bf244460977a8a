/* SPDX-License-Identifier: Apache-2.0 */
/*
 * event_file.h - the file of --events: a line for each event, which never makes the launch wait.
 *
 * A process of its own opens and writes the file, since both may take for ever: on a file system of the network, say. It
 * reads lines from a pipe. A line that has no room in the pipe is lost, and so is one that cannot be written: the disk is
 * full, nobody reads the FIFO, or the file has become too long. The next line that is written says how many were lost.
 *
 * The process is no child of this one, and lives until the pipe is closed and empty. So what was added is written even if
 * this process is killed. Each line is appended by one write, so that launches can share a file.
 */
#ifndef HVD_EVENT_FILE_H
#define HVD_EVENT_FILE_H

#include "lib/base/err.h"
#include "lib/base/log.h"

#include <stddef.h>

/* A file of this size gets no more lines. */
#define HVD_EVENT_FILE_MAX (256 << 20)

struct hvd_event_file;

/* `launch` is the name in lines about lost events. NULL with err set if the file can never be written, as in a folder that
 * is not there; a file system that does not say so within a second is no error. */
struct hvd_event_file *hvd_event_file_open(const char *path, const char *launch, const struct hvd_log *log,
					   struct hvd_err *err);
/* A whole line, of PIPE_BUF bytes at most. */
void hvd_event_file_add(struct hvd_event_file *file, const char *line, size_t len);
/* Wait a moment until all is written, and warn of events that were lost. NULL is fine. */
void hvd_event_file_close(struct hvd_event_file *file);

#endif
