/* SPDX-License-Identifier: Apache-2.0 */
/*
 * joined.h - the node agent that an agent which came by itself (join.h) has started: its process, its stdin and output.
 */
#ifndef HVD_JOINED_H
#define HVD_JOINED_H

#include "lib/base/err.h"
#include "lib/base/key.h"
#include "lib/protocol/conn.h"

#include <event2/event.h>

struct hvd_joined;

struct hvd_joined_ops {
	/* It has ended, and what it wrote was queued; status as from waitpid(2). Called once; the callee may not
	 * destroy it from within. */
	void (*ended)(int status, void *arg);
};

/* Start it with these arguments, and this key and boot text in the preamble on its stdin. What it writes is sent as
 * messages of bytes over `conn`, which is not owned (lib/job/join.h). NULL with err set. */
struct hvd_joined *hvd_joined_start(struct event_base *base, struct hvd_conn *conn, char *const *args,
				    const struct hvd_key *key, const char *boot, const struct hvd_joined_ops *ops,
				    void *arg, struct hvd_err *err);
/* Kill it if it still runs. NULL is fine. */
void hvd_joined_destroy(struct hvd_joined *joined);

/* For its stdin; len 0: the end. "took" is sent when they were passed on, before which no others may follow. */
void hvd_joined_input(struct hvd_joined *joined, const char *data, size_t len);
void hvd_joined_drained(struct hvd_joined *joined); /* the connection has sent what was queued */
void hvd_joined_reap(struct hvd_joined *joined);    /* after SIGCHLD */

/* Have it end its ranks and itself, within ten seconds; a second time: it ends them at once. */
void hvd_joined_end(struct hvd_joined *joined);
/* There is no connection any more: its output is dropped, and it ends. */
void hvd_joined_disconnect(struct hvd_joined *joined);

#endif
