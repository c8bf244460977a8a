/* SPDX-License-Identifier: Apache-2.0 */
/*
 * static_ends.h - what has ended in a static job: which of its ranks, and agents that end before them.
 *
 * A rank counts as ended when its host's agent has reported it, or when its host is lost.
 *
 * When an agent is lost, the job first waits for a moment, because the whole launch may just be ending. Before the plan
 * the start fails then. After it the start fails if ranks need the agent to reach PyTorch's store and have not called
 * init_process_group() yet: they would wait for half an hour. Otherwise the user is told, and the ranks go on.
 */
#ifndef HVD_STATIC_ENDS_H
#define HVD_STATIC_ENDS_H

#include "job_policy.h"
#include "launcher/hosts/loss.h"
#include "lib/base/strv.h"
#include "lib/base/timer.h"
#include "lib/host/layout.h"

#include <event2/event.h>
#include <stdbool.h>
#include <stdint.h>

/* Zeroed at first: nothing has ended. */
struct hvd_static_ends {
	const struct hvd_layout *layout; /* NULL: there is no plan */
	bool *ended;                     /* by rank */
	uint32_t n, left;
	struct hvd_strv without_munge; /* hosts where no munged was left when their ranks had ended */
	struct hvd_err lost_why;       /* of the first agent that has ended before the plan; its code is 0: none has */

	/* static_ends.c's own. */
	const struct hvd_job_policy *policy;
	bool start_failed;
	bool rank_failed;
	struct hvd_timer *lost;  /* pending: an agent has ended before the plan */
	struct hvd_timer *judge; /* pending: `loss` waits */
	struct hvd_loss loss;    /* the agent that has ended before the ranks */
	char host[256];
	char *expected; /* the ranks that cannot come any longer; NULL = none */
};

/* `policy` is that of the job whose start fails for lost agents. */
void hvd_static_ends_init(struct hvd_static_ends *ends, const struct hvd_job_policy *policy, struct event_base *base);
void hvd_static_ends_clear(struct hvd_static_ends *ends); /* leaves a zeroed struct */

/* There is a plan. No rank of the layout, which is not owned, has ended. */
void hvd_static_ends_begin(struct hvd_static_ends *ends, const struct hvd_layout *layout);
/* Is the rank on this host? */
bool hvd_static_ends_known(const struct hvd_static_ends *ends, uint32_t host, uint32_t rank);
/* An agent or a shim reports that a rank of its host has ended, by a failure or not. False: the host has no such rank, or
 * the end is known; if the agent has gone, it may have reported an end that the shim reports. After a failure lost agents
 * end nothing, because they may follow from it. */
bool hvd_static_ends_take(struct hvd_static_ends *ends, uint32_t host, uint32_t rank, bool failed);
/* The rank has ended. False: that was known before, or there is no such rank. */
bool hvd_static_ends_add(struct hvd_static_ends *ends, uint32_t rank);
/* All ranks of the host have ended. */
void hvd_static_ends_add_host(struct hvd_static_ends *ends, const char *host);
/* The host's munged has gone. The host is listed once. */
void hvd_static_ends_without_munge(struct hvd_static_ends *ends, const char *host);

/* The connection of a host's agent has ended before the plan. */
void hvd_static_ends_agent_gone(struct hvd_static_ends *ends, uint32_t host, const struct hvd_err *why);
/* The watchdog of a host's agent reports that the agent has ended. One loss is judged at a time, and may be reported once
 * more with more facts. */
void hvd_static_ends_agent_died(struct hvd_static_ends *ends, uint32_t host, const struct hvd_loss *loss);
/* The start has failed, so that lost agents are no matter any longer. */
void hvd_static_ends_start_failed(struct hvd_static_ends *ends);

/* As hosts() of job_policy.h. */
char *hvd_static_ends_hosts(const struct hvd_static_ends *ends, enum hvd_hosts_asked which);
/* Have all ranks ended, as far as is known, or their hosts gone? */
bool hvd_static_ends_all(const struct hvd_static_ends *ends);

#endif
