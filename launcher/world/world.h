/* SPDX-License-Identifier: Apache-2.0 */
/*
 * world.h - ranks of a launch on the hosts of a registry (launcher/hosts/agent_registry.h): their layout, the store
 * where they rendezvous, and what is watched while they run. A launch may have several worlds on the same hosts. Each has
 * a number, ranks from 0 on, and a store of its own, at which only its ranks meet.
 *
 * The world hears of its hosts when they come and go. It opens the store before they probe, gives each host that is
 * admitted its plan, and reads what agents report about ranks (rank_messages.c). It knows nothing of how hosts are found
 * and started.
 *
 * The ranks of a job of fixed size have the layout that their hosts have registered, and start with their plan. Those of
 * an elastic job have a layout for each generation, and are started and ended by the functions below.
 *
 * The process of a rank has an id that no other process of the world has. In a job of fixed size this is the number of
 * the rank. In an elastic job the number of a rank changes from generation to generation, and the id is that of
 * machine.h.
 */
#ifndef HVD_WORLD_H
#define HVD_WORLD_H

#include "gloo_peers.h"
#include "launcher/hosts/agent_registry.h"
#include "lib/host/host_share.h"
#include "lib/host/layout.h"
#include "lib/host/rank_end.h"
#include "lib/host/unkillable.h"
#include "progress.h"
#include "ready.h"

struct hvd_host_questions;
struct hvd_rv;
struct hvd_stacks;
struct hvd_store_waits;
struct hvd_straggler;
struct hvd_usage;
struct hvd_world;

/* Each may be NULL, but for the last. `host` is the number of the host. Times are by this process's clock. */
struct hvd_world_ops {
	/* The rendezvous is open in this process, and no rank knows of it yet. -1 with err set: the start fails. */
	int (*opened)(struct hvd_rv *rv, void *arg, struct hvd_err *err);
	/* The process of a rank has ended; end->ended_at is known, and end->rank is the id. */
	void (*ended)(uint32_t host, const struct hvd_rank_end *end, void *arg);
	/* The rank's shim has ended without a report, and the rank with it. */
	void (*shim_lost)(uint32_t host, uint32_t id, void *arg);
	/* SIGKILL has not ended the process, which had this rank, or a process that it has left. */
	void (*unkillable)(uint32_t host, uint32_t id, uint32_t rank, const struct hvd_unkillable *what, void *arg);
	/* Output of ranks could not be written; the agent has told the user why. */
	void (*output_lost)(void *arg);
	/* Answers to hvd_world_notify() and hvd_world_kill_connections(). `why` is "": the worker has acknowledged; all
	 * connections were broken. */
	void (*notified)(uint32_t id, const char *why, void *arg);
	void (*connections_killed)(uint32_t host, int broken, const char *why, void *arg);
	/* With --hang-timeout: no rank makes progress (progress.h). */
	hvd_stalled_fn *stalled;
	/* Elastic: the ranks of the generation are ready, as opts->ready says, or they are not in time (ready.h). */
	struct hvd_ready_ops ready;
	/* The ranks have not all called init_process_group() in time (init_watch.h). Not NULL. */
	void (*init_failed)(const struct hvd_err *why, void *arg);
};

/* Become one of the registry's listeners. Nothing is owned, and all must outlive the world, except the registry, which is
 * destroyed first. NULL with err set. */
struct hvd_world *hvd_world_create(struct event_base *base, struct hvd_agent_registry *agents,
				   const struct hvd_driver_opts *opts, const struct hvd_world_ops *ops, void *arg,
				   const struct hvd_log *log, struct hvd_err *err);
void hvd_world_destroy(struct hvd_world *world); /* NULL is fine */

/* What an agent must know to connect, and to serve the ranks of a launch's worlds, which are all of them in order. */
void hvd_worlds_boot(struct hvd_world *const *worlds, unsigned n, struct hvd_boot *boot);
/* Fixed size: the layout, since the decision. Elastic: that of the generation. */
const struct hvd_layout *hvd_world_layout(const struct hvd_world *world);
/* What the user wants of these ranks. */
const struct hvd_launch_spec *hvd_world_spec(const struct hvd_world *world);
/* The name of these ranks in a launch with roles; else NULL. */
const char *hvd_world_role(const struct hvd_world *world);
/* The log of these ranks, whose messages begin with that name. */
const struct hvd_log *hvd_world_log(const struct hvd_world *world);
/* The object that asks where the ranks are. The world owns it. */
struct hvd_stacks *hvd_world_stacks(const struct hvd_world *world);
/* What the ranks use. The world owns it. */
const struct hvd_usage *hvd_world_usage(const struct hvd_world *world);
/* Does the rank hold up the others (stragglers.h)? NULL: it does not, as far as is known. */
const struct hvd_straggler *hvd_world_straggler(const struct hvd_world *world, uint32_t rank);
/* Which ranks need this host's agent to come to the store, and have not? For messages; NULL: none. The caller frees it. */
char *hvd_world_cannot_init(const struct hvd_world *world, uint32_t host);
/* Who asks which ranks wait in the TCPStore; NULL: there is none. And who asks agents about their ranks. The world owns both. */
struct hvd_store_waits *hvd_world_store_waits(const struct hvd_world *world);
struct hvd_host_questions *hvd_world_host_questions(const struct hvd_world *world);
/* Tell the ranks of the store with this number, which is not 0, that those of all worlds share (job_store.h). */
void hvd_world_share_store(struct hvd_world *world, unsigned store);
/* With opts->role_ports: the i-th port that is reserved on this host for its `local_rank`-th rank of this world, which may come
 * there later. 0: there is none, or the host has not registered. */
in_port_t hvd_world_rank_port(const struct hvd_world *world, uint32_t host, int local_rank, unsigned i);
/* A rank has come to the rendezvous; `all`: and no other is missing. The world knows by itself of PyTorch's. */
void hvd_world_init(struct hvd_world *world, bool all);

/* Fixed size: the ranks start, and are awaited at the rendezvous. */
void hvd_world_begin(struct hvd_world *world);

/* ---- elastic ---- */

/* Ranks that are started from now on belong to this layout, of which this takes ownership. Its hosts are all that the
 * job has ever had, by number. */
void hvd_world_prepare(struct hvd_world *world, struct hvd_layout *layout);
/* A new generation of this layout, of which this takes ownership, begins; ops->ready follows, before its ranks are started
 * or after. The rendezvous forgets the last generation.
 * If the new one was prepared, the values that its new ranks have stored there stay. */
void hvd_world_generation(struct hvd_world *world, struct hvd_layout *layout, bool prepared);
/* No rank is left of the last generation, and all of the next one are new: forget what ranks have stored in the
 * TCPStore. The new ranks, for which the driver waits (init_watch.h), learn the number of restarts after failures. */
void hvd_world_renew(struct hvd_world *world, int restarts);
/* The generation is to end, or has: do not wait until its ranks are ready. Once more does no harm. */
void hvd_world_ready_stop(struct hvd_world *world);
/* Ranks were started, or have made progress (progress.h). */
void hvd_world_progress(struct hvd_world *world);

/* Start a rank of the prepared layout, whose process has this id; its host has `slots` slots. With a share of the host the
 * ranks of this world there keep to it, and are bound as hvd_world_spec() says. NULL: they have the whole host, and are
 * bound as its agent was told when it was started. Does nothing on a host that is not admitted. */
void hvd_world_start(struct hvd_world *world, uint32_t id, int rank, int slots, const struct hvd_host_share *share);
/* End a rank with SIGTERM, and after the time of --kill-wait with SIGKILL; `kill`: with SIGKILL at once. */
void hvd_world_stop(struct hvd_world *world, uint32_t host, uint32_t id, bool kill);
/* Have the host's agent notify a worker that hosts have changed; `to` is the address that the worker has published. */
void hvd_world_notify(struct hvd_world *world, uint32_t host, uint32_t id, const char *to, int64_t when);
/* Have all agents break those connections of their ranks that `peers` knows. `connections_killed` follows from each
 * agent that got the order. Returns how many agents that are. */
int hvd_world_kill_connections(struct hvd_world *world, const struct hvd_gloo_peers *peers);

#endif
