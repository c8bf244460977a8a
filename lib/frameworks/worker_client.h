/* SPDX-License-Identifier: Apache-2.0 */
/*
 * worker_client.h - notifies an elastic worker of Horovod that hosts were added or removed.
 *
 * Each worker listens for such notifications (worker_addrs.h). Only rank 0 needs one: it notifies the other ranks
 * itself. A connection carries one request and its answer (worker_message.h).
 */
#ifndef HVD_WORKER_CLIENT_H
#define HVD_WORKER_CLIENT_H

#include "lib/base/deadline.h"
#include "lib/base/err.h"
#include "worker_addrs.h"
#include "worker_message.h"

#include <event2/event.h>
#include <stdint.h>

struct hvd_notify;

/* The notification is over; why->code is HVD_OK if the worker has acknowledged it. *why and the struct hvd_notify are
 * invalid after the call. */
typedef void hvd_notify_done(const struct hvd_err *why, void *arg);

/*
 * Send a notification to the worker at `to`, which is copied. The worker ignores a timestamp that is not larger than
 * the last one. The addresses are tried in turn: the next one as soon as one fails or has not answered for a moment.
 * `done` is called once, from the event loop. Its error is HVD_E_TIMEOUT when the deadline passed, HVD_E_NET when no
 * address could be reached, and HVD_E_PROTO when the worker closed the connection without an answer, as it does when
 * the key is wrong.
 */
struct hvd_notify *hvd_notify_send(struct event_base *base, const struct hvd_worker_addrs *to, int64_t timestamp,
				   enum hvd_hosts_change change, hvd_time deadline, hvd_notify_done *done, void *arg);
/*
 * Give the notification up; `done` is not called. Must not be called after `done`. NULL is fine.
 */
void hvd_notify_cancel(struct hvd_notify *notify);

#endif
