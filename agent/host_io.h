/* SPDX-License-Identifier: Apache-2.0 */
/*
 * host_io.h - what the ranks of a host write and read, where it goes over the node agent's connection (lib/job/join.h).
 *
 * What the ranks write comes through an output sink (output.h), which is full while the launcher has not passed on
 * HVD_JOIN_WINDOW bytes. What this process itself writes to its standard error goes the same way, and its standard
 * input becomes that of rank 0, from creation until the connection is lost or the end.
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
/* Where the ranks' output goes. */
struct hvd_output_sink *hvd_host_io_sink(struct hvd_host_io *io);

/* A message of the launcher. False: it is for somebody else. */
bool hvd_host_io_message(struct hvd_host_io *io, const char *type, const json_t *msg);
bool hvd_host_io_bytes(struct hvd_host_io *io, const void *data, size_t len);

/* The connection has ended: what the ranks write is thrown away, and what this process writes goes where it went
 * before. NULL is fine. */
void hvd_host_io_lost(struct hvd_host_io *io);
/* Tell the launcher what this process has written last, and that it ends with this status, which is the last message.
 * NULL is fine. */
void hvd_host_io_end(struct hvd_host_io *io, int status);
void hvd_host_io_destroy(struct hvd_host_io *io); /* not while somebody has the sink; NULL is fine */

#endif
