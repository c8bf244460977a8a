/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stdio_sink.h - the output of this process's ranks, on its way to its own standard output and error.
 *
 * Where the reader of these is slow, such as a pager, the ranks have to wait, and not this process, which answers the
 * driver meanwhile. So what cannot be written is kept, and the sink is full while that is much. Lines stay whole:
 * what one rank has handed over is written before what others hand over later.
 */
#ifndef HVD_STDIO_SINK_H
#define HVD_STDIO_SINK_H

#include "output.h"

#include <event2/event.h>

/* `losses` as in struct hvd_output_style; not owned. */
struct hvd_output_sink *hvd_stdio_sink_create(struct event_base *base, struct hvd_output_losses *losses);
/* Writes what is left, and waits for the reader. Not while somebody has the sink; NULL is fine. */
void hvd_stdio_sink_destroy(struct hvd_output_sink *sink);

#endif
