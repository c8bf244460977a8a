/* SPDX-License-Identifier: Apache-2.0 */
/*
 * output_mux.h - merges what several processes print into one descriptor, in whole lines.
 *
 * ssh and srun pass bytes on as they come, so that lines of several hosts would mix. Where lines carry labels, each
 * process writes to a pipe of its own instead, and its lines are passed on here. A slow reader of the descriptor slows
 * down the processes; nothing is thrown away while there is a reader. The descriptor stays blocking, since other
 * processes share it, but no write to it blocks the event loop.
 */
#ifndef HVD_OUTPUT_MUX_H
#define HVD_OUTPUT_MUX_H

#include "lib/base/err.h"

#include <event2/event.h>
#include <stdbool.h>

struct hvd_output_mux;
struct hvd_output_source;

enum hvd_output_mux_form {
	HVD_OUTPUT_MUX_BYTES,   /* what comes is passed on at once, not in lines */
	HVD_OUTPUT_MUX_LINES,   /* lines end with a newline */
	HVD_OUTPUT_MUX_HOROVOD, /* lines end with a newline or a carriage return */
	HVD_OUTPUT_MUX_PLAIN,   /* the same, and a piece of a line is passed on that waits for its end */
	HVD_OUTPUT_MUX_TASKS,   /* what srun --label prints, where rank shims frame their output (output_frame.h) */
};

/* `to` is not owned. NULL with err set. */
struct hvd_output_mux *hvd_output_mux_create(struct event_base *base, int to, enum hvd_output_mux_form form,
					     struct hvd_err *err);
/* Could something be written to this descriptor at once? Also when writing would fail. */
bool hvd_output_mux_has_room(int fd);
/* The write end of a new pipe, which the caller hands to one process and closes; -1 with err set. */
int hvd_output_mux_open(struct hvd_output_mux *mux, struct hvd_err *err);
/* A source of which the caller itself brings the bytes; the mux's. */
struct hvd_output_source *hvd_output_mux_add(struct hvd_output_mux *mux);
/* Pass these on. Never blocks; while the mux is full, the caller should bring no more than it must. */
void hvd_output_mux_put(struct hvd_output_source *source, const char *bytes, size_t n);
/* No more bytes come. NULL is fine. */
void hvd_output_mux_end(struct hvd_output_source *source);
/* Is so much waiting for the reader of the output that no pipe is read? */
bool hvd_output_mux_is_full(const struct hvd_output_mux *mux);
/* Have a function called when the mux is full no longer. */
void hvd_output_mux_on_room(struct hvd_output_mux *mux, void (*has_room)(void *arg), void *arg);

/* Take what can be read at once, and write all of it but lines that are not complete, blocking if need be. NULL is fine. */
void hvd_output_mux_drain(struct hvd_output_mux *mux);
/* Take what can be read at once, write all of it, blocking if need be, and free the mux. NULL is fine. Returns 0, or
 * the errno because of which output is lost; it is no error when nobody reads the output any more. */
int hvd_output_mux_finish(struct hvd_output_mux *mux);

#endif
