/* SPDX-License-Identifier: Apache-2.0 */
/*
 * worker_message.h - the messages of a worker's notification service, as bytes.
 *
 * A frame is the HMAC-SHA256 of the body under the worker's key (32 bytes), the length of the body (4 bytes, little
 * endian), and the body, a pickle. Formats: horovod/runner/common/util/network.py and horovod/runner/elastic/worker.py
 * of Horovod 0.28. Both ends can be written and read, so that tests can play the worker.
 */
#ifndef HVD_WORKER_MESSAGE_H
#define HVD_WORKER_MESSAGE_H

#include "lib/base/err.h"
#include "lib/protocol/auth.h"

#include <stddef.h>
#include <stdint.h>

#define HVD_MESSAGE_HEAD     36   /* bytes in front of the body */
#define HVD_MESSAGE_MAX_BODY 4096 /* bytes; a longer body is refused */

enum hvd_message_kind {
	HVD_MESSAGE_PING,          /* PingRequest */
	HVD_MESSAGE_HOSTS_UPDATED, /* HostsUpdatedRequest */
	HVD_MESSAGE_ACK,           /* AckResponse */
	HVD_MESSAGE_PONG,          /* PingResponse */
	HVD_MESSAGE_OTHER,         /* an object of any other class */
};

/* What has changed: HostUpdateResult of Horovod. A worker that was told only of removed hosts since its last look does
 * not synchronise its state. */
enum hvd_hosts_change {
	HVD_HOSTS_REMOVED = 1,
	HVD_HOSTS_ADDED = 2,
	HVD_HOSTS_MIXED = 3,
};

struct hvd_message {
	enum hvd_message_kind kind;
	int64_t timestamp;  /* HOSTS_UPDATED */
	int64_t change;     /* HOSTS_UPDATED: enum hvd_hosts_change */
	const char *source; /* PONG that is written: the address that the request came from */
};

/* Write a frame, of any kind but OTHER; returns its length. */
#define HVD_MESSAGE_MAX_FRAME 256
size_t hvd_message_frame(const struct hvd_key *key, const struct hvd_message *msg,
			 unsigned char out[HVD_MESSAGE_MAX_FRAME]);

/* The length of a whole frame, its head included, by its head. -1 (HVD_E_LIMIT) and *len 0 when the body is too
 * long. */
int hvd_message_length(const unsigned char head[HVD_MESSAGE_HEAD], size_t *len, struct hvd_err *err);
/* Read a whole frame. HVD_E_AUTH when it is signed with another key, HVD_E_PROTO when the body is no message. Untrusted
 * input is fine. */
int hvd_message_read(const struct hvd_key *key, const unsigned char *frame, size_t len, struct hvd_message *out,
		     struct hvd_err *err);

#endif
