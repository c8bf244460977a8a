/* SPDX-License-Identifier: Apache-2.0 */
/*
 * output.h - a rank's output on its way to ours: whole lines, labelled, and into files of its own.
 *
 * Lines of several ranks never mix within a line. A line longer than
 * HVD_FRAME_LINE is passed on in pieces; bytes are not looked at, but for the
 * ends of lines. Writing blocks while the reader of our output is slow, which
 * in turn slows the rank: nothing is thrown away, but what cannot be written, which is told once for each file.
 */
#ifndef HVD_OUTPUT_H
#define HVD_OUTPUT_H

#include "lib/base/deadline.h"
#include "lib/base/err.h"
#include "lib/base/log.h"

#include <event2/event.h>
#include <stdbool.h>

enum hvd_label {
	HVD_LABEL_NONE,
	HVD_LABEL_SRUN,    /* "3: ", as srun --label */
	HVD_LABEL_HOROVOD, /* "[3]<stdout>:", as horovodrun */
};

/* Of all outputs of a process: what could not be written. */
struct hvd_output_losses {
	const struct hvd_log *log;
	const char *host;  /* this one, for messages */
	bool any, told[2]; /* told: of our own stdout and stderr */
};

struct hvd_output_style {
	enum hvd_label label;
	bool timestamps;                  /* the date in front of each line, as asctime(3) has it */
	const char *dir;                  /* also write DIR/rank.<zero-padded>/stdout and …/stderr; NULL = no files */
	int size;                         /* ranks of the job: how far to pad */
	bool append;                      /* keep what the files have */
	bool framed;                      /* on the way out, not in files: output_frame.h */
	struct hvd_output_losses *losses; /* not owned; NULL = nobody wants to know */
};

/* Does the output have to pass through here at all? */
bool hvd_output_wanted(const struct hvd_output_style *style);

enum hvd_stream {
	HVD_STDOUT,
	HVD_STDERR,
};

struct hvd_output;

/* `fd` (taken over, also on error) is read until its end; then `ended` is called, once, and the output has been freed.
 * Directories and files are made here; NULL with err set when that fails. */
struct hvd_output *hvd_output_create(struct event_base *base, int fd, int rank, enum hvd_stream stream,
				     const struct hvd_output_style *style, void (*ended)(void *arg), void *arg,
				     struct hvd_err *err);
/* Take what can be read at once, write it, and stop; `ended` is not called. NULL is fine. */
void hvd_output_destroy(struct hvd_output *out);

/* Before this process ends, where nothing else that is left writes to its stdout and stderr: if these are sockets,
 * whose other side carries the output on (res, of OpenLava and its kin), say that nothing follows, and wait until it
 * has closed its side. It may throw away what it has not read when this process ends. Takes `deadline` at most. */
void hvd_output_settle(hvd_time deadline);

#endif
