/* SPDX-License-Identifier: Apache-2.0 */
/*
 * agent_pool_internal.h - what the files of agent_pool.h share.
 *
 *   agent_pool.c    opened and closed; the wait for enough agents; hosts that the job takes and releases
 *   pool_agent.c    an agent, from its offer to its end
 */
#ifndef HVD_AGENT_POOL_INTERNAL_H
#define HVD_AGENT_POOL_INTERNAL_H

#include "agent_pool.h"
#include "launcher/hosts/clients.h"
#include "lib/base/strv.h"
#include "lib/base/timer.h"
#include "lib/host/join.h"

#include <sys/queue.h>

struct hvd_pool_agent {
	struct hvd_client_io io; /* first. Without a client: its connection has ended, or was left to the driver */
	struct hvd_agent_pool *pool;
	TAILQ_ENTRY(hvd_pool_agent) in; /* pool->all */
	struct hvd_join_offer offer;
	char *host; /* its name in the job */
	bool taken;
	/* Once it was started: */
	const struct hvd_pool_agent_opts *opts; /* NULL before */
	struct hvd_output_source *out[2];       /* of stdout and stderr */
	size_t owed[2];                         /* bytes that were taken, which the agent was not told */
	/* hvdrun's standard input, which rank 0 of the agent reads; waited for once the agent takes more. NULL: it
	 * reads nothing, or the end was sent. */
	struct event *input;
	int status; /* as it has said; -1 before */
	void (*ended)(int status, void *arg);
	void *arg;
};

struct hvd_agent_pool {
	struct hvd_agent_pool_opts opts;
	struct event_base *base;
	struct hvd_key key;
	struct hvd_session session;
	struct hvd_clients *clients;
	struct hvd_boot boot; /* where it listens */
	char machine[HVD_MACHINE_LEN + 1];
	char address[HVD_JOIN_ADDRESS_MAX];
	bool file_written;
	/* In the order of their ranks: first those with an index, then the others as they came. */
	TAILQ_HEAD(hvd_pool_agents, hvd_pool_agent) all;
	struct hvd_strv names; /* all that agents have had */
	int want;              /* slots; 0 = nobody waits for them */
	bool closed, failed;   /* no agent is needed any longer; because the job could not start */
	int sig;               /* the signal that ended the wait */
	struct hvd_timer *tell;
	void (*changed)(void *arg);
	void *arg;
};

/* An offer, or another first message of a connection. */
void hvd_pool_agent_offer(struct hvd_client *cl, const char *type, const json_t *msg, void *pool);
/* Tell an agent that waits that it is not needed. */
void hvd_pool_agent_decline(struct hvd_pool_agent *agent);
/* Take the agent out of the pool, and free it. */
void hvd_pool_agent_free(struct hvd_pool_agent *agent);

/* The slots of the agents that wait. */
int hvd_agent_pool_slots_waiting(const struct hvd_agent_pool *pool);
/* Agents have come or gone: have hvd_agent_pool_on_tell() be called soon. */
void hvd_agent_pool_tell(struct hvd_agent_pool *pool);
void hvd_agent_pool_on_tell(void *pool);

#endif
