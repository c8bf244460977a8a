/* SPDX-License-Identifier: Apache-2.0 */
/*
 * downstream.h - a parent's side of the connections to its relays. relay_wire.h has the messages.
 *
 * The root carries out calls on the store in the order in which they arrive, each once. It keeps the last answers to a
 * relay until that relay confirms that it has them. A relay that is a parent passes calls on (upstream.h), and
 * answers watches from its own store, as it does for its clients.
 *
 * A parent sends a change of a key to each relay that watches the key, after everything that it has sent before. If a
 * relay does not read, its parent keeps a list of changed keys, not of values, and sends their latest values when the
 * relay reads again. So a slow or stopped relay costs little memory, and delays nobody else.
 *
 * A relay whose connection has ended may come back over another parent. If it does not within hvd_rv_config.relay_back
 * seconds, its processes count as having left the store. A relay that has a connection to this server is a child. Each
 * relay of the launch has a number, its relay_id. Calls of relays further below come over a child's connection. The answer
 * goes over the connection that carried the last message of that relay.
 *
 *   downstream.c         connections of relays, and their messages             calls all others
 *   downstream_calls.c   operations, and the processes that use the TCPStore   calls keys and items
 *   downstream_keys.c    watches                                               calls items
 *   downstream_items.c   what is queued for a relay
 *   downstream_waits.c   what clients of relays wait for
 *
 * The rest of the server uses only the functions of the first part, and those of server.h that concern relays below.
 */
#ifndef HVD_RENDEZVOUS_DOWNSTREAM_H
#define HVD_RENDEZVOUS_DOWNSTREAM_H

#include "internal.h"
#include "lib/base/hash.h"
#include "relay_wire.h"

#define HVD_RELAY_BACK_SECONDS 15.0

struct hvd_downstream *hvd_downstream_create(struct hvd_rv *rv);
void hvd_downstream_destroy(struct hvd_downstream *down); /* NULL is fine */

/* A message of a child: a hvd_conn_bytes_fn, whose last argument is the child. */
void hvd_downstream_bytes(unsigned channel, const void *data, size_t len, void *arg);
/* In a relay that has lost its parent: close the connections of all relays below. */
void hvd_downstream_drop(struct hvd_downstream *down);
/* Send RENEW to all relays below. */
void hvd_downstream_renew(struct hvd_downstream *down);
/* Ask all relays below what their clients wait for. `done` is called once, when all have answered or a second has
 * passed. It frees the text, which begins with `own`, has at most `max` lines, and is NULL if nobody waits. Takes `own`,
 * which may be NULL. */
void hvd_downstream_ask_waits(struct hvd_downstream *down, char *own, unsigned max, hvd_rv_waits_fn *done, void *arg);
/* In a relay: pass an answer of the parent on to a relay below. */
void hvd_downstream_pass(struct hvd_downstream *down, const struct hvd_relay_msg *msg);

/* --- for downstream*.c --- */

/* An item that is queued for a child: a member of the owner's struct. */
struct item {
	TAILQ_ENTRY(item) link;
	struct hvd_rv_child *child; /* NULL: in no list */
	/* The owner sets both. `send` sends the item in its present state; the item is no longer in a list. `drop` is
	 * called in place of `send` if the connection has ended (NULL: nothing to do). */
	void (*send)(struct hvd_rv_child *child, struct item *item);
	void (*drop)(struct item *item);
};

struct hvd_rv_child {
	struct hvd_downstream *down;
	TAILQ_ENTRY(hvd_rv_child) link; /* in down->children */
	struct hvd_conn *conn;
	void (*dropped)(bool broken, void *arg); /* not NULL: the connection is another's (hvd_rv_child_share()) */
	void *arg;
	struct relay *relay; /* NULL until it has sent BEGIN */
	TAILQ_HEAD(down_items, item) items;
	struct hvd_hash_table watches; /* by id */
	size_t detached;               /* watches of epochs that do not exist */
	uint64_t waits_seq;            /* which question its next answer to ASK_WAITS belongs to */
	bool full;                     /* its connection has enough to send */
};

/* A relay. */
struct relay {
	struct hvd_hash_node node;
	struct hvd_downstream *down;
	uint32_t number;
	struct hvd_addr addr;
	struct hvd_rv_child *route; /* NULL: its connection has ended */
	struct hvd_rv_timer timer;  /* until when it may then come back */
	bool refused;               /* it is not admitted any longer */
	/* At the root: */
	struct call **calls; /* by rising id, `n_calls` from `first_call` on */
	size_t first_call, n_calls, calls_room;
	uint64_t last_call;
	struct hvd_hash_table clients; /* by number: those that use the TCPStore */
};

struct hvd_downstream {
	struct hvd_rv *rv;
	uint64_t seed;
	TAILQ_HEAD(down_children, hvd_rv_child) children;
	struct hvd_hash_table relays;
	struct hvd_timer *flush;
	bool check_admitted;
	uint32_t *admitted; /* those that are, if not `any` */
	size_t n_admitted;
	bool any;
	TAILQ_HEAD(down_asks, ask) asks; /* oldest first */
	uint64_t waits_seq;              /* of the next ASK_WAITS */
};

/* downstream_items.c */
/* Send at once. */
void hvd_down_send(const struct hvd_rv_child *child, const struct hvd_relay_msg *msg);
/* Queue an item for a child: at the end of its list, or in front of another item of it. */
void hvd_down_queue(struct hvd_rv_child *child, struct item *item, struct item *before);
void hvd_down_unqueue(struct item *item); /* one that is in no list is fine */
/* Queue a message: an answer that came from the parent, or RENEW. */
void hvd_down_pass(struct hvd_rv_child *child, const struct hvd_relay_msg *msg);
/* Send as much as the connection takes, about `most` bytes at most. Returns how many bytes were sent. */
size_t hvd_down_flush(struct hvd_rv_child *child, size_t most);
void hvd_down_drop_items(struct hvd_rv_child *child);
/* Send all queued items when the callbacks that run now are done. */
void hvd_down_wake(struct hvd_downstream *down);

/* downstream_waits.c */
void hvd_down_waits(struct hvd_rv_child *child, const struct hvd_relay_msg *msg);
/* Answer the requests for which no relay is left; expect no more answers from this child; answer all. */
void hvd_down_asks_due(struct hvd_downstream *down);
void hvd_down_asks_end(struct hvd_rv_child *child);
void hvd_down_asks_free(struct hvd_downstream *down);

/* downstream_keys.c */
/* Handle a message of the child. Returns NULL, or what is wrong with the message. */
const char *hvd_down_watch(struct hvd_rv_child *child, const struct hvd_relay_msg *msg);
void hvd_down_unwatch(struct hvd_rv_child *child, uint32_t id);
void hvd_down_unused(struct hvd_rv_child *child, uint32_t id);
/* End all watches, or only those of epochs. */
void hvd_down_unwatch_all(struct hvd_rv_child *child, bool epochs_only);
/* The epoch exists (again): watch its keys. */
void hvd_down_reattach(struct hvd_rv_child *child, uint32_t epoch);

/* downstream_calls.c. At the root. */
/* Carry out a call. NULL, or what is wrong with it. */
const char *hvd_down_call(struct relay *relay, const struct hvd_relay_msg *msg);
void hvd_down_cancel(struct relay *relay, uint64_t id);
/* The relay's processes have left the TCPStore: for ever, or until they arrive again. */
void hvd_down_leave(struct relay *relay, bool for_ever);

#endif
