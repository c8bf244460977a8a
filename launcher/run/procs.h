/* SPDX-License-Identifier: Apache-2.0 */
/*
 * procs.h - the processes that a launch runs on its own host, and what has become of them.
 *
 * Where the backend starts hosts, process i is that of host i, and has done
 * its work when all ranks of the host have been reported. One that ends before
 * that is lost. At most fan_out of them are on their way to their hosts at a
 * time; the next starts when one has arrived or ended.
 */
#ifndef HVD_PROCS_H
#define HVD_PROCS_H

#include "launcher/backends/backend.h"
#include "lib/protocol/auth.h"

#include <event2/event.h>
#include <sys/types.h>

struct hvd_procs;

struct hvd_procs_ops {
	void (*ended)(int status, void *arg); /* of each process, status as from waitpid(2) */
	/* It ended before its ranks; `why` says what that means. Comes before `ended`. */
	void (*lost)(const struct hvd_err *why, void *arg);
	void (*all_ended)(void *arg); /* once */
};

struct hvd_procs_opts {
	const char *boot;          /* text for the shims */
	const struct hvd_key *key; /* for backends that hand it over themselves; else NULL */
	unsigned long nofile;      /* soft limit of open files */
	bool no_stdin;             /* what hvdrun itself reads goes to nobody */
};

/* `launch`, `backend` and `opts` are not owned and must outlive it. */
struct hvd_procs *hvd_procs_create(struct event_base *base, struct hvd_launch *launch,
				   const struct hvd_backend *backend, const struct hvd_procs_opts *opts,
				   const struct hvd_procs_ops *ops, void *arg);
/* Start what may be started now. -1 with err set when that fails. */
int hvd_procs_start(struct hvd_procs *procs, struct hvd_err *err);

void hvd_procs_came(struct hvd_procs *procs, size_t host);            /* the host has registered */
void hvd_procs_rank_ended(struct hvd_procs *procs, const char *host); /* one of its ranks was reported */
void hvd_procs_release(struct hvd_procs *procs);                      /* no rank is missed any longer */

void hvd_procs_reap(struct hvd_procs *procs); /* after SIGCHLD */
void hvd_procs_stop(struct hvd_procs *procs); /* start no more */
void hvd_procs_signal(struct hvd_procs *procs, int sig);
pid_t hvd_procs_pid(const struct hvd_procs *procs); /* of the first; 0 when it has ended or was not started */

/* Ends what is left. NULL is fine. -1 when output could not be written; the user was told why. */
int hvd_procs_destroy(struct hvd_procs *procs);

#endif
