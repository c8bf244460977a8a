/* SPDX-License-Identifier: Apache-2.0 */
/*
 * agent_commands.h - commands to the agents of an elastic job about their ranks, and their reports.
 *
 * The number of a rank changes from generation to generation, so the id of its worker (elastic/machine.h) identifies a
 * rank's process. Messages, besides those in agent_registry.h:
 *
 *   to an agent     {"t":"start", "worker":ID, "rank":R, "slot":I, "slots":N, "env":{NAME:VALUE,…}}   start it
 *                   {"t":"stop", "worker":ID, "kill":B}               end it; B true: by SIGKILL at once
 *                   {"t":"notify", "worker":ID, "to":TEXT, "time":T}  agent/worker_notify.h
 *                   {"t":"kill-connections", "at":{…}}                agent/kill_connections.h
 *                   {"t":"network", "addrs":[ADDR,…]}                 only ranks at these addresses may connect to the
 *                                                                     host's relay
 *                   {"t":"check", …}                                  check the host again (agent/recheck.h)
 *                   {"t":"ping"}                                      answer "pong"; an agent that does not is lost
 *   from an agent   {"t":"exit", "worker":ID, …}                      the rank has ended (lib/job/rank_end.h)
 *                   {"t":"unkillable", "worker":ID, "rank":R, …}      SIGKILL has not ended it (lib/job/unkillable.h)
 *                   {"t":"notified", "worker":ID, "why":TEXT}         why "": the worker has acknowledged
 *                   {"t":"kill-connections", "n":N, "why":TEXT}       N connections were broken; why "": all
 *                   {"t":"checked", "preflight":{…}}                  the result of such a check
 *                   {"t":"pong"}
 *                   {"t":"orphan", "parent":NAME}                     the step daemon NAME is gone, and the agent ends
 *                                                                     its ranks
 *                   {"t":"done", "munge":B}                           it ends; B false: munged does not answer there
 *                   {"t":"output-lost"}                               not all output of the ranks could be written
 */
#ifndef HVD_AGENT_COMMANDS_H
#define HVD_AGENT_COMMANDS_H

#include "agent_registry.h"
#include "gloo_peers.h"
#include "lib/job/layout.h"
#include "lib/job/rank_end.h"
#include "lib/job/unkillable.h"

struct hvd_agent_events {
	/* The times are by this process's clock, and ended_at is known; the rank is not set. */
	void (*exited)(uint32_t worker, const struct hvd_rank_end *end, void *arg);
	/* SIGKILL has not ended the rank of this number, or a process that it has left. */
	void (*unkillable)(uint32_t host, uint32_t worker, int rank, const struct hvd_unkillable *what, void *arg);
	void (*notified)(uint32_t worker, const char *why, void *arg); /* "": the worker has acknowledged */
	void (*connections_killed)(uint32_t host, int broken, const char *why,
				   void *arg); /* "": all connections were broken */
	/* A check has found this host good (`bad` NULL), or bad. True: lose the host. */
	bool (*checked)(uint32_t host, const char *bad, void *arg);
	void (*output_lost)(void *arg); /* the agent has told the user why */
	/* The agent ends, and its host's munged does not answer, so srun cannot learn of the end. */
	void (*without_munge)(uint32_t host, void *arg);
};

/* Read a message of hvd_agent_registry_ops.message, and call the event of its type. */
void hvd_agent_read(struct hvd_agent_registry *agents, const struct hvd_agent_events *events,
		    const struct hvd_client *cl, const char *type, const json_t *msg, void *arg);

/* Ranks that are started from now on belong to this layout, of which this takes ownership. Its hosts are all that the
 * job has ever had, by number. */
void hvd_agent_prepare(struct hvd_agent_registry *agents, struct hvd_layout *layout);
/* A new generation of this layout, of which this takes ownership, begins. The rendezvous forgets the last generation.
 * If the new one was prepared, the values that its new ranks have stored there stay. */
void hvd_agent_generation(struct hvd_agent_registry *agents, struct hvd_layout *layout, bool prepared);
/* No rank is left of the last generation, and all of the next one are new: forget what ranks have stored in the
 * TCPStore. The new ranks, for which the driver waits (init_watch.h), learn the number of restarts after failures. */
void hvd_agent_renew(struct hvd_agent_registry *agents, int restarts);
/* The layout of the generation. */
const struct hvd_layout *hvd_agent_layout(const struct hvd_agent_registry *agents);

/* Where an admitted host is in the network (lib/job/switch_path.h); NULL = not known. */
const char *hvd_agent_switch_path(const struct hvd_agent_registry *agents, uint32_t host);

/* Start a rank of the prepared layout; its host has `slots` slots. Does nothing on a host that is not admitted. */
void hvd_agent_start(struct hvd_agent_registry *agents, uint32_t worker, int rank, int slots);
/* End a rank with SIGTERM, and after the time of --kill-wait with SIGKILL; `kill`: with SIGKILL at once. */
void hvd_agent_stop(struct hvd_agent_registry *agents, uint32_t host, uint32_t worker, bool kill);

/* Have the host checked again, as with --preflight=quick; `checked` follows. */
void hvd_agent_check(struct hvd_agent_registry *agents, uint32_t host);

/* Somebody reports that the host is gone. If its agent does not answer within seconds, it is lost. */
void hvd_agent_doubt(struct hvd_agent_registry *agents, uint32_t host);

/* Have the host's agent notify a worker that hosts have changed; `to` is the address that the worker has published. */
void hvd_agent_notify(struct hvd_agent_registry *agents, uint32_t host, uint32_t worker, const char *to, int64_t when);

/* Have all agents break those connections of their ranks that `peers` knows. `connections_killed` follows from each
 * agent that got the order. Returns how many agents that are. */
int hvd_agent_kill_connections(struct hvd_agent_registry *agents, const struct hvd_gloo_peers *peers);

#endif
