/* SPDX-License-Identifier: Apache-2.0 */
/*
 * worker_notify.h - the agent notifies an elastic worker on its host that the hosts of the job have changed.
 *
 * The launcher does not do so itself, because a worker listens only on the job's network, to which the launcher's host
 * may not belong.
 *
 *   from the launcher   {"t":"notify", "id":N, "to":TEXT, "time":T}   to: the worker's addresses, as the worker has
 *                                                                         published them
 *                                                                         (lib/frameworks/worker_addrs.h)
 *   to the launcher     {"t":"notified", "id":N, "why":TEXT}          why the worker was not reached, or ""
 */
#ifndef HVD_WORKER_NOTIFY_H
#define HVD_WORKER_NOTIFY_H

#include <event2/event.h>
#include <jansson.h>

struct hvd_worker_notify;

/*
 * Sends one notification at a time: a new one replaces one that is under way. `answer` gets the messages for the
 * launcher, and owns their references.
 */
struct hvd_worker_notify *hvd_worker_notify_create(struct event_base *base, void (*answer)(json_t *msg, void *arg),
						   void *arg);
void hvd_worker_notify_destroy(struct hvd_worker_notify *wn); /* NULL is fine */
void hvd_worker_notify_pass(struct hvd_worker_notify *wn, const json_t *msg);

#endif
