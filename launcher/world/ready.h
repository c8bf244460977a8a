/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ready.h - waits until the ranks of a world's generation are ready, as their launch says (lib/protocol/ready_question.h), so
 * that ranks of other worlds may start.
 *
 * The agents of all hosts that have ranks find it out (agent/ready.c). They are asked before the ranks start, since a rank
 * that is to send READY=1 gets the address with its start. Each generation is asked anew.
 *
 * The world (world.h) begins it with each generation of an elastic job, by driver_opts.ready and hvd_world_ops.ready. Whoever
 * ends the generation calls hvd_world_ready_stop(): ranks that have failed are late for another reason.
 */
#ifndef HVD_WORLD_READY_H
#define HVD_WORLD_READY_H

#include "launcher/hosts/clients.h"
#include "launcher/hosts/host_table.h"
#include "lib/base/err.h"
#include "lib/base/log.h"
#include "lib/host/layout.h"
#include "lib/protocol/ready_question.h"

#include <event2/event.h>
#include <jansson.h>

struct hvd_ready;

/* One of them is called, once for each generation, from the event loop. */
struct hvd_ready_ops {
	/* All ranks are ready. If the spec says "started", this follows at once. May be NULL. */
	void (*ready)(void *arg);
	/* They are not, at the end of their time. `why` names a host, and what was asked. The last lines that a rank has written
	 * there are logged after the call. May be NULL. */
	void (*late)(const struct hvd_err *why, void *arg);
};

/* Of this world, whose hosts `table` has. `spec` NULL: as soon as they are started. Nothing is owned. */
struct hvd_ready *hvd_ready_create(struct event_base *base, unsigned world, const struct hvd_host_table *table,
				   const struct hvd_ready_spec *spec, const struct hvd_ready_ops *ops, void *arg,
				   const struct hvd_log *log);
void hvd_ready_destroy(struct hvd_ready *ready); /* NULL is fine */

/* The ranks of this layout start next, and their time begins. The layout must stay until hvd_ready_stop() or the next call.
 * Host I of the layout is host I of the table. */
void hvd_ready_begin(struct hvd_ready *ready, const struct hvd_layout *layout);
/* Do not wait any longer. */
void hvd_ready_stop(struct hvd_ready *ready);

/* The message "ready" of an agent. */
void hvd_ready_message(struct hvd_ready *ready, const struct hvd_client *cl, const json_t *msg);

#endif
