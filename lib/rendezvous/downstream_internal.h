/* SPDX-License-Identifier: Apache-2.0 */
/*
 * downstream_internal.h - what the files of a parent's side of its relays share. Nobody else includes it.
 *
 *   downstream.c         connections of relays, and their messages         calls both others
 *   downstream_keys.c    watches, and what waits to be sent to a relay
 *   downstream_calls.c   operations, and the processes that use the TCPStore
 *
 * A relay that has a connection to this server is a child. Each relay of the launch has a number, its origin. Calls of
 * relays further below come over a child's connection, and their answers go back over the one over which the origin was
 * heard of last.
 */
#ifndef HVD_RENDEZVOUS_DOWNSTREAM_INTERNAL_H
#define HVD_RENDEZVOUS_DOWNSTREAM_INTERNAL_H

#include "downstream.h"
#include "internal.h"
#include "lib/base/hash.h"
#include "relay_wire.h"
#include "tcpstore.h"

enum item_kind {
	ITEM_STALE, /* of a watch: what was told is not so any longer, and what is so comes later */
	ITEM_FRESH, /* of a watch: the key as it is now */
	ITEM_WAKE,  /* of a watch: those who wait are to go on */
	ITEM_CALL,  /* the answer of a call */
	ITEM_PASS,  /* an answer that came from the parent */
	ITEM_RENEW,
};

/* What waits to be sent to a child. */
struct item {
	struct item *prev, *next;
	struct child *child; /* NULL: in no list */
	enum item_kind kind;
};

struct child {
	struct hvd_downstream *down;
	struct child *prev, *next; /* in down->children */
	struct hvd_conn *conn;
	struct origin *origin; /* NULL until it has sent BEGIN */
	struct item *first, *last;
	struct hvd_hash_table watches; /* by id */
	size_t detached;               /* watches of generations that do not exist */
	uint64_t waits_seq;            /* the next of its answers to ASK_WAITS is to this one */
	unsigned said;                 /* messages for the user so far */
	bool full;                     /* its connection has enough to send */
};

/* A relay. */
struct origin {
	struct hvd_hash_node node;
	struct hvd_downstream *down;
	uint32_t number;
	struct hvd_addr addr;
	struct child *route;       /* NULL: its connection has ended, … */
	struct hvd_rv_spoke spoke; /* … and until then it may come back */
	bool refused;              /* it is not admitted any longer */
	/* At the root: */
	struct call **calls; /* by rising id, `n_calls` from `first_call` on */
	size_t first_call, n_calls, calls_room;
	uint64_t last_call;
	struct hvd_hash_table places;
};

/* An ASK_WAITS to all children. */
struct ask {
	struct ask *next;
	uint64_t seq;
	size_t left; /* children that have not answered */
	unsigned max;
	char *text;
	struct hvd_rv_spoke spoke;
	struct hvd_downstream *down;
	void (*done)(char *text, void *arg);
	void *arg;
};

struct hvd_downstream {
	struct hvd_rv *rv;
	uint64_t seed;
	struct child *children;
	size_t n_begun; /* children that have sent BEGIN */
	struct hvd_hash_table origins;
	struct event *flush;
	bool check_admitted;
	uint32_t *admitted; /* those that are, if not `any` */
	size_t n_admitted;
	bool any;
	struct ask *asks;
	uint64_t waits_seq; /* of the next ASK_WAITS */
};

/* downstream.c */
/* Something waits to be sent to a child: at the end of its list, or in front of another item of it. */
void hvd_down_queue(struct child *child, struct item *item, enum item_kind kind, struct item *before);
void hvd_down_unqueue(struct item *item); /* one that is in no list is fine */

/* downstream_keys.c */
/* A message of the child; they return NULL, or what is wrong with it. */
const char *hvd_down_watch(struct child *child, const struct hvd_relay_msg *msg);
void hvd_down_unwatch(struct child *child, uint32_t id);
void hvd_down_unused(struct child *child, uint32_t id);
/* End all watches, or only those of generations. */
void hvd_down_unwatch_all(struct child *child, bool generations_only);
/* The generation exists (again): watch its keys. */
void hvd_down_reattach(struct child *child, uint32_t generation);
void hvd_down_send_key(struct item *item);

/* downstream_calls.c. At the root. */
/* Carry out a call. NULL, or what is wrong with it. */
const char *hvd_down_call(struct origin *o, const struct hvd_relay_msg *msg);
void hvd_down_cancel(struct origin *o, uint64_t id);
/* Send the answer of a call. */
void hvd_down_send_call(struct child *child, struct item *item);
/* Its processes have left the TCPStore: for ever, or until they arrive anew. */
void hvd_down_leave(struct origin *o, bool for_ever);
#endif
