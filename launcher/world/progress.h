/* SPDX-License-Identifier: Apache-2.0 */
/*
 * progress.h - does any rank of a world make progress, for --hang-timeout?
 *
 * The driver asks the agents to report when their ranks become idle, and when they are no longer idle
 * (agent/activity.c), and asks the store of the rendezvous how often it was changed. It asks an agent again that has
 * been silent for half of the timeout. If the agent does not answer, its host is frozen, and its ranks count as idle
 * since its last message. So a job costs each host one message in half of the timeout, and one for each change.
 *
 * When all ranks have been idle, and the store unchanged, for the timeout, `stalled` is called: once, and again only
 * after there was progress. It is also called when some ranks have used their processors, but none has done anything else
 * for the timeout: ranks compute, or they hang in a loop or poll for each other, which their stacks tell. If they compute
 * (hvd_progress_works()), the next such call follows after a timeout at the earliest, and after more of them each time.
 * `stalled` is not called while
 *   - the ranks of a host are not watched yet, in the first seconds;
 *   - a rank waits for input of its user;
 *   - there is no rank.
 *
 * Time in which this process was stopped does not count.
 */
#ifndef HVD_DRIVER_PROGRESS_H
#define HVD_DRIVER_PROGRESS_H

#include "launcher/hosts/clients.h"
#include "launcher/hosts/host_table.h"
#include "lib/base/deadline.h"
#include "lib/rendezvous/service.h"

#include <jansson.h>

struct hvd_stalled_host {
	const char *name;
	double idle;  /* seconds */
	bool answers; /* else it is frozen, or cannot be reached */
};

struct hvd_stall {
	double seconds; /* no rank has made progress for so long */
	bool busy;      /* except by using its processor, which some have done */
	const struct hvd_stalled_host *hosts;
	size_t n;
	struct hvd_progress *progress;
};

typedef void hvd_stalled_fn(const struct hvd_stall *stall, void *arg);

struct hvd_progress;

/* For the ranks of this world. `timeout`: seconds, more than 0. Nothing is owned. Nothing is asked until
 * hvd_progress_begin(). */
struct hvd_progress *hvd_progress_create(struct event_base *base, unsigned world, double timeout,
					 struct hvd_rv_service *service, const struct hvd_host_table *table,
					 hvd_stalled_fn *stalled, void *arg);
void hvd_progress_destroy(struct hvd_progress *progress); /* NULL is fine, here and in what follows */

/* The ranks run, or start now, on this many hosts; 0: on hosts that come and go. Also: there was progress that only the
 * caller can see, such as the start of ranks. */
void hvd_progress_begin(struct hvd_progress *progress, uint32_t hosts);
/* Was there progress since `stalled` was called last? */
bool hvd_progress_again(const struct hvd_progress *progress);
/* The ranks that only use their processors do compute, after a call of `stalled` for them. */
void hvd_progress_works(struct hvd_progress *progress);
/* No progress of ranks is expected any longer. */
void hvd_progress_stop(struct hvd_progress *progress);

/* This client watches ranks. Call it for each, before or after the begin. */
void hvd_progress_add(struct hvd_progress *progress, struct hvd_client *cl);
/* The client's connection has ended, or its ranks have. */
void hvd_progress_remove(struct hvd_progress *progress, const struct hvd_client *cl);

/* The message "activity" of a client. */
void hvd_progress_message(struct hvd_progress *progress, const struct hvd_client *cl, const json_t *msg);

/* ---- the decision, by itself ---- */

struct hvd_watcher {
	struct hvd_client *cl;
	uint32_t host;
	hvd_time heard, asked; /* the last message; the last question that is not answered yet, 0 = none */
	hvd_time since;        /* idle: since when; 0: not idle */
	hvd_time quiet;        /* idle, or only using processors: since when; 0: neither, or as `since` */
	bool answered, input;  /* it has answered at all; a rank waits for input */
	int64_t ranks;
};

struct hvd_progress_state {
	const struct hvd_watcher *watchers;
	size_t n;
	uint32_t hosts;    /* how many must be watched; 0 = any number */
	uint32_t covered;  /* how many are watched, or were */
	hvd_time begun;    /* the ranks' start */
	hvd_time progress; /* the last that was not a rank's: of the store, or a start */
};

/* Since when is there no progress? `now`: there is progress, or it is not known. */
hvd_time hvd_progress_none_since(const struct hvd_progress_state *state, double timeout, hvd_time now);
/* The same, where to use a processor is no progress. */
hvd_time hvd_progress_quiet_since(const struct hvd_progress_state *state, double timeout, hvd_time now);

#endif
