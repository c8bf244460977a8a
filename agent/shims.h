/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shims.h - the connections of an agent to the processes on its host that ask it for plans: rank shims, or the first
 * task of a host under srun --hvd. lib/protocol/step_event.h has the messages.
 *
 * The agent sends a shim its plan as a JSON object behind a descriptor:
 *
 *   {"rank":R, "size":N, "env":ENV, "error_file":PATH or null, "func_key":B, "settings":{…}, "slow_names":B,
 *    "no_own_name":B, "command":[WORD,…]}; the settings are those of lib/protocol/agent_settings.h, and "command" is only
 *    there with --multi-prog
 *
 * ENV has the rank's variables; slow_names and no_own_name are the state of the host's name service
 * (lib/net/name_service.h). If there is no rank for this shim here (launcher/world/rank_numbers.c), the object is empty.
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
	/* An event other than ASK has arrived; the callee takes ownership of the descriptors. */
	void (*event)(const struct hvd_step_event *event, int fds[2], void *arg);
	/* The connection of the process that asked for this local rank has ended. */
	void (*left)(uint32_t local_id, void *arg);
	/* All connections have ended, and no other is expected: all processes have come, or hvd_shims_expect_none() was
	 * called. Must not destroy anything from within. */
	void (*none_left)(void *arg);
};

/* `expected`: how many processes will ask. `listening` (ownership is taken; -1 = none) is where they connect. */
struct hvd_shims *hvd_shims_create(struct event_base *base, uint32_t expected, int listening,
				   const struct hvd_shims_ops *ops, void *arg);
void hvd_shims_destroy(struct hvd_shims *shims); /* closes all; NULL is fine */
/* Keep the connection of the last connected process open until this process ends: its end shows the other side that
 * this process has ended. */
void hvd_shims_leave_last(struct hvd_shims *shims);
void hvd_shims_add(struct hvd_shims *shims, int fd); /* a connection; taken */
void hvd_shims_expect_none(struct hvd_shims *shims);

/* Answer all processes that have asked, and those that will ask, with the plans: a list by local rank, which must not
 * change afterwards; NULL if they are in the memory of lib/protocol/step_plans.h. `key_fd`: the key of --run-func (0 =
 * there is none; not owned). */
void hvd_shims_answer(struct hvd_shims *shims, const json_t *plans, int key_fd);
/* Answer all processes with the status with which they must end. */
void hvd_shims_refuse(struct hvd_shims *shims, int status);

/* Acknowledge the event of the rank's end. */
void hvd_shims_seen(struct hvd_shims *shims, uint32_t local_id);
/* Send an event with this value to all of them. */
void hvd_shims_tell(struct hvd_shims *shims, enum hvd_step_event_kind kind, int value);

uint32_t hvd_shims_connected(const struct hvd_shims *shims);
pid_t hvd_shims_first(const struct hvd_shims *shims); /* the process of one that is connected; 0 = none is */

#endif
