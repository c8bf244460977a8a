/* SPDX-License-Identifier: Apache-2.0 */
/*
 * output.h - passes the output of a rank on in whole lines, with labels, and writes it into files.
 *
 * Lines of several ranks never mix within a line. A line longer than HVD_FRAME_LINE is passed on in pieces. Of the
 * bytes, only line ends have a meaning. Output without labels and files passes byte by byte. While the reader is slow, the
 * sink is full, and the rank has to wait; without a sink a write blocks. Only output that cannot be written is lost; that
 * is reported once for each file or stream.
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
	HVD_LABEL_SRUN,    /* "3: ", as srun --label; of a rank with a name in front: "[trainer:3] " */
	HVD_LABEL_HOROVOD, /* "[3]<stdout>:", as horovodrun; or "[trainer:3]<stdout>:" */
};

enum hvd_stream {
	HVD_STDOUT,
	HVD_STDERR,
};

/* Whether any output of this process's ranks could not be written. */
struct hvd_output_losses {
	const struct hvd_log *log;
	const char *host;    /* the name of this host, for messages */
	bool any, warned[2]; /* warned: the user knows of lost output on this process's stdout, stderr */
};

/* Output of ranks could not be written to this process's own stream, for this errno (0: nothing is lost): note it, and
 * tell the user once. `losses` may be NULL. */
void hvd_output_lose(struct hvd_output_losses *losses, enum hvd_stream stream, int error);

struct hvd_output;

/* Takes output in place of this process's own stdout and stderr. */
struct hvd_output_sink {
	void (*write)(struct hvd_output_sink *sink, enum hvd_stream stream, const char *bytes, size_t n);
	bool all;                 /* both streams of a rank must go there, also without labels and files */
	bool full;                /* nothing is read of the ranks until hvd_output_sink_resume() */
	struct hvd_output *first; /* private */
};

/* The sink is no longer full. */
void hvd_output_sink_resume(struct hvd_output_sink *sink);

#define HVD_OUTPUT_OF 48 /* room for such a name */
/* Whose output it is. */
struct hvd_output_rank {
	int number;
	const char *of; /* the name of these ranks, if others have the same numbers; else "" */
};

struct hvd_output_style {
	enum hvd_label label;
	bool whole;      /* without a label: pass on whole lines, since other ranks write to the same place */
	bool timestamps; /* the date in front of each line, as asctime(3) has it */
	/* Also write DIR/rank.<zero-padded>/stdout and …/stderr, or DIR/NAME/rank.… of a rank with a name, whose slashes are
	 * dots there; NULL = no files. */
	const char *dir;
	int size;                         /* number of ranks of the job, which gives the width of the padding */
	bool append;                      /* keep what is in the files already */
	bool read_stderr;                 /* standard error is read on its way; see streams.h for the effects */
	bool framed;                      /* put frames around the output, but not in files: output_frame.h */
	struct hvd_output_losses *losses; /* not owned; NULL = do not report lost output */
	struct hvd_output_sink *sink;     /* not owned; NULL = this process's own streams */
};

/* Are there labels or files, or does the sink get all, so that both streams must pass through this process? */
bool hvd_output_wanted(const struct hvd_output_style *style);

/* Read `fd` until its end; then call `ended` once, after the output was freed. Takes ownership of `fd`, also on an
 * error. Makes the rank's directory and file, if the style asks for files; NULL with err set if that fails. */
struct hvd_output *hvd_output_create(struct event_base *base, int fd, struct hvd_output_rank rank,
				     enum hvd_stream stream, const struct hvd_output_style *style,
				     void (*ended)(void *arg), void *arg, struct hvd_err *err);
/* A function that gets all bytes before they are passed on. NULL: none. */
typedef void hvd_output_bytes_fn(enum hvd_stream stream, const char *bytes, size_t n, void *arg);
void hvd_output_on_bytes(struct hvd_output *out, hvd_output_bytes_fn *on_bytes, void *arg);
/* Pass on what can be read without waiting, and stop. `ended` is not called. NULL is fine. */
void hvd_output_destroy(struct hvd_output *out);

/* For the end of a process, when nothing else writes to its stdout and stderr any more. If these are sockets (of res,
 * the remote execution server of OpenLava and compatible schedulers), shut them down for writing, and wait until the
 * other side has closed, because res may throw away what it has not read when this process ends. Waits at most until
 * `deadline`. */
void hvd_output_settle(hvd_time deadline);

#endif
