/* SPDX-License-Identifier: Apache-2.0 */
/*
 * worker_message.h - what a worker's notification service hears and says, as bytes.
 *
 * A frame is HMAC-SHA256 of the body under the worker's key (32 bytes), the
 * body's length (4 bytes, little endian), and the body, a pickle. Formats:
 * horovod/runner/common/util/network.py and horovod/runner/elastic/worker.py of
 * Horovod 0.28. Both ends are here, so that tests can be workers.
 */
#ifndef HVD_WORKER_MESSAGE_H
#define HVD_WORKER_MESSAGE_H

#include "lib/base/err.h"
#include "lib/protocol/auth.h"

#include <stddef.h>
#include <stdint.h>

#define HVD_MESSAGE_HEAD     36   /* in front of the body */
#define HVD_MESSAGE_MAX_BODY 4096 /* of those that are read here */

enum hvd_message_kind {
	HVD_MESSAGE_PING,          /* PingRequest */
	HVD_MESSAGE_HOSTS_UPDATED, /* HostsUpdatedRequest */
	HVD_MESSAGE_ACK,           /* AckResponse */
	HVD_MESSAGE_PONG,          /* PingResponse */
	HVD_MESSAGE_OTHER,         /* an object of any other class */
};

/* What has changed: HostUpdateResult of Horovod. A worker that hears of removed hosts only, since it last looked, skips
 * its state sync. */
enum hvd_hosts_change {
	HVD_HOSTS_REMOVED = 1,
	HVD_HOSTS_ADDED = 2,
	HVD_HOSTS_MIXED = 3,
};

struct hvd_message {
	enum hvd_message_kind kind;
	int64_t timestamp;  /* HOSTS_UPDATED */
	int64_t change;     /* … enum hvd_hosts_change */
	const char *source; /* PONG, when writing: the address that the request came from */
};

/* The whole frame in `out`, of any kind but OTHER; returns its length. */
#define HVD_MESSAGE_MAX_FRAME 256
size_t hvd_message_frame(const struct hvd_key *key, const struct hvd_message *msg,
			 unsigned char out[HVD_MESSAGE_MAX_FRAME]);

/* From the start of a frame to its whole length, head included. -1 (HVD_E_LIMIT) and *len 0 for a body that is too
 * long. */
int hvd_message_length(const unsigned char head[HVD_MESSAGE_HEAD], size_t *len, struct hvd_err *err);
/* Read a whole frame. HVD_E_AUTH when the key does not fit, HVD_E_PROTO when the body is no message. Untrusted
 * input is fine. */
int hvd_message_read(const struct hvd_key *key, const unsigned char *frame, size_t len, struct hvd_message *out,
		     struct hvd_err *err);

#endif
