/* SPDX-License-Identifier: Apache-2.0 */
/* observing_agent_internal.h - the observing agent (observing_agent.h), for its own files. */
#ifndef HVD_OBSERVING_AGENT_INTERNAL_H
#define HVD_OBSERVING_AGENT_INTERNAL_H

#include "detached.h"
#include "driver_client.h"
#include "lib/base/timer.h"
#include "lib/net/reserve.h"
#include "observed_ranks.h"
#include "observing_agent.h"
#include "rank_watch.h"
#include "relay.h"
#include "run_child.h"
#include "shims.h"

#define HVD_HOST_SIGNALS 3

struct host {
	const struct hvd_observing_agent_opts *opts;
	const struct hvd_session *session;
	struct event_base *base;
	struct hvd_detached *detached;
	struct hvd_driver_client *agent; /* NULL: there is none */
	struct hvd_shims *shims;
	struct hvd_reserve reserved;
	struct hvd_relay_sockets sockets;
	struct hvd_relay *relay;
	struct hvd_observed_ranks *ranks; /* NULL before the plan, and if nobody sends events */
	struct hvd_rank_watch *watch;
	struct hvd_timer *late;
	struct event *events;
	struct hvd_signal_watch *signals[HVD_HOST_SIGNALS];
	int key_fd, spare; /* spare: events for the watchdog; 0 = none */
	uint32_t tasks;    /* of the host; the plan may have fewer ranks for it */
	uint32_t ended;    /* ranks */
	bool planned, unreachable, done, output_lost, orphaned;
	char parent[HVD_COMMAND_PARENT];
};

/* Do shims send the events? Else slurmstepd does. */
static inline bool hvd_host_has_shims(const struct host *host)
{
	return host->opts->kind != HVD_OBSERVING_AGENT_PLUGIN;
}

/* ---- observing_agent_plan.c ---- */

/* Answer all who ask for plans: with that of the driver, or, if `plan` is NULL, that this host has no ranks. -1 with err
 * set: they got no answer. */
int hvd_host_answer(struct host *host, const json_t *plan, struct hvd_err *err);

/* ---- observing_agent_ranks.c: what is made of events ---- */

/* The plan has arrived: from now on observe the ranks, if anybody sends events of them. */
void hvd_host_ranks_begin(struct host *host);
/* The driver has the messages that were sent, or never will. */
void hvd_host_ranks_delivered(struct host *host);
/* Report that all ranks have ended, unless that was reported, or there is no plan. */
void hvd_host_done(struct host *host);
/* Report that what has started the ranks has ended before them, if it has, and there is a plan; once. */
void hvd_host_tell_orphaned(struct host *host);
/* The hvd_shims_ops of this host. */
void hvd_host_shim_event(const struct hvd_step_event *event, int fds[2], void *host);
void hvd_host_shim_left(uint32_t local_id, void *host);

#endif
