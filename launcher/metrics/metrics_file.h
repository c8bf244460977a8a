/* SPDX-License-Identifier: Apache-2.0 */
/*
 * metrics_file.h - a file that is written again and again, and is whole at every moment: for the node exporter's textfile
 * collector.
 *
 * A process of its own writes the text to a new file beside it and renames that, since a file system may take for ever. It
 * is no child of this one, and ends when the file is closed. While it is busy with an earlier text, another one is left out.
 *
 * The file's mode is that of the user's umask: the exporter runs as another user.
 */
#ifndef HVD_METRICS_FILE_H
#define HVD_METRICS_FILE_H

#include "lib/base/err.h"
#include "lib/base/log.h"

#include <event2/event.h>
#include <stddef.h>

struct hvd_metrics_file;

/* `log`, which must outlive the result, gets a warning when the file cannot be written. NULL with err set if no process
 * can be started. */
struct hvd_metrics_file *hvd_metrics_file_open(const char *path, const struct hvd_log *log, struct hvd_err *err);
/* Write it within this event loop, until hvd_metrics_file_detach(). */
void hvd_metrics_file_attach(struct hvd_metrics_file *file, struct event_base *base);
void hvd_metrics_file_detach(struct hvd_metrics_file *file);
/* Write this text, which is taken over, in place of the former one. */
void hvd_metrics_file_put(struct hvd_metrics_file *file, char *text, size_t len);
/* Write this text, which is taken over, as the last one, waiting a moment for that; and free the file. */
void hvd_metrics_file_close(struct hvd_metrics_file *file, char *text, size_t len);

#endif
