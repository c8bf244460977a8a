/* SPDX-License-Identifier: Apache-2.0 */
/*
 * worker_client.h - telling an elastic worker that hosts have come or gone.
 *
 * Each worker listens for it, and says where (worker_addrs.h). Only what rank 0 is
 * told has an effect: it tells the others itself. One request for each
 * connection, and its answer (worker_message.h).
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

/* It is over: why->code is HVD_OK when the worker has acknowledged it. The struct is released after the call. */
typedef void hvd_notify_done(const struct hvd_err *why, void *arg);

/*
 * Send it. `to` is copied. A worker passes over timestamps that are not larger than the last one. The
 * addresses are tried in turn, the next one as soon as one fails or is silent for a moment. `done` comes once, from the
 * event loop; a deadline that passes is HVD_E_TIMEOUT, a worker that hangs up without an answer (as it does when
 * the key or the message is not what it expects) HVD_E_PROTO, no address to be reached HVD_E_NET.
 */
struct hvd_notify *hvd_notify_send(struct event_base *base, const struct hvd_worker_addrs *to, int64_t timestamp,
				   enum hvd_hosts_change change, hvd_time deadline, hvd_notify_done *done, void *arg);
/* Give it up: `done` is not called. Not after `done`. NULL is fine. */
void hvd_notify_cancel(struct hvd_notify *notify);

#endif
