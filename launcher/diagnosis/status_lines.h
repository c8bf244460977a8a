/* SPDX-License-Identifier: Apache-2.0 */
/*
 * status_lines.h - the lines of a text for people about a job, each with its kind, so that a screen can stress some.
 *
 * Each line is text of the job, escaped (lib/base/printable.h), in which newlines and tabs have become spaces: nothing in
 * it begins a line of its own.
 */
#ifndef HVD_STATUS_LINES_H
#define HVD_STATUS_LINES_H

#include <stddef.h>

enum hvd_status_kind {
	HVD_STATUS_HEAD,   /* of a launch */
	HVD_STATUS_STATE,  /* a sentence on its state */
	HVD_STATUS_REASON, /* why a rank is odd */
	HVD_STATUS_TITLES, /* of the table */
	HVD_STATUS_ROW,
	HVD_STATUS_ODD_ROW,
	HVD_STATUS_NOTE, /* below the table */
};

struct hvd_status_line {
	char *text;
	enum hvd_status_kind kind;
};

struct hvd_status_lines {
	struct hvd_status_line *v;
	size_t n;
};

/* Append a line, and free `text`. */
void hvd_status_add(struct hvd_status_lines *lines, enum hvd_status_kind kind, char *text);

/* Append a text, which is broken at spaces into lines of at most `width` characters, if no word is longer. They are
 * indented, by two more from the second one on. */
__attribute__((format(printf, 5, 6))) void hvd_status_wrap(struct hvd_status_lines *lines, enum hvd_status_kind kind,
							   size_t indent, size_t width, const char *format, ...);

void hvd_status_lines_clear(struct hvd_status_lines *lines);

#endif
