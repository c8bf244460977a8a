/* SPDX-License-Identifier: Apache-2.0 */
/*
 * agent_pool.h - self-registering agents (--launcher=join), which wait until the job needs them.
 *
 * This has the event loop and the connections of the job (launcher/hosts/clients.h), which the driver takes over. Each
 * agent that has the key is a host of the job, with a name that no other agent has had; several agents on one machine
 * are several hosts. An agent serves once: after its release it is gone, and one that connects later is another agent.
 *
 * An agent that the job takes becomes the agent of its host, in the place of a process that hvdrun starts. Its
 * connection also carries what the host's ranks read and write. While the reader of hvdrun's output is slow, the agent
 * is not told that its bytes were taken, and after some it sends no more; its other messages go on.
 */
#ifndef HVD_AGENT_POOL_H
#define HVD_AGENT_POOL_H

#include "lib/base/err.h"
#include "lib/base/key.h"
#include "lib/base/log.h"
#include "lib/base/strv.h"
#include "lib/host/alloc.h"
#include "lib/protocol/handshake.h"

#include <event2/event.h>
#include <stdbool.h>

struct hvd_agent_pool;
struct hvd_clients;
struct hvd_output_mux;

struct hvd_agent_pool_opts {
	const char *key_file;  /* the secret that agents have; created if it does not exist */
	const char *join_file; /* the join address is written to this file, which is removed at the end; NULL = none */
	char *const *nics;     /* addresses of these interfaces come first (lib/net/nicspec.h); NULL = any */
	bool progress;         /* log each agent that joins */
	const char *agent;     /* hvd-agent, for messages */
	const struct hvd_log *log;
};

/* Listen, and publish the address. Nothing of `opts` is owned, and all of it must outlive the result. NULL with err
 * set. */
struct hvd_agent_pool *hvd_agent_pool_open(const struct hvd_agent_pool_opts *opts, struct hvd_err *err);
/* Tell agents that wait that they are not needed, which takes seconds at most; remove the file; free the event loop, which nobody may
 * use any more. NULL is fine. */
void hvd_agent_pool_close(struct hvd_agent_pool *pool);

struct event_base *hvd_agent_pool_base(const struct hvd_agent_pool *pool);
struct hvd_clients *hvd_agent_pool_clients(const struct hvd_agent_pool *pool);
/* The session of the launch, in which agents have proven that they have the key. */
const struct hvd_session *hvd_agent_pool_session(const struct hvd_agent_pool *pool);

/* Wait until agents with `np` slots are there, at most so many seconds. *out, which is empty before, gets them: first
 * those with an index, in its order, then the others in the order of their offers. All others get the message that they
 * are not needed, from now on. -1 with err set, which names the agents that have joined. If a signal ends this process,
 * the file is removed first. */
int hvd_agent_pool_gather(struct hvd_agent_pool *pool, int np, double seconds, struct hvd_alloc *out,
			  struct hvd_err *err);

/* Are all agents that wait or were taken on this machine, and in this network namespace? */
bool hvd_agent_pool_on_this_machine(const struct hvd_agent_pool *pool);

/* Elastic jobs: `changed` is called, from the event loop, soon after now and whenever hvd_agent_pool_hosts() has changed.
 * NULL: stop calling it. */
void hvd_agent_pool_watch(struct hvd_agent_pool *pool, void (*changed)(void *arg), void *arg);
/* The connected agents, whether or not they were taken; *out is empty before. */
void hvd_agent_pool_hosts(const struct hvd_agent_pool *pool, struct hvd_alloc *out);

/* ---- one agent ---- */

struct hvd_pool_agent;

/* The job needs this host now. NULL with err set when its agent does not wait. */
struct hvd_pool_agent *hvd_agent_pool_take(struct hvd_agent_pool *pool, const char *host, struct hvd_err *err);
/* The host is no longer needed. An agent that was not started is ended. */
void hvd_agent_pool_release(struct hvd_pool_agent *agent);

struct hvd_pool_agent_opts {
	const char *boot;              /* what it must know of the driver (lib/protocol/boot.h) */
	struct hvd_output_mux *out[2]; /* where stdout and stderr go */
};

/* Have an agent that was taken run this command line of hvd-agent. `input`: its rank 0 reads hvdrun's stdin. `ended` is
 * called once, from the event loop, when its connection has ended; status: the exit status of the agent, -1: it was lost,
 * which the user was told. `opts` must outlive it. -1 with err set. */
int hvd_pool_agent_start(struct hvd_pool_agent *agent, const struct hvd_strv *argv,
			 const struct hvd_pool_agent_opts *opts, bool input, void (*ended)(int status, void *arg),
			 void *arg, struct hvd_err *err);
/* SIGKILL: end its connection, and so its ranks. Another signal does so when it has not registered. */
void hvd_pool_agent_signal(struct hvd_pool_agent *agent, int sig);
/* Tell the agent what was passed on since; to be called when an output is full no longer. */
void hvd_pool_agent_acknowledge(struct hvd_pool_agent *agent);
/* Pass nothing on any longer, and leave the connection to the driver. */
void hvd_pool_agent_stop(struct hvd_pool_agent *agent);

#endif
