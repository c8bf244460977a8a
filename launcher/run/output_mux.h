/* SPDX-License-Identifier: Apache-2.0 */
/*
 * output_mux.h - what several processes print, on its way to one descriptor of ours, in whole lines.
 *
 * ssh and srun pass bytes on as they come, so that lines of several hosts
 * would mix. Where lines are labelled they come through here instead, each
 * process through a pipe of its own. A reader that is slow slows down those who
 * write; nothing is thrown away while there is a reader. The descriptor stays
 * blocking, for others have it as well, but no write to it blocks the loop.
 */
#ifndef HVD_OUTPUT_MUX_H
#define HVD_OUTPUT_MUX_H

#include "lib/base/err.h"

#include <event2/event.h>
#include <stdbool.h>

struct hvd_output_mux;

enum hvd_output_mux_form {
	HVD_OUTPUT_MUX_LINES,   /* whole lines follow each other */
	HVD_OUTPUT_MUX_HOROVOD, /* the same, and a carriage return ends a line, too */
	HVD_OUTPUT_MUX_TASKS,   /* of srun --label, of shims that frame what they write (output_frame.h) */
};

/* `to` is not owned. NULL with err set. */
struct hvd_output_mux *hvd_output_mux_create(struct event_base *base, int to, enum hvd_output_mux_form form,
					     struct hvd_err *err);
/* Could something be written to this descriptor at once? Also when writing would fail. */
bool hvd_output_mux_has_room(int fd);
/* The end to write to of a new pipe, the caller's to hand to one process and to close; -1 with err set. */
int hvd_output_mux_open(struct hvd_output_mux *relay, struct hvd_err *err);
/* Take what can be read at once, write all there is, blocking if need be, and free. NULL is fine. Returns 0, or the
 * errno for which output could not be written and is lost; that there is no reader any more is none. */
int hvd_output_mux_finish(struct hvd_output_mux *relay);

#endif
