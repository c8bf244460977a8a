/* SPDX-License-Identifier: Apache-2.0 */
/*
 * agent_registry_internal.h - what the files of the registry share: agent_registry.c (which hosts are expected),
 * departures.c (which go), spares.c (which are left out), admission.c (which are admitted), measure.c and silence.c (how
 * they are reached), agent_deadlines.c, agent_messages.c and own_names.c. No other file includes this.
 */
#ifndef HVD_AGENT_REGISTRY_INTERNAL_H
#define HVD_AGENT_REGISTRY_INTERNAL_H

#include "agent_registry.h"
#include "lib/base/timer.h"
#include "lib/host/this_host.h"
#include "lib/protocol/worlds.h"
#include "planner.h"

struct hvd_silence;

struct hvd_agent_registry {
	struct event_base *base;
	const struct hvd_driver_opts *opts;
	struct hvd_session *session;
	const struct hvd_agent_registry_ops *ops;
	void *arg;
	const struct hvd_log *log;

	struct hvd_this_host self; /* where this host can be reached */
	struct hvd_clients *clients;
	hvd_time deadline; /* of all hosts until the decision, where they share one; 0: it does not run yet */
	hvd_time next;     /* else: the earliest one of a host; 0: none is awaited */
	bool late;         /* the timer came too late, and comes again */
	struct hvd_timer *timer, *ask, *progress;
	unsigned ask_turn;         /* which of the hosts `ask` asks next */
	struct hvd_timer *changed; /* active: deadlines and admission are to be looked at */
	struct hvd_host_table table;
	struct {
		const struct hvd_host_listener *ops;
		void *arg;
	} listeners[HVD_MAX_WORLDS];
	unsigned n_listeners;
	bool listeners_open; /* they have opened the rendezvous */
	/* plan.elastic: hosts come and go; else the job fails without any of its hosts. */
	struct hvd_network_plan plan;
	enum {
		HVD_AGENTS_GATHERING, /* until all that are expected have registered */
		HVD_AGENTS_PROBING,
		HVD_AGENTS_MEASURING, /* the network between the hosts (measure.c) */
		HVD_AGENTS_OPEN,      /* the decision was made */
		HVD_AGENTS_OVER,      /* the start has failed */
	} phase;
	struct {
		uint32_t used;               /* hosts that were left out in place of a failure */
		struct hvd_measure *measure; /* of --preflight=full; NULL: has not begun */
		bool measured;               /* the measurement is over */
		struct hvd_timer *late;      /* hosts that are awaited have no more time; NULL = not yet */
	} spares;                            /* spares.c */
	unsigned silent_ms;                  /* hvd_agent_registry_silent_ms() */
	struct hvd_silence *silence;         /* watches the hosts after the decision; NULL: not yet */
	bool ended;                          /* hvd_agent_registry_end() */
	bool horovod;                        /* ranks of Horovod are there (own_names.c) */
};

/* Have the event loop update the deadlines, and take the next step of the admission if it is due. */
static inline void hvd_agent_registry_changed(struct hvd_agent_registry *agents)
{
	hvd_timer_soon(agents->changed);
}

/* How many more hosts may be left out in place of a failure. */
static inline uint32_t hvd_spares_left(const struct hvd_agent_registry *agents)
{
	uint32_t all = (uint32_t)agents->opts->spec->spares;

	return !agents->plan.elastic && agents->spares.used < all ? all - agents->spares.used : 0;
}

/* ---- departures.c ---- */

/* The host is out of the job. The job goes on without it, if it can. */
void hvd_agent_registry_lose(struct hvd_agent_registry *agents, uint32_t host, const struct hvd_err *why, bool unfit);
/* The same for a host that --preflight rejects: it is `bad`, and `hint` says what to do. */
void hvd_agent_registry_lose_bad(struct hvd_agent_registry *agents, uint32_t host, const char *bad, const char *hint,
				 bool unfit);
/* A host of a job of fixed size is left out, for this reason: it is AWAY, and its agent was told so. */
void hvd_agent_registry_remove_spare(struct hvd_agent_registry *agents, uint32_t host, const char *why);
/* Tell a process to end: of a host that was left out, or of a rank that the job does not have. */
void hvd_agent_registry_dismiss_spare(struct hvd_client *cl);
/* Tell an agent to end. Its later messages are ignored. */
void hvd_agent_registry_dismiss(struct hvd_client *cl);
/* Take the host out of table, plan and rendezvous, and dismiss its agent. `why`, for the event log, may be
 * NULL. */
void hvd_agent_registry_drop(struct hvd_agent_registry *agents, uint32_t host, const char *why);

/* ---- agent_deadlines.c ---- */

/* Do all hosts share one deadline? */
static inline bool hvd_agents_share_deadline(const struct hvd_agent_registry *agents)
{
	return !agents->plan.elastic && agents->phase < HVD_AGENTS_OPEN;
}

void hvd_agent_deadlines_create(struct hvd_agent_registry *agents);
/* Start the time that all hosts share, unless it has started before. */
void hvd_agent_deadlines_begin(struct hvd_agent_registry *agents);
/* A host's deadline or stage has changed. */
void hvd_agent_deadlines_update(struct hvd_agent_registry *agents);
/* The start is complete. Admitted hosts have to answer from now on. */
void hvd_agent_deadlines_open(struct hvd_agent_registry *agents);
/* Nothing is awaited any longer. */
void hvd_agent_deadlines_stop(struct hvd_agent_registry *agents);
/* An admitted host has answered. */
void hvd_agent_deadlines_answered(struct hvd_agent_registry *agents, uint32_t host);

/* ---- spares.c ---- */

/* A host has registered, or all hosts have got the order to probe: limit the time of those that are late. */
void hvd_spares_registered(struct hvd_agent_registry *agents);
void hvd_spares_probing(struct hvd_agent_registry *agents);
void hvd_spares_stop(struct hvd_agent_registry *agents);

/* All hosts have reported: lose those that --preflight rejects. -1 with err set: the job fails without them, and they
 * are more than the spares. */
int hvd_spares_judge(struct hvd_agent_registry *agents, struct hvd_err *err);
/* The plan cannot be made because of a host, or of a network that does not connect all hosts. True: a host was left
 * out, and the caller may try again. */
bool hvd_spares_unconnected(struct hvd_agent_registry *agents, const struct hvd_err *why);
/* A plan can be made. Leave out the worst hosts until as many remain as the job needs, and number the ranks anew: the
 * caller must make the plan once more. -1 with err set: too few slots are left. */
int hvd_spares_settle(struct hvd_agent_registry *agents, struct hvd_err *err);

/* ---- measure.c ---- */

/* Measure between all hosts that have reported, over the first network of the plan. Sets `mbps` and `rtt_us` in the host
 * table, and then calls `done`, once, from the event loop. */
struct hvd_measure *hvd_measure_begin(struct hvd_agent_registry *agents,
				      void (*done)(struct hvd_agent_registry *agents));
void hvd_measure_destroy(struct hvd_measure *measure); /* without a call of `done`; NULL is fine */
/* A message "measured" of this host. */
void hvd_measure_message(struct hvd_measure *measure, uint32_t host, const json_t *msg);
/* Between which hosts the current step has no figure yet, for messages; "" if none is awaited. Caller frees. */
char *hvd_measure_missing(const struct hvd_measure *measure);

/* ---- silence.c ---- */

/* A host from which nothing has come for so long is silent. */
#define HVD_SILENT_MS 2000
/* Watch the admitted hosts. */
struct hvd_silence *hvd_silence_watch(const struct hvd_agent_registry *agents);
void hvd_silence_destroy(struct hvd_silence *silence); /* NULL is fine */
/* A message "tried" of this host's agent. */
void hvd_silence_message(struct hvd_silence *silence, uint32_t witness, const json_t *msg);

/* ---- admission.c ---- */

/* Take the next step if no host is awaited any longer. Call this when a host has registered, reported or gone. */
void hvd_admission_check(struct hvd_agent_registry *agents);
/* Order a probe from all hosts that have registered and have no order yet. */
void hvd_admission_probe(struct hvd_agent_registry *agents);
/* A host that came after the decision has reported. */
void hvd_admission_join(struct hvd_agent_registry *agents, uint32_t host);

/* ---- own_names.c ---- */

/* The reader of the message "own-name". */
void hvd_own_name_message(void *agents, struct hvd_client *cl, const json_t *msg);

/* ---- hvd_clients_ops: agent_messages.c, departures.c ---- */

void hvd_agent_registry_message(struct hvd_client *cl, json_t *msg, void *arg);
void hvd_agent_registry_gone(struct hvd_client *cl, const struct hvd_err *why, void *arg);

#endif
