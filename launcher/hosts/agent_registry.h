/* SPDX-License-Identifier: Apache-2.0 */
/*
 * agent_registry.h - the agents of a launch, one for each host: which hosts are part of the job.
 *
 * The hosts are those of a job of fixed size (driver.h), or those of an elastic job, which come and go
 * (agent_commands.h). Both kinds of job take the same steps:
 *
 *   register  each agent describes its host
 *   open      when all expected hosts have registered, the driver opens the rendezvous
 *   probe     each agent tries to reach its neighbours, and reports which it reached. If packets were lost, all agents
 *             probe again, as long as time is left
 *   decide    the planner chooses the networks that connect the hosts (planner.h); these hosts are admitted
 *
 * The stages of an agent (host_table.h), and what ends each:
 *
 *   AWAY        hvd_agent_registry_expect(). The hosts of a job of fixed size are expected from the beginning
 *   COMING      the agent registers
 *   REGISTERED  all expected hosts have registered, and the rendezvous is open
 *   PROBING     the agent reports
 *   REPORTED    all probing hosts have reported
 *   HERE        until the end of the job
 *
 * An agent of an elastic job becomes AWAY again, from any stage, when its connection or its time ends, when its host
 * does not fit, or by hvd_agent_registry_forget(). An agent that registers after the decision probes by itself, and is
 * admitted if it reaches an admitted host. In a job of fixed size each of these ends is a failure of the start.
 *
 * agent_messages.c lists the messages of agents and those to them.
 */
#ifndef HVD_AGENT_REGISTRY_H
#define HVD_AGENT_REGISTRY_H

#include "clients.h"
#include "driver_opts.h"
#include "lib/protocol/boot.h"
#include "lib/protocol/handshake.h"
#include "progress.h"
#include "rank_messages.h"

struct hvd_host_table;
struct hvd_layout;
struct hvd_rv;
struct hvd_stacks;

/* A function that concerns one kind of job may be NULL for the other. */
struct hvd_agent_registry_ops {
	/* The rendezvous is open in this process, and no rank knows of it yet. -1 with err set: the start fails. */
	int (*opened)(struct hvd_rv *rv, void *arg, struct hvd_err *err);
	void (*registered)(uint32_t host, void *arg);
	/* The decision of a job of fixed size: all hosts are admitted. */
	void (*decided)(void *arg);
	/* A job of fixed size leaves the host out (spares.h); its agent, if there is one, was told to end. */
	void (*left_out)(uint32_t host, void *arg);
	/* The host of an elastic job is admitted. */
	void (*admitted)(uint32_t host, void *arg);
	/* The host does not come, or does not fit, or its ranks were ended, or in an elastic job its connection has ended.
	 * In an elastic job it is AWAY; `unfit`: do not try it again. In a job of fixed size this is called after the
	 * decision only, and the host stays. */
	void (*gone)(uint32_t host, const struct hvd_err *why, bool unfit, void *arg);
	/* Elastic: the connection of an agent that was told to end has ended. `lost`: its host does not answer. */
	void (*left)(uint32_t host, bool lost, void *arg);
	/* Fixed size: a connection has ended; the client is released after the call. */
	void (*disconnected)(struct hvd_client *cl, const struct hvd_err *why, void *arg);
	/* What agents report about their ranks. */
	struct hvd_rank_events ranks;
	/* Elastic: answers to commands (agent_commands.h). `why` is "": the worker has acknowledged; all connections
	 * were broken. */
	void (*notified)(uint32_t id, const char *why, void *arg);
	void (*connections_killed)(uint32_t host, int broken, const char *why, void *arg);
	/* A check has found this host good (`bad` NULL), or bad. True: lose the host. */
	bool (*checked)(uint32_t host, const char *bad, void *arg);
	/* The start has failed, and all agents were told. Called once; afterwards only `left` and `disconnected` are
	 * called. */
	void (*failed)(const struct hvd_err *why, void *arg);
	/* An agent got SIGTERM in a step of Slurm's. May be NULL. */
	void (*told_to_end)(void *arg);
	/* With --hang-timeout: no rank makes progress (progress.h). May be NULL. */
	hvd_stalled_fn *stalled;
};

struct hvd_agent_registry;

/* Listen for agents. `fails_without`: the number of hosts is fixed, by opts->hosts or the first registration; they share
 * one deadline, and the start fails without any of them. Else hosts come and go; each that is expected has the start
 * timeout (launch_spec.h) to register, and again to report. `opts` (with what it points to), `session`, `ops` and `log` are not owned and must outlive the
 * result. NULL with err set. */
struct hvd_agent_registry *hvd_agent_registry_create(struct event_base *base, bool fails_without,
						     const struct hvd_driver_opts *opts, struct hvd_session *session,
						     const struct hvd_agent_registry_ops *ops, void *arg,
						     const struct hvd_log *log, struct hvd_err *err);
void hvd_agent_registry_destroy(struct hvd_agent_registry *agents); /* NULL is fine */

/* What an agent must know to connect. */
void hvd_agent_registry_boot(const struct hvd_agent_registry *agents, struct hvd_boot *boot);

/* Elastic: the host's agent was started. Hosts are known by their number in the job. */
void hvd_agent_registry_expect(struct hvd_agent_registry *agents, uint32_t host, const char *name);
/* Elastic: the host is no longer wanted. Its agent is told to end, if it has registered. `gone` is not called. */
void hvd_agent_registry_forget(struct hvd_agent_registry *agents, uint32_t host);

/* Fail the start, for a reason outside. Does nothing if it has already failed. */
void hvd_agent_registry_fail(struct hvd_agent_registry *agents, const struct hvd_err *why);
/* Elastic: tell all agents to end their ranks and themselves (twice: at once), also agents that register later. */
void hvd_agent_registry_end(struct hvd_agent_registry *agents);
/* Elastic: ranks were started, or have made progress (progress.h). */
void hvd_agent_registry_progress(struct hvd_agent_registry *agents);
/* A rank has come to the rendezvous; `all`: and no other is missing. The registry knows by itself of PyTorch's. */
void hvd_agent_registry_init(struct hvd_agent_registry *agents, bool all);
/* Elastic: for how many milliseconds the host that `gone` has reported last had not answered before. */
unsigned hvd_agent_registry_silent_ms(const struct hvd_agent_registry *agents);
/* The hosts: what each has registered, and its stage. Callers change `leaving` and `ended` only. */
struct hvd_host_table *hvd_agent_registry_table(struct hvd_agent_registry *agents);
/* Fixed size: the layout, valid since the decision. */
const struct hvd_layout *hvd_agent_registry_layout(const struct hvd_agent_registry *agents);
/* Fixed size: the ranks start, and are awaited at the rendezvous. */
void hvd_agent_registry_ranks_begin(struct hvd_agent_registry *agents);
/* Fixed size: have all agents end their ranks; again: at once. */
void hvd_agent_registry_end_ranks(struct hvd_agent_registry *agents);
/* Which ranks need this host's agent to come to the store, and have not? For messages; NULL: none. The caller frees it. */
char *hvd_agent_registry_cannot_init(const struct hvd_agent_registry *agents, uint32_t host);
/* Add to `why` what to look at if a host does not register. */
void hvd_agent_registry_missing_hint(const struct hvd_agent_registry *agents, struct hvd_err *why);
/* The object that asks where the ranks are. The registry owns it. */
struct hvd_stacks *hvd_agent_registry_stacks(const struct hvd_agent_registry *agents);
/* Have all connected processes of admitted hosts pass a signal on to their ranks. */
void hvd_agent_registry_signal(struct hvd_agent_registry *agents, int sig);

#endif
