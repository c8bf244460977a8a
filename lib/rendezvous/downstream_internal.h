/* SPDX-License-Identifier: Apache-2.0 */
/*
 * downstream_internal.h - what the files of a parent's side of its relays share. Nobody else includes it.
 *
 *   downstream.c         connections of relays, and their messages             calls all others
 *   downstream_calls.c   operations, and the processes that use the TCPStore   calls keys and items
 *   downstream_keys.c    watches                                               calls items
 *   downstream_items.c   what is queued for a relay
 *   downstream_waits.c   what clients of relays wait for
 *
 * A relay that has a connection to this server is a child. Each relay of the launch has a number, its relay_id. Calls
 * of relays further below come over a child's connection. The answer goes over the connection that carried the last
 * message of that relay.
 */
#ifndef HVD_RENDEZVOUS_DOWNSTREAM_INTERNAL_H
#define HVD_RENDEZVOUS_DOWNSTREAM_INTERNAL_H

#include "downstream.h"
#include "internal.h"
#include "lib/base/hash.h"
#include "relay_wire.h"
#include "tcpstore.h"

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
	size_t n_begun; /* children that have sent BEGIN */
	struct hvd_hash_table relays;
	struct hvd_timer *flush;
	bool check_admitted;
	uint32_t *admitted; /* those that are, if not `any` */
	size_t n_admitted;
	bool any;
	struct ask *asks;
	uint64_t waits_seq; /* of the next ASK_WAITS */
};

/* downstream_items.c */
/* Send at once. */
void hvd_down_send(const struct hvd_rv_child *child, const struct hvd_relay_msg *msg);
/* Queue an item for a child: at the end of its list, or in front of another item of it. */
void hvd_down_queue(struct hvd_rv_child *child, struct item *item, struct item *before);
void hvd_down_unqueue(struct item *item); /* one that is in no list is fine */
/* Queue an answer that came from the parent; queue a RENEW. */
void hvd_down_pass(struct hvd_rv_child *child, const struct hvd_relay_msg *msg);
void hvd_down_renew(struct hvd_rv_child *child);
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
