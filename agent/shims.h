/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shims.h - the connections of a node agent to the processes on its host that ask it for plans: rank shims, or the
 * first task of a host under srun --hvd. lib/protocol/step_event.h has the messages.
 *
 * The plan that is sent to them is a JSON object behind a descriptor:
 *
 *   {"ranks":[ENV,…], "numbers":[R,…], "size":N, "error_files":[PATH or null,…], "func_key":B, "agent":PID,
 *    "slow_names":B, "no_own_name":B}
 *
 * with the ranks that were asked for, by local rank: their variables, numbers, and error files; and what the host's
 * name service is like (lib/net/name_service.h). A local rank that has none here (launcher/driver/spares.h) is not
 * among them.
 */
#ifndef HVD_SHIMS_H
#define HVD_SHIMS_H

#include "lib/protocol/step_event.h"

#include <event2/event.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct hvd_shims;

struct hvd_shims_ops {
	/* Another event than ASK has come; what is called takes the descriptors. */
	void (*event)(const struct hvd_step_event *event, int fds[2], void *arg);
	/* A connection has ended, of the process that had asked for this local rank (or HVD_STEP_ALL). */
	void (*left)(uint32_t local_id, void *arg);
	/* All connections have ended, and no other is expected: all have come, or hvd_shims_expect_none() was called.
	 * Not to destroy anything from within. */
	void (*none_left)(void *arg);
};

/* `expected`: how many processes will ask. `listening` (taken; -1 = none) is where they connect. */
struct hvd_shims *hvd_shims_create(struct event_base *base, uint32_t expected, int listening,
				   const struct hvd_shims_ops *ops, void *arg);
void hvd_shims_destroy(struct hvd_shims *shims); /* closes all; NULL is fine */
/* Leave the connection of the last process open that was connected, until this process ends: by that the other
 * knows. */
void hvd_shims_leave_last(struct hvd_shims *shims);
void hvd_shims_add(struct hvd_shims *shims, int fd); /* a connection; taken */
void hvd_shims_expect_none(struct hvd_shims *shims);

/* Answer all that have asked, and those that will: by the plan of all ranks of the host, which stays as it is from then
 * on, and the key of --run-func (0 = there is none; not owned) … */
void hvd_shims_answer(struct hvd_shims *shims, const json_t *plan, int key_fd);
/* … or by the status to end with. */
void hvd_shims_refuse(struct hvd_shims *shims, int status);

/* The event of the rank's end is acknowledged. */
void hvd_shims_seen(struct hvd_shims *shims, uint32_t local_id);
/* Send all of them an event with this value. */
void hvd_shims_tell(struct hvd_shims *shims, enum hvd_step_event_kind kind, int value);

uint32_t hvd_shims_connected(const struct hvd_shims *shims);
pid_t hvd_shims_first(const struct hvd_shims *shims); /* the process of one that is connected; 0 = none is */

#endif
