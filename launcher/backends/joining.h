/* SPDX-License-Identifier: Apache-2.0 */
/*
 * joining.h - agents that come by themselves (--launcher=join), and wait until the job needs them.
 *
 * This listens, and has an event loop, in which the job goes on. Each agent that has the key is a host of the job, of a
 * name that no other agent has had; several on one machine are several hosts. An agent serves once:
 * when it was released it is gone, and one that comes again is another.
 */
#ifndef HVD_JOINING_H
#define HVD_JOINING_H

#include "lib/base/err.h"
#include "lib/base/key.h"
#include "lib/base/log.h"
#include "lib/job/alloc.h"
#include "lib/protocol/handshake.h"

#include <event2/event.h>
#include <stdbool.h>

struct hvd_joining;

struct hvd_joining_opts {
	const char *key_file;  /* the secret that agents have; made if it is not there */
	const char *join_file; /* the join address is written here, and removed at the end; NULL = it is not */
	char *const *nics;     /* addresses of these interfaces come first (lib/net/nicspec.h); NULL = any */
	bool progress;         /* say who has come */
	const char *agent;     /* hvd-agent, for messages */
	const struct hvd_log *log;
};

/* Listen, and say where. Nothing of `opts` is owned, and all of it must outlive the result. NULL with err set. */
struct hvd_joining *hvd_joining_open(const struct hvd_joining_opts *opts, struct hvd_err *err);
/* Decline agents that wait, which takes a second at most; remove the file; free the event loop. Nobody else may use
 * that any more. NULL is fine. */
void hvd_joining_close(struct hvd_joining *joining);

struct event_base *hvd_joining_base(const struct hvd_joining *joining);
/* The session of the launch, in which agents have proven that they have the key. */
const struct hvd_session *hvd_joining_session(const struct hvd_joining *joining);

/* Wait until agents with `np` slots are there, at most so many seconds. *out, which is empty before, gets them: those
 * with an index first, by it, then the others as they came. All others are told from now on that they are not needed.
 * -1 with err set, which says who has come. A signal that ends this process removes the file first. */
int hvd_joining_gather(struct hvd_joining *joining, int np, double seconds, struct hvd_alloc *out, struct hvd_err *err);

/* Are all agents that wait or were taken on this machine, and in this network namespace? */
bool hvd_joining_on_this_machine(const struct hvd_joining *joining);

/* Elastic jobs: `changed` is called, from the event loop, soon after now and whenever hvd_joining_hosts() has changed.
 * NULL: not any more. */
void hvd_joining_watch(struct hvd_joining *joining, void (*changed)(void *arg), void *arg);
/* The agents that are there, whether or not they were taken; *out is empty before. */
void hvd_joining_hosts(const struct hvd_joining *joining, struct hvd_alloc *out);

/* The job needs this host now. -1 with err set when the agent is not waiting. */
int hvd_joining_take(struct hvd_joining *joining, const char *host, struct hvd_err *err);
/* The connection to the agent of a host that was taken, which is the caller's from now on. NULL: it has ended. */
struct hvd_conn *hvd_joining_conn(struct hvd_joining *joining, const char *host);
/* The connection has ended, or was not asked for. */
void hvd_joining_release(struct hvd_joining *joining, const char *host);

#endif
