/* SPDX-License-Identifier: Apache-2.0 */
/* world_internal.h - what the files of the world share: world.c, rank_numbers.c, rank_messages.c. No other file includes
 * this. */
#ifndef HVD_WORLD_INTERNAL_H
#define HVD_WORLD_INTERNAL_H

#include "host_questions.h"
#include "init_watch.h"
#include "lib/rendezvous/service.h"
#include "rank_plan.h"
#include "stacks.h"
#include "store_waits.h"
#include "straggler_watch.h"
#include "usage.h"
#include "usage_log.h"
#include "world.h"

struct hvd_world {
	struct event_base *base;
	struct hvd_agent_registry *agents;
	unsigned number;              /* among the worlds of the launch */
	struct hvd_host_table *table; /* the registry's */
	const struct hvd_world_ops *ops;
	void *arg;
	const struct hvd_log *log; /* the next, with the name of the ranks in front */
	struct hvd_log own_log;
	struct hvd_rank_plan plan;
	struct hvd_layout layout; /* of an elastic job's generation; a job of fixed size has that of the plan */
	int32_t open_relay;       /* of an elastic job: the host whose relay is open to all; -1 = none */
	struct hvd_rv_service service;
	struct hvd_init_watch *init_watch; /* NULL where no rank meets the others at the rendezvous as TCPStore */
	struct hvd_progress *progress;     /* NULL: not wanted */
	struct hvd_ready *ready;
	struct hvd_stacks *stacks;
	struct hvd_host_questions *questions;
	struct hvd_store_waits *waits; /* NULL: there is no TCPStore */
	struct hvd_usage *usage;
	struct hvd_usage_log *usage_log;        /* NULL: agents do not look */
	struct hvd_straggler_watch *stragglers; /* NULL: agents do not look */
};

/* ---- rank_numbers.c ---- */

/* Hosts were left out: number the ranks of those that have reported anew, in their old order. Those beyond the first
 * `most`, unless that is 0, have no number and leave their host's list. */
void hvd_rank_numbers_make(uint32_t most, void *world);

/* ---- rank_messages.c ---- */

extern const struct hvd_driver_message hvd_rank_messages[];
/* Add this world's part to the plan for a host's agent, which is connected. In an elastic job it has no ranks yet. If the
 * host has a relay, its messages come over the agent's connection from then on. */
void hvd_rank_messages_plan(const struct hvd_world *world, uint32_t host, json_t *plan);

#endif
