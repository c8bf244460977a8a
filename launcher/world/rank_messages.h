/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rank_messages.h - what agents report about the ranks on their hosts, in every kind of job.
 *
 * The process of a rank has an id that no other process of the launch has. In a job of fixed size this is the number of
 * the rank. In an elastic job the number of a rank changes from generation to generation, and the id is that of
 * world/machine.h. rank_messages.c lists the messages, and those to agents about ranks.
 */
#ifndef HVD_RANK_MESSAGES_H
#define HVD_RANK_MESSAGES_H

#include "lib/base/err.h"
#include "lib/host/rank_end.h"
#include "lib/host/unkillable.h"

#include <stdbool.h>
#include <stdint.h>

/* `host` is the number of the host. Times are by this process's clock. An event may be NULL. */
struct hvd_rank_events {
	/* The process has ended; end->ended_at is known, and end->rank is the id. */
	void (*ended)(uint32_t host, const struct hvd_rank_end *end, void *arg);
	/* The rank's shim has ended without a report, and the rank with it. */
	void (*shim_lost)(uint32_t host, uint32_t id, void *arg);
	/* SIGKILL has not ended the process, which had this rank, or a process that it has left. */
	void (*unkillable)(uint32_t host, uint32_t id, uint32_t rank, const struct hvd_unkillable *what, void *arg);
	/* Output of ranks could not be written; the agent has told the user why. */
	void (*output_lost)(void *arg);
};

#endif
