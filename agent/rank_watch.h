/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rank_watch.h - answers the driver's questions about this host's ranks while they run.
 *
 * The watch only looks at ranks: it sends nothing to their processes, and changes nothing of them.
 *
 * Messages of the driver, and the answers:
 *   {"t":"stacks", "id":I, "seconds":S}      where are the ranks (stacks.h)? Answered within S seconds (60 at most) and
 *                                            one by
 *   {"t":"stacks", "id":I, "ranks":[…]}      stacks.h has the format. A question that arrives during another one is
 *                                            answered by {"t":"stacks", "id":I, "busy":true}
 *   {"t":"watch", "every":SEC}               do the ranks make progress? activity.h has this message, and its answer
 *
 * Without a question, if a rank is one of PyTorch whose store is the launch's:
 *   {"t":"refused", "at":ADDRESS, "port":P, "ranks":[RANK,…], "clients":BOOL}
 *                                            something on this host tries again and again to reach this port of it,
 *                                            where nobody listens (refused.h). It may be another program than one of
 *                                            these ranks, which are those of PyTorch. clients: PyTorch lets no rank
 *                                            serve (TORCHELASTIC_USE_AGENT_STORE=True)
 */
#ifndef HVD_RANK_WATCH_H
#define HVD_RANK_WATCH_H

#include "agent.h"

#include <event2/event.h>
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* A rank and its main process. */
struct hvd_watched_rank {
	uint32_t rank;
	pid_t pid;
};

struct hvd_rank_watch;

/* `send` gets the answers and takes their reference; hvd_rank_watch_create() does not call it. `log` and `base` are not
 * owned and must outlive the watch. */
struct hvd_rank_watch *hvd_rank_watch_create(struct event_base *base, void (*send)(json_t *msg, void *arg), void *arg,
					     const struct hvd_log *log);
void hvd_rank_watch_destroy(struct hvd_rank_watch *watch); /* NULL is fine; ends what is being asked */

/* A rank runs in this process. A known rank gets the new process. */
void hvd_rank_watch_add(struct hvd_rank_watch *watch, uint32_t rank, pid_t pid);
/* The rank has ended, and its pid may become another process's. */
void hvd_rank_watch_remove(struct hvd_rank_watch *watch, uint32_t rank);
#endif
