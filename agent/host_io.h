/* SPDX-License-Identifier: Apache-2.0 */
/*
 * host_io.h - output and input of a host's ranks over the agent's connection (lib/host/join.h).
 *
 * The ranks' output comes through an output sink (output.h), which is full while HVD_JOIN_WINDOW bytes are outstanding
 * at the launcher. From creation until the end or the loss of the connection, this process's own standard error goes
 * the same way, and its standard input becomes that of rank 0.
 */
#ifndef HVD_HOST_IO_H
#define HVD_HOST_IO_H

#include "lib/base/err.h"
#include "lib/protocol/conn.h"
#include "output.h"

#include <event2/event.h>
#include <stdbool.h>

struct hvd_host_io;

/* The connection stays the caller's. NULL with err set. */
struct hvd_host_io *hvd_host_io_create(struct event_base *base, struct hvd_conn *conn, struct hvd_err *err);
/* The sink for the ranks' output. */
struct hvd_output_sink *hvd_host_io_sink(struct hvd_host_io *io);

/* Handle a message of the launcher. False: the message is for somebody else. */
bool hvd_host_io_message(struct hvd_host_io *io, const char *type, const json_t *msg);

/* The connection has ended: the ranks' output is thrown away, and this process's output goes where it went before. NULL
 * is fine. */
void hvd_host_io_lost(struct hvd_host_io *io);
/* Send the launcher this process's last output, and then this status, which is the last message. NULL is fine. */
void hvd_host_io_end(struct hvd_host_io *io, int status);
void hvd_host_io_destroy(struct hvd_host_io *io); /* not while somebody has the sink; NULL is fine */

#endif
