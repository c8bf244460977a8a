/* SPDX-License-Identifier: Apache-2.0 */
/*
 * notify.h - telling an elastic worker that hosts have come or gone.
 *
 * Each worker listens for it, and says where by a PUT of its own,
 * worker_addresses/HOST:LOCAL_RANK, whose value also holds the key for it. Only
 * what rank 0 is told has an effect: it tells the others itself.
 *
 * On the wire, one request for each connection: HMAC-SHA256 of the body (32
 * bytes), length of the body (4, little endian), body (a pickle, see
 * pickle.h). The answer looks the same. Formats: horovod/runner/elastic/worker.py
 * and horovod/runner/common/util/network.py of Horovod 0.28.
 */
#ifndef HVD_NOTIFY_H
#define HVD_NOTIFY_H

#include "addr.h"
#include "auth.h"
#include "deadline.h"
#include "err.h"

#include <event2/event.h>
#include <stddef.h>
#include <stdint.h>

#define HVD_WORKER_MAX_ADDRS 64
#define HVD_WORKER_IFACE_MAX 64

struct hvd_worker_addr {
	char iface[HVD_WORKER_IFACE_MAX];
	struct hvd_addr addr;
	in_port_t port;
};

/* Where a worker listens. A zeroed struct is empty. */
struct hvd_worker_addrs {
	struct hvd_worker_addr *v; /* loopback last */
	size_t n;
	struct hvd_key key;
};

/* Read the value of the PUT: base64 of a pickle of ({iface: [(addr, port), …], …}, key). Untrusted input is fine.
 * HVD_E_PROTO, HVD_E_LIMIT; after an error *out is empty. */
int hvd_worker_addrs_parse(const void *text, size_t len, struct hvd_worker_addrs *out, struct hvd_err *err);
void hvd_worker_addrs_clear(struct hvd_worker_addrs *addrs); /* wipes the key; NULL is fine */

/* What has changed: HostUpdateResult of Horovod. A worker that hears of removed hosts only, since it last looked, skips
 * its state sync. */
enum hvd_hosts_change {
	HVD_HOSTS_REMOVED = 1,
	HVD_HOSTS_ADDED = 2,
	HVD_HOSTS_MIXED = 3,
};

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
