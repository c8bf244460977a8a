/* SPDX-License-Identifier: Apache-2.0 */
/*
 * agent.h - the agent of a host: it registers the host with the driver, takes part in the probe, gets the host's plan,
 * and lasts as long as the host's ranks.
 *
 * An agent has one source of ranks: it spawns them (spawned.h), or it observes ranks that Slurm, an MPI or jsrun has
 * started (observed.h). Both emit the same events: a rank has begun, has written output, has ended. Both take the
 * driver's orders as far as they can: start, stop, signal, end.
 *
 * All else that an agent does for its host is a feature: a struct of callbacks, which is one line of the table in
 * agent.c. A feature has the driver's messages that it reads, and may hear of the events.
 *
 * The source fills in the first part of struct hvd_agent and calls hvd_agent_run(). Whoever wants the agent to end, as
 * the source when its last rank has ended, calls hvd_agent_quit(). Then the agent ends the ranks, destroys the
 * features, sends its last messages, and closes the connection to the driver.
 */
#ifndef HVD_AGENT_H
#define HVD_AGENT_H

#include "driver_client.h"
#include "ending.h"
#include "lib/base/err.h"
#include "lib/base/log.h"
#include "lib/host/rank_end.h"
#include "lib/protocol/agent_settings.h"
#include "lib/protocol/boot.h"
#include "lib/protocol/conn.h"
#include "lib/protocol/handshake.h"
#include "lib/protocol/worlds.h"
#include "taskinfo.h"

#include <event2/event.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct hvd_feature_state;
struct hvd_rank_scan;
struct hvd_rank_source;

struct hvd_agent {
	/* Filled in before hvd_agent_run(); not owned. */
	struct event_base *base;
	const struct hvd_boot *boot;
	const struct hvd_session *session; /* hvd_driver_client_session() */
	struct hvd_taskinfo *info;         /* gets new numbers of the ranks with the plan */
	const struct hvd_log *log;
	const struct hvd_err
		*refusal;      /* with a code: the host cannot have ranks, and the driver learns why. NULL: it can */
	struct hvd_conn *conn; /* a connection to the driver, which is taken; NULL: there is none yet */
	struct hvd_ending *ending; /* a watch, which is taken; NULL: there is none yet */
	const struct hvd_rank_source *source;
	void *ranks; /* the source's */

	/* For the source and the features, to read. */
	struct hvd_driver_client *driver;   /* NULL: it cannot be connected to */
	struct hvd_agent_settings settings; /* from the plan on */
	int key_fd;                         /* of --run-func (rank_env.h), from the plan on; 0 = none */
	bool planned;                       /* the plan has arrived, and the ranks begin */
	bool elastic;               /* the plan is that of an elastic job: ranks start and end as long as it runs */
	bool unreachable;           /* the driver is, since the plan */
	struct hvd_rank_scan *scan; /* what the ranks use (rank_scan.h) */
	unsigned inspections;       /* of the ranks' stacks: how often one has begun, or ended */
	unsigned inspecting;        /* how many are under way */
	pid_t helper; /* a child of a feature that SIGKILL may not end: it waits for a driver; 0: there is none */
	int status;   /* what the process ends with, where that is of use; the source sets it, too */

	bool done; /* hvd_agent_done() was called, or must not send */

	/* Private. */
	struct hvd_feature_state *states; /* of the features, in the order of the table */
	size_t n_states;
	bool quits, orphaned, refused;
};

/* ---- sources of ranks ---- */

/* The last lines of a rank's output. The caller frees both. */
struct hvd_rank_lines {
	char *text; /* as the rank has written it; NULL: there is none */
	char *of;   /* what of the output the agent sees, in words */
};

/* start, stop, end, delivered, message and last may be NULL: the source cannot, or need not, do that. */
struct hvd_rank_source {
	/* The plan has arrived: begin. -1 with err set: as `refused`. */
	int (*plan)(void *ranks, const json_t *plan, struct hvd_err *err);
	/* The plan has arrived, but the host cannot have its ranks. Nobody was told. */
	void (*refused)(void *ranks, const struct hvd_err *why);
	/* This host has no ranks. */
	void (*spare)(void *ranks);
	/* The agent cannot go on, before the plan or, as when the connection ends, after it. */
	void (*failed)(void *ranks, const struct hvd_err *why);

	/* The driver's orders. */
	void (*start)(void *ranks, unsigned world, const json_t *order);
	void (*stop)(void *ranks, unsigned world, int id, bool kill);
	void (*signal)(void *ranks, int sig);
	void (*end)(void *ranks); /* all of them */

	/* What has this rank written last? */
	void (*lines)(const void *ranks, struct hvd_world_rank rank, struct hvd_rank_lines *lines);
	/* How many ranks have not ended. */
	size_t (*running)(const void *ranks);
	/* The driver has all messages that were sent. */
	void (*delivered)(void *ranks);
	/* Messages of the driver that are the source's, also before the plan. False: they are not. */
	bool (*message)(void *ranks, const char *type, const json_t *msg);
	/* This process has got a signal, or HVD_ENDING_STARTER. */
	void (*signalled)(void *ranks, int sig);
	/* The agent ends: end what is left, and release it. */
	void (*close)(void *ranks);
	/* After all else: send the last messages. */
	void (*last)(void *ranks);
};

/* Run the agent until it ends. */
void hvd_agent_run(struct hvd_agent *agent);
void hvd_agent_quit(struct hvd_agent *agent);

/* A rank is about to be started with these variables ({NAME:VALUE,…}), of which features may set some. */
void hvd_agent_rank_starts(struct hvd_agent *agent, struct hvd_world_rank rank, json_t *env);
/* The events. A rank that has never begun may end. `rank` and `id` are what the driver calls the process in its world: in an
 * elastic job that is no number of a rank, which changes from generation to generation. */
void hvd_agent_rank_began(struct hvd_agent *agent, struct hvd_world_rank rank, pid_t pid);
/* 0 bytes: all output of this rank passes here, from now on; without that it may be only its standard error. */
void hvd_agent_rank_output(struct hvd_agent *agent, struct hvd_world_rank rank, size_t bytes);
void hvd_agent_rank_ended(struct hvd_agent *agent, unsigned world, int id, const struct hvd_rank_end *end);
/* A rank has ended, and nobody knows how. */
void hvd_agent_rank_lost(struct hvd_agent *agent, struct hvd_world_rank rank);

/* Tell the driver, once, that the process that started the ranks is gone before them; `parent`: its program. */
void hvd_agent_orphaned(struct hvd_agent *agent, const char *parent);
/* Tell the driver, once, that the ranks have ended and the agent ends, unless there is no plan. A connection that ends
 * without this message looks like the loss of the agent. `ask`: does munged answer? Without it slurmstepd cannot tell
 * srun that ranks have ended. */
void hvd_agent_done(struct hvd_agent *agent, bool ask);

/* ---- features ---- */

struct hvd_agent_message {
	const char *type; /* NULL ends a list */
	void (*read)(void *self, const json_t *msg);
};

/* `self` is the feature's state: a struct of this size that begins with `struct hvd_agent *agent`, and is otherwise
 * zeroed. NULL: the feature has no use for it. */
struct hvd_feature {
	size_t size;
	/* There is a state for each world of the launch, which begins with a struct hvd_of_world. It gets its world's part of
	 * the plan, or NULL, and its messages, and hears of its ranks only. */
	bool by_world;
	const struct hvd_agent_message *early, *messages; /* before the plan, and after it */
	/* Before the host is registered. */
	void (*begin)(void *self);
	/* The connection to the driver is there. */
	void (*connected)(void *self);
	/* The plan has arrived. -1 with err set: the host cannot have ranks. */
	int (*plan)(void *self, const json_t *plan, struct hvd_err *err);
	/* Elastic: the rank starts next, with these variables. */
	void (*rank_starts)(void *self, struct hvd_world_rank rank, json_t *env);
	void (*rank_began)(void *self, struct hvd_world_rank rank, pid_t pid);
	void (*rank_output)(void *self, struct hvd_world_rank rank, size_t bytes);
	/* The rank has ended: before the driver is told, and after it. */
	void (*rank_ending)(void *self, struct hvd_world_rank rank);
	void (*rank_ended)(void *self, struct hvd_world_rank rank);
	/* The connection to the driver has ended. */
	void (*driver_lost)(void *self, const struct hvd_err *why);
	/* Release what belongs to the state. */
	void (*end)(void *self);
};

struct hvd_of_world {
	struct hvd_agent *agent;
	unsigned world;
};

/* Send a message of such a feature to the driver; takes the reference. */
static inline void hvd_of_world_send(const struct hvd_of_world *self, json_t *msg)
{
	hvd_driver_client_send(self->agent->driver, hvd_world_mark(msg, self->world));
}

extern const struct hvd_feature hvd_ports_feature, hvd_probe_feature, hvd_relay_feature, hvd_socket_owner_feature,
	hvd_rank_watch_feature, hvd_last_lines_feature, hvd_refused_ranks_feature, hvd_activity_feature,
	hvd_recheck_feature, hvd_worker_notify_feature, hvd_kill_connections_feature, hvd_rank_scan_feature,
	hvd_samples_feature, hvd_ready_feature;

#endif
