/* SPDX-License-Identifier: Apache-2.0 */
/*
 * output.h - a rank's output on its way to ours: whole lines, labelled, and into files of its own.
 *
 * Lines of several ranks never mix within a line. A line longer than
 * HVD_OUTPUT_LINE is passed on in pieces; bytes are not looked at, but for the
 * ends of lines. Writing blocks while the reader of our output is slow, which
 * in turn slows the rank: nothing is thrown away.
 */
#ifndef HVD_OUTPUT_H
#define HVD_OUTPUT_H

#include "err.h"

#include <event2/event.h>
#include <stdbool.h>

#define HVD_OUTPUT_LINE (16 * 1024 * 1024)

/*
 * Framed output is for a launcher that reads srun --label. srun may break a
 * line anywhere, and puts an end and a label of its own there: so the ends of
 * lines that are ours are escaped, and between BEGIN and END those that are not
 * say nothing. What is outside has not come through here.
 */
#define HVD_OUTPUT_ESC       '\x10'
#define HVD_OUTPUT_ESC_LF    'n' /* after ESC: the end of a line */
#define HVD_OUTPUT_ESC_CR    'r' /* … by a carriage return */
#define HVD_OUTPUT_ESC_BEGIN 'b'
#define HVD_OUTPUT_ESC_END   'e' /* anything else: ESC itself */

enum hvd_label {
	HVD_LABEL_NONE,
	HVD_LABEL_SRUN,    /* "3: ", as srun --label */
	HVD_LABEL_HOROVOD, /* "[3]<stdout>:", as horovodrun */
};

struct hvd_output_style {
	enum hvd_label label;
	bool timestamps; /* the date in front of each line, as asctime(3) has it */
	const char *dir; /* also write DIR/rank.<zero-padded>/stdout and …/stderr; NULL = no files */
	int size;        /* ranks of the job: how far to pad */
	bool append;     /* keep what the files have */
	bool framed;     /* ends of lines escaped on the way out, not in files */
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

#endif
