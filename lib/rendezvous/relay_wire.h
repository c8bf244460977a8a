/* SPDX-License-Identifier: Apache-2.0 */
/*
 * relay_wire.h - the messages between a relay and its parent, which is the root or another relay.
 *
 * A relay is a server of the rendezvous for the ranks of one host, whose values are the root's. Its connection to the
 * parent is signed (lib/protocol/conn.h), and delivers in order. Each message is one hvd_conn_send_bytes(). Numbers are
 * big endian. BYTES is a length of 4 bytes and the bytes. SCOPE is a byte 0 and BYTES of a name, or a byte 1 and an
 * epoch of 4 bytes. VALUE is a byte (0 = none, 1 = as it is, 2 = compressed by zstd), and unless that is 0, the value's
 * length of 4 bytes before compression, and BYTES.
 *
 * From a relay to its parent:
 *
 *   BEGIN     version (1), relay_id (4), address (BYTES, text)   once, the first message: which relay this is
 *   WATCH     id (4), SCOPE, key (BYTES), waits (1)
 *             send me the present state of this key, and each change. `waits`: somebody waits for the key here. Sent
 *             again with the same id when somebody begins to wait. The flag lasts until UNWATCH or UNUSED, or a VALUE
 *             or WAKE of all
 *   UNWATCH   id
 *   UNUSED    id              nobody waits here any longer for whom a WAKE was meant: wake somebody else
 *   CALL      relay_id (4), id (8), done (8), client (4), kind (1), SCOPE, key (BYTES), expected (BYTES), number (8),
 *             VALUE
 *             carry out an operation at the root (store_op.h). All calls of this relay_id with ids below `done` have
 *             been answered. Ids of a relay_id grow, and a call is carried out once, however often it is sent
 *   CANCEL    relay_id, id    answer this call soon, with the present result or HVD_OP_CANCELLED
 *   GONE      relay_id        this relay, whose parent I am, has ended: its processes have left the store
 *   WAITS     text (BYTES)    the answer to ASK_WAITS, one for each in their order: lines; of all relays below, and of
 *                             this one
 *
 * From the parent:
 *
 *   VALUE     id, VALUE         the key has this value now
 *   ABSENT    id                the key has neither a value nor a queue
 *   ASK       id, present (1)   do not cache the key: ask for it by calls. present: it has a value or a queue. ASK
 *                               wakes nobody
 *   WAKE      id, all (1)       the waits for the key end. all = 0: one of them, because a queue has got a value
 *   ANSWER    relay_id, id (8), status (1), number (8), VALUE
 *   RENEW                       all ranks start again: forget everything of the TCPStore, close its connections
 *   ASK_WAITS max (4)           report what your clients wait for, in at most `max` lines
 *
 * Order: a parent's message about a key is true until its next message about the same key. The answer to a call comes
 * after all changes that were made before it at the root.
 *
 * A relay that has lost its parent connects to another one, sends BEGIN, its watches and its unanswered calls, and
 * receives the changes. Until then it uses nothing that it knows of keys.
 */
#ifndef HVD_RENDEZVOUS_RELAY_WIRE_H
#define HVD_RENDEZVOUS_RELAY_WIRE_H

#include "lib/base/err.h"
#include "lib/net/addr.h"
#include "lib/protocol/auth.h"
#include "store_op.h"

#include <stddef.h>
#include <stdint.h>

struct hvd_conn;

#define HVD_RELAY_VERSION  2
#define HVD_RELAY_TEXT_MAX 65536 /* bytes of a WAITS */
/* The longest message (hvd_conn_open()): a value, what COMPARE_SET expects, and names. */
#define HVD_RELAY_MSG_MAX(value_max) ((value_max) + (size_t)(16 << 20))

enum hvd_relay_type {
	HVD_RELAY_BEGIN = 1,
	HVD_RELAY_WATCH,
	HVD_RELAY_UNWATCH,
	HVD_RELAY_UNUSED,
	HVD_RELAY_CALL,
	HVD_RELAY_CANCEL,
	HVD_RELAY_GONE,
	HVD_RELAY_WAITS,
	HVD_RELAY_VALUE = 32,
	HVD_RELAY_ABSENT,
	HVD_RELAY_ASK,
	HVD_RELAY_WAKE,
	HVD_RELAY_ANSWER,
	HVD_RELAY_RENEW,
	HVD_RELAY_ASK_WAITS,
};

/* Any message. Fields that its type lacks are zero. */
struct hvd_relay_msg {
	enum hvd_relay_type type;
	uint32_t relay_id, watch; /* watch: the id of a watch */
	uint64_t call, done;      /* call: the id of a call */
	bool flag;                /* WATCH: waits; ASK: present; WAKE: all */
	unsigned level;           /* BEGIN: the version; ASK_WAITS: how many lines */
	struct hvd_addr addr;     /* BEGIN */
	struct hvd_slice text;
	struct hvd_store_op op;         /* WATCH: scope and key; CALL */
	struct hvd_store_result result; /* ANSWER, and VALUE: its value */
	/* Not HVD_RV_STORED: the message had a value for which the budget here has no room, so the value is NULL. */
	enum hvd_rv_stored stored;
};

/* Queue the message on the connection. A value is compressed if that pays, once for all connections (value.h). */
void hvd_relay_send(struct hvd_conn *conn, unsigned channel, const struct hvd_relay_msg *msg);

/* The same message as pieces of bytes, which point into `msg`, its value and *out. */
struct hvd_relay_bytes {
	struct hvd_piece pieces[16];
	size_t n;
	/* Private: */
	unsigned char fixed[128];
	size_t used;
	char addr[HVD_ADDR_TEXT];
};
void hvd_relay_encode(const struct hvd_relay_msg *msg, struct hvd_relay_bytes *out);

/* Read a message. Slices point into `data`; a value is a new one of `budget`, which the caller releases
 * (hvd_relay_msg_clear()). `from_relay`: accept only messages that relays send; otherwise only messages that parents
 * send. -1 with HVD_E_PROTO or HVD_E_LIMIT for a malformed message; *msg is cleared then. Untrusted input is fine. */
int hvd_relay_parse(const void *data, size_t len, bool from_relay, struct hvd_rv_budget *budget,
		    struct hvd_relay_msg *msg, struct hvd_err *err);
void hvd_relay_msg_clear(struct hvd_relay_msg *msg);

#endif
