/* SPDX-License-Identifier: Apache-2.0 */
/*
 * agent_registry.h - the agents of a launch, one for each host: which hosts are part of the job. It knows nothing of what
 * runs there (launcher/world/world.h).
 *
 * The hosts are those of a job of fixed size, or those of an elastic job, which come and go. Both kinds of job take the
 * same steps:
 *
 *   register  each agent describes its host
 *   open      when all expected hosts have registered, the listener opens the rendezvous
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
 * agent_messages.c lists the messages about hosts.
 */
#ifndef HVD_AGENT_REGISTRY_H
#define HVD_AGENT_REGISTRY_H

#include "clients.h"
#include "driver_opts.h"
#include "lib/protocol/boot.h"
#include "lib/protocol/handshake.h"
#include "loss.h"

struct hvd_host_table;
struct hvd_network_plan;

/* A function that concerns one kind of job may be NULL for the other. */
struct hvd_agent_registry_ops {
	void (*registered)(uint32_t host, void *arg);
	/* The decision of a job of fixed size: all hosts are admitted. */
	void (*decided)(void *arg);
	/* A job of fixed size leaves the host out (spares.c); its agent, if there is one, was told to end. */
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
	/* All processes on the host have ended, and the agent ends. `munge`: munged answers there, or is not used. Without
	 * munged srun cannot learn of the end. `told`: the agent was told to end. May be NULL. */
	void (*done)(uint32_t host, bool munge, bool told, void *arg);
	/* The watchdog of the host's agent reports that the agent has ended before the ranks. loss->host is set. May be
	 * NULL. */
	void (*agent_died)(uint32_t host, const struct hvd_loss *loss, void *arg);
	/* A check has found this host good (`bad` NULL), or bad. True: lose the host. */
	bool (*checked)(uint32_t host, const char *bad, void *arg);
	/* The start has failed, and all agents were told. Called once; afterwards only `left` and `disconnected` are
	 * called. */
	void (*failed)(const struct hvd_err *why, void *arg);
	/* An agent got SIGTERM in a step of Slurm's. May be NULL. */
	void (*told_to_end)(void *arg);
};

/* A message that agents send. One that is malformed, or does not come from one of `from`, or `planned` is true and it
 * comes before the first hosts are admitted, is ignored. `from` has bits of the enumeration. */
struct hvd_driver_message {
	const char *type; /* the message's "t"; NULL ends a list */
	unsigned from;
	bool planned;
	void (*read)(void *arg, struct hvd_client *cl, const json_t *msg);
};

enum {
	HVD_FROM_NEW = 1,    /* who has not registered: an agent, or a shim or watchdog whose agent has gone */
	HVD_FROM_AGENT = 2,  /* a host's agent that has not been told to end */
	HVD_FROM_FORMER = 4, /* an agent that was told to end */
	HVD_FROM_LAST = 8,   /* the same, in a job that ends: the report of the first failure may arrive last */
};

/* Whoever uses the hosts for something that the registry does not know of. There may be several, each with a number, which is
 * that of its world in messages (lib/protocol/worlds.h). They are called in the order of their numbers. */
struct hvd_host_listener {
	/* All expected hosts have registered, and probe next. -1 with err set: the start fails. */
	int (*open)(void *arg, struct hvd_err *err);
	/* Fixed size, with spares, for the first listener: the hosts that have reported are those that remain. Number their
	 * ranks anew, at most `most` of them (0: all); a host whose ranks have no number is left out, too. */
	void (*renumber)(uint32_t most, void *arg);
	/* The networks are chosen; the hosts that have reported are admitted next. -1 with err set: the start fails. */
	int (*decided)(void *arg, struct hvd_err *err);
	/* The host is admitted, after the decision or later. Add to `plan`, which its agent gets then, what it needs to know
	 * (agent/driver_client.h); NULL: the agent is not connected. */
	void (*admitted)(uint32_t host, json_t *plan, void *arg);
	void (*left)(uint32_t host, void *arg); /* it is AWAY */
	/* These three may be NULL. An agent has registered; its connection has ended. */
	void (*registered)(struct hvd_client *cl, void *arg);
	void (*disconnected)(const struct hvd_client *cl, const struct hvd_err *why, void *arg);
	/* The start has failed, or all agents were told to end. */
	void (*over)(void *arg);
	const struct hvd_driver_message *messages; /* that it reads, if they have its number */
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

/* Have one more listen, before the first connection; `ops` and `arg` must outlive the registry. Returns its number, which is 0
 * for the first; -1 with err set: there are too many. */
int hvd_agent_registry_listen(struct hvd_agent_registry *agents, const struct hvd_host_listener *ops, void *arg,
			      struct hvd_err *err);

/* What an agent must know to connect. */
void hvd_agent_registry_boot(const struct hvd_agent_registry *agents, struct hvd_boot *boot);

/* Elastic: the host's agent was started. Hosts are known by their number in the job. */
void hvd_agent_registry_expect(struct hvd_agent_registry *agents, uint32_t host, const char *name);
/* Elastic: the host is no longer wanted. Its agent is told to end, if it has registered. `gone` is not called. */
void hvd_agent_registry_forget(struct hvd_agent_registry *agents, uint32_t host);

/* Fail the start, for a reason outside. Does nothing if it has already failed. */
void hvd_agent_registry_fail(struct hvd_agent_registry *agents, const struct hvd_err *why);
/* Before the plan: leave the host out because of `why`, if there is a spare (spares.c); the event loop goes on without
 * it. False: there is none, or it is too late, and nothing has happened. True also for a host that was left out before. */
bool hvd_agent_registry_leave_out(struct hvd_agent_registry *agents, uint32_t host, const struct hvd_err *why);
/* Elastic: tell all agents to end their ranks and themselves (twice: at once), also agents that register later. */
void hvd_agent_registry_end(struct hvd_agent_registry *agents);
/* Elastic: for how many milliseconds the host that `gone` has reported last had not answered before. */
unsigned hvd_agent_registry_silent_ms(const struct hvd_agent_registry *agents);
/* The hosts: what each has registered, and its stage. Callers change `leaving` and `ended` only. */
struct hvd_host_table *hvd_agent_registry_table(struct hvd_agent_registry *agents);
/* The networks that connect them, since the decision. */
const struct hvd_network_plan *hvd_agent_registry_networks(const struct hvd_agent_registry *agents);
/* Is the host admitted? */
bool hvd_agent_registry_admitted(const struct hvd_agent_registry *agents, uint32_t host);
/* Where an admitted host is in the network (lib/host/switch_path.h); NULL = not known. */
const char *hvd_agent_registry_switch_path(const struct hvd_agent_registry *agents, uint32_t host);
/* How fast the network to its neighbours is, in Mbit/s; 0 = not measured. */
double hvd_agent_registry_rate(const struct hvd_agent_registry *agents, uint32_t host);
/* Send a message, which is taken over, to the agent of an admitted host, and wait for a sign of life. Another host is sent
 * nothing: its end was told, or is about to be. */
void hvd_agent_registry_command(struct hvd_agent_registry *agents, uint32_t host, json_t *msg);
/* Elastic: have the host checked again, as with --preflight=quick; `checked` follows. */
void hvd_agent_registry_check(struct hvd_agent_registry *agents, uint32_t host);
/* Somebody reports that the host is gone. If its agent does not answer within seconds, it is lost. */
void hvd_agent_registry_doubt(struct hvd_agent_registry *agents, uint32_t host);
/* A rank of Horovod has come (own_names.c). */
void hvd_agent_registry_horovod(struct hvd_agent_registry *agents);
/* Fixed size: have all agents end their ranks; again: at once. */
void hvd_agent_registry_end_ranks(struct hvd_agent_registry *agents);
/* Add to `why` what to look at if a host does not register. */
void hvd_agent_registry_missing_hint(const struct hvd_agent_registry *agents, struct hvd_err *why);
/* Have all connected processes of admitted hosts pass a signal on to their ranks. */
void hvd_agent_registry_signal(struct hvd_agent_registry *agents, int sig);

#endif
