/* SPDX-License-Identifier: Apache-2.0 */
/*
 * procs.h - the processes that a job runs on hvdrun's own host: one for the whole job, or one for each of its hosts. In
 * the place of such a process there may be a self-registering agent (agent_pool.h).
 *
 * A static job starts all of them (hvd_procs_start()), at most the backend's fan_out at a time: the next one starts
 * when the host of an earlier one has registered, or when the process of an earlier one has ended. An elastic job
 * starts one when a host comes (hvd_procs_start_host()) and releases it when the host goes.
 *
 * Where a process belongs to a host, it is expected to run until all ranks of the host have been reported, or until it
 * is released. A process that ends before that is lost.
 *
 * Ends: a process that should end is normally told so by others (over its node agent's connection, or by the backend),
 * and has a deadline. When the deadline passes, it gets SIGTERM, unless it was asked to end already, and then SIGKILL.
 * In an elastic job a process that has only output left to pass on gets more time while hvdrun's own output is blocked.
 */
#ifndef HVD_PROCS_H
#define HVD_PROCS_H

#include "backend.h"
#include "lib/protocol/auth.h"

#include <event2/event.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct hvd_procs;

/* Hosts are known by their number in the job. */
struct hvd_procs_ops {
	/* A process that was not released has ended; status as from waitpid(2). May be NULL. */
	void (*ended)(int status, void *arg);
	/* A process has ended before its host's ranks did, or could not be started when it was its turn; `why` says
	 * what that means. Comes before `ended`. */
	void (*lost)(uint32_t host, const struct hvd_err *why, void *arg);
	/* Elastic: a process is about to be killed, perhaps before it has passed on all that its ranks wrote. */
	void (*cut_short)(uint32_t host, void *arg);
	void (*none_left)(void *arg); /* the last process has ended, and none is waiting to be started */
};

struct hvd_procs_opts {
	const char *boot;          /* text that tells the node agents and rank shims where the driver is */
	const struct hvd_key *key; /* for backends that hand the key over themselves; else NULL */
	unsigned long nofile;      /* soft limit of open files */
	double kill_wait;          /* how long node agents give ranks that are to end, in seconds */
	bool elastic;              /* hosts come and go; hvdrun's stdin goes to nobody */
};

/* `launch` (of an elastic job: what all hosts have in common), `backend`, `opts` and `ops` are not owned and must
 * outlive it. */
struct hvd_procs *hvd_procs_create(struct event_base *base, struct hvd_launch *launch,
				   const struct hvd_backend *backend, const struct hvd_procs_opts *opts,
				   const struct hvd_procs_ops *ops, void *arg);
/* Ends the processes that are left, and writes the rest of their output, blocking if need be. NULL is fine. -1 when
 * output could not be written; the user was told why. */
int hvd_procs_destroy(struct hvd_procs *procs);

/* The processes have ended: write what they have written before anything else is said. */
void hvd_procs_drain(struct hvd_procs *procs);

/* Start the processes that the backend has prepared for the launch, as many as fan_out allows now. -1 with err set when
 * one cannot be started. */
int hvd_procs_start(struct hvd_procs *procs, struct hvd_err *err);
/* Start the process of one host. -1 with err set. */
int hvd_procs_start_host(struct hvd_procs *procs, uint32_t host, const struct hvd_alloc_host *listed,
			 struct hvd_err *err);

/* The host has so many ranks, and not one for each of its slots. */
void hvd_procs_set_ranks(struct hvd_procs *procs, uint32_t host, int ranks);
void hvd_procs_registered(struct hvd_procs *procs, uint32_t host);    /* the host has registered */
void hvd_procs_rank_ended(struct hvd_procs *procs, const char *host); /* a rank of the host was reported */
/* An elastic job does not need this host's process any longer. Its node agent was told to end, or with `ask` nobody
 * could tell it: then the process gets SIGTERM at once. */
void hvd_procs_release(struct hvd_procs *procs, uint32_t host, bool ask);
/* The node agent of a released host, or of any when all are to end, has left: its process has only output to pass
 * on. */
void hvd_procs_agent_left(struct hvd_procs *procs, uint32_t host);

/* The node agent has left, and the process will never learn of that: give it a moment for the output that is on its
 * way. False: there is no such process left. */
bool hvd_procs_stuck(struct hvd_procs *procs, uint32_t host);

/* The host of this name is lost: when all are to end, its process gets only a moment. */
void hvd_procs_lost(struct hvd_procs *procs, const char *host);

/* All processes have been told to end: start no more, and kill those that are left after so many seconds. A later call
 * sets the deadline anew. */
void hvd_procs_end(struct hvd_procs *procs, int seconds);
/* After that: the host has no ranks whose output may be missing, so its node agent gets a few seconds only. */
void hvd_procs_idle(struct hvd_procs *procs, uint32_t host);
bool hvd_procs_ending(const struct hvd_procs *procs); /* were they? */
/* The user does not want to wait for the last of the output: no process gets more time. */
void hvd_procs_drop_output(struct hvd_procs *procs);

void hvd_procs_reap(struct hvd_procs *procs); /* after SIGCHLD */
void hvd_procs_signal(struct hvd_procs *procs, int sig);
unsigned hvd_procs_running(const struct hvd_procs *procs);
pid_t hvd_procs_pid(const struct hvd_procs *procs); /* of a job's only process; 0 when it has ended */

#endif
