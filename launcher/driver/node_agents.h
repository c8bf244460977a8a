/* SPDX-License-Identifier: Apache-2.0 */
/*
 * node_agents.h - the shims of an elastic job's hosts: who has come, does he fit, and what he is told to start.
 *
 * It does for hosts that come and go what the driver (driver.h) does for a
 * launch of fixed size, with the same parts. The hosts that are expected at
 * first are probed together, and choose the networks. One that comes later
 * must reach hosts that are there over the first of these networks, and the rendezvous; one that does not is refused,
 * and the job goes on without it. Each host has the start timeout to come,
 * and again for what it reaches.
 *
 * Hosts are known by their number in the job (machine.h), and ranks, whose numbers change, by the id of their worker.
 *
 *   to a shim     {"t":"plan", "ranks":[], "stay":true}                     it is one of us
 *                 {"t":"start", "worker":N, "slot":I, "slots":N, "env":{…}} one more rank
 *                 {"t":"stop", "worker":N, "now":BOOL}
 *   from a shim   {"t":"exit", "worker":N, "status":S}
 * and what task/worker_notify.h, task/kill_connections.h, driver.h, probe.h and node.h have.
 */
#ifndef HVD_NODE_AGENTS_H
#define HVD_NODE_AGENTS_H

#include "driver_opts.h"
#include "gloo_peers.h"
#include "lib/job/layout.h"
#include "lib/protocol/boot.h"
#include "lib/protocol/handshake.h"

struct hvd_node_agents_ops {
	/* The rendezvous is open. -1 with err set: the job fails. */
	int (*opened)(struct hvd_rv *rv, void *arg, struct hvd_err *err);
	void (*came)(uint32_t host, void *arg); /* it has registered */
	void (*here)(uint32_t host, void *arg); /* … and fits */
	/* It does not come, or does not fit, or its connection has ended. `unfit`: it need not be tried again. */
	void (*gone)(uint32_t host, const struct hvd_err *why, bool unfit, void *arg);
	void (*left)(uint32_t host, void *arg); /* the connection of one that was told to end has ended */
	void (*exited)(uint32_t worker, int status, void *arg);
	void (*notified)(uint32_t worker, const char *why, void *arg); /* "": it has heard */
	/* Connections of its ranks were broken: so many; `why` not all, or "". */
	void (*cut)(uint32_t host, int broken, const char *why, void *arg);
	void (*output_lost)(void *arg); /* a shim could not write all of its ranks' output, and has told the user why */
	void (*failed)(const struct hvd_err *why, void *arg); /* the first hosts cannot be one job */
};

struct hvd_node_agents;

/* As hvd_driver_create(); of opts it uses port range, loopback, timeout, nics, env and id_text. */
struct hvd_node_agents *hvd_node_agents_create(struct event_base *base, const struct hvd_driver_opts *opts,
					       struct hvd_session *session, const struct hvd_node_agents_ops *ops,
					       void *arg, const struct hvd_log *log, struct hvd_err *err);
void hvd_node_agents_destroy(struct hvd_node_agents *agents); /* NULL is fine */
void hvd_node_agents_boot(const struct hvd_node_agents *agents, struct hvd_boot *boot);

/* Its shim was started. */
void hvd_node_agents_expect(struct hvd_node_agents *agents, uint32_t host, const char *name);
/* It is not wanted any longer: told to end, if it is there. `gone` is not called. */
void hvd_node_agents_forget(struct hvd_node_agents *agents, uint32_t host);
bool hvd_node_agents_is_here(const struct hvd_node_agents *agents, uint32_t host);

/* Ranks that are started from now on are for this layout, whose hosts are all that the job has ever had, by number.
 * Taken over. */
void hvd_node_agents_prepare(struct hvd_node_agents *agents, struct hvd_layout *layout);
/* A new generation of this layout, taken over. The rendezvous forgets the last one; when this one was prepared, what
 * its new ranks have said there stays. */
void hvd_node_agents_generation(struct hvd_node_agents *agents, struct hvd_layout *layout, bool prepared);
const struct hvd_layout *hvd_node_agents_layout(const struct hvd_node_agents *agents);
void hvd_node_agents_start(struct hvd_node_agents *agents, uint32_t worker, int rank, int slots);
void hvd_node_agents_stop(struct hvd_node_agents *agents, uint32_t host, uint32_t worker, bool at_once);

/* Have the shim of its host tell a worker that hosts have changed; `to` is what it said of where it listens. */
void hvd_node_agents_notify(struct hvd_node_agents *agents, uint32_t host, uint32_t worker, const char *to,
			    int64_t when);

/* Have all shims break the connections of their ranks that these pairs have there: `cut` follows from each that was
 * told. Returns how many were. */
int hvd_node_agents_cut(struct hvd_node_agents *agents, const struct hvd_gloo_peers *pairs);

/* All shims: end your ranks and yourselves (twice: at once); pass on a signal. */
void hvd_node_agents_end(struct hvd_node_agents *agents);
void hvd_node_agents_signal(struct hvd_node_agents *agents, int sig);

#endif
