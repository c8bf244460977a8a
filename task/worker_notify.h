/* SPDX-License-Identifier: Apache-2.0 */
/*
 * worker_notify.h - the shim tells a rank of its host that the job's hosts have changed.
 *
 * It is done from here, and not by the launcher, since a rank listens on the
 * job's network only, to which the launcher's host need not belong.
 *
 *   from the launcher   {"t":"notify", "worker":N, "to":TEXT, "time":T}   TEXT: as the worker has put it
 * (lib/frameworks/worker_addrs.h) to the launcher     {"t":"notified", "worker":N, "why":TEXT}          "": it has
 * heard
 */
#ifndef HVD_WORKER_NOTIFY_H
#define HVD_WORKER_NOTIFY_H

#include <event2/event.h>
#include <jansson.h>

struct hvd_worker_notify;

/* One at a time; a new one takes the place of the last. `answer` gets messages for the launcher, to keep. */
struct hvd_worker_notify *hvd_worker_notify_create(struct event_base *base, void (*answer)(json_t *msg, void *arg),
						   void *arg);
void hvd_worker_notify_destroy(struct hvd_worker_notify *notice); /* NULL is fine */
void hvd_worker_notify_pass(struct hvd_worker_notify *notice, const json_t *msg);

#endif
