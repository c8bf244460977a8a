/* SPDX-License-Identifier: Apache-2.0 */
/*
 * worker_addrs.h - where an elastic worker listens for notifications, and the key that its messages are signed with.
 *
 * A worker of Horovod publishes both with a PUT at worker_addresses/HOST:LOCAL_RANK of the rendezvous. The value is the
 * base64 of a pickle of ({iface: [(addr, port), …], …}, key). Format: WorkerNotificationManager in
 * horovod/runner/elastic/worker.py of Horovod 0.28.
 */
#ifndef HVD_WORKER_ADDRS_H
#define HVD_WORKER_ADDRS_H

#include "lib/base/err.h"
#include "lib/net/addr.h"
#include "lib/protocol/auth.h"

#include <stddef.h>

#define HVD_WORKER_MAX_ADDRS 64
#define HVD_WORKER_IFACE_MAX 64 /* bytes of an interface's name, its zero byte included */

struct hvd_worker_addr {
	char iface[HVD_WORKER_IFACE_MAX];
	struct hvd_addr addr;
	in_port_t port;
};

/* A zeroed struct is empty. */
struct hvd_worker_addrs {
	struct hvd_worker_addr *v; /* owned; loopback addresses last */
	size_t n;
	struct hvd_key key;
};

/* Read the value of the PUT. On success the caller clears *out; after an error (HVD_E_PROTO, HVD_E_LIMIT) it is empty.
 * Untrusted input is fine. */
int hvd_worker_addrs_parse(const void *text, size_t len, struct hvd_worker_addrs *out, struct hvd_err *err);
void hvd_worker_addrs_clear(struct hvd_worker_addrs *addrs); /* wipes the key; NULL is fine */

#endif
