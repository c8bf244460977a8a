/* SPDX-License-Identifier: Apache-2.0 */
/*
 * agent_pool_internal.h - what the files of agent_pool.h share.
 *
 *   agent_pool.c    opened and closed; the wait for enough agents; hosts that the job takes and releases
 *   pool_agent.c    an agent, from its offer until it leaves
 */
#ifndef HVD_AGENT_POOL_INTERNAL_H
#define HVD_AGENT_POOL_INTERNAL_H

#include "agent_pool.h"
#include "lib/base/strv.h"
#include "lib/base/timer.h"
#include "lib/host/join.h"
#include "lib/protocol/handshake.h"
#include "lib/protocol/preauth.h"

#include <sys/queue.h>

enum hvd_pool_agent_state {
	POOL_AGENT_OFFERING, /* its offer has not arrived */
	POOL_AGENT_WAITING,  /* its offer was accepted */
	POOL_AGENT_TAKEN,    /* the connection is the job's */
};

struct hvd_pool_agent {
	struct hvd_agent_pool *pool;
	TAILQ_ENTRY(hvd_pool_agent) in; /* pool->all */
	enum hvd_pool_agent_state state;
	struct hvd_join_offer offer;
	char *host;            /* its name in the job; NULL before its offer */
	struct hvd_conn *conn; /* NULL: taken */
};

struct hvd_agent_pool {
	struct hvd_agent_pool_opts opts;
	struct event_base *base;
	struct hvd_key key;
	struct hvd_session session;
	struct hvd_preauth *pending;
	struct hvd_boot boot; /* where it listens */
	char machine[HVD_MACHINE_LEN + 1];
	char address[HVD_JOIN_ADDRESS_MAX];
	bool file_written;
	/* Those that wait or were taken come in the order of their ranks: first those with an index, then the others
	 * as they came. Those without an offer come last. */
	TAILQ_HEAD(pool_agents, hvd_pool_agent) all;
	struct hvd_strv names; /* all that agents have had */
	unsigned n_warnings;
	bool closed; /* no more agents are needed */
	bool failed; /* no more agents are needed because the job could not start */
	int want;    /* slots that are waited for; 0 = any number */
	int sig;     /* the signal that ended the wait; 0 = none */
	struct hvd_timer *tell;
	void (*changed)(void *arg);
	void *arg;
};

void hvd_pool_agent_arrive(struct hvd_conn *conn, void *pool); /* an agent has proven that it has the key */
void hvd_pool_agent_free(struct hvd_pool_agent *j);
/* Send a waiting agent the message that it is not needed. */
void hvd_pool_agent_decline(struct hvd_pool_agent *j);
/* Send this message to all waiting agents, and to all that connect later. */
void hvd_agent_pool_decline_waiting(struct hvd_agent_pool *pool);

int hvd_agent_pool_slots_waiting(const struct hvd_agent_pool *pool);
/* Agents have joined or left: run the callbacks that wait for that, from the event loop. */
void hvd_agent_pool_tell(struct hvd_agent_pool *pool);
void hvd_agent_pool_on_tell(void *pool);
void hvd_agent_pool_remove_file(struct hvd_agent_pool *pool);

#endif
