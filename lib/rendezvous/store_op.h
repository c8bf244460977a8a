/* SPDX-License-Identifier: Apache-2.0 */
/*
 * store_op.h - an operation on the store as a value: a relay sends it to the root, and the root answers it.
 *
 * The server's two protocols also turn their requests into operations (tcpstore_query.c, request.c), so an operation
 * means the same whether a rank is connected to the root or to a relay. There are operations that only read, for keys
 * that a relay may not cache.
 */
#ifndef HVD_RENDEZVOUS_STORE_OP_H
#define HVD_RENDEZVOUS_STORE_OP_H

#include "slice.h"
#include "value.h"

#include <stdbool.h>
#include <stdint.h>

/* The numbers are sent between processes of one launch. */
enum hvd_store_op_kind {
	/* TCPStore. The scope is an epoch. */
	HVD_OP_SET = 1,
	HVD_OP_APPEND = 2,
	HVD_OP_COMPARE_SET = 3, /* `expected`, `value`; the answer has the value that is there then */
	HVD_OP_GET = 4,
	HVD_OP_ADD = 5,    /* `number`; the answer's number is the sum */
	HVD_OP_DELETE = 6, /* the answer's number: 1 when there was a value, else 0 */
	HVD_OP_NUM_KEYS = 7,
	HVD_OP_LIST_KEYS = 8, /* the answer's value: each key with its length (4 bytes, big endian) in front */
	HVD_OP_QUEUE_PUSH = 9,
	HVD_OP_QUEUE_POP = 10, /* the answer's number: the queue's length before; the value, if there was one */
	HVD_OP_QUEUE_LEN = 11,
	HVD_OP_BARRIER = 12, /* `number` of processes; answered when all have reached it, or when it is cancelled */
	/* A process arrives, uses the store, or leaves (tcpstore_epoch.h). `number`: its pid; `client_number`: which of
	 * the relay's connections; `expected`: its address as text, empty if it is of the relay's host. The answer's
	 * number is the epoch. */
	HVD_OP_ARRIVE = 13,
	HVD_OP_VISIT = 14,
	HVD_OP_LEAVE = 15,
	/* HTTP. The scope has a name. The answer's number is the status. */
	HVD_OP_HTTP_GET = 16, /* of a scope with a hook: answered when the hook does, or when it is cancelled */
	HVD_OP_HTTP_PUT = 17,
	HVD_OP_HTTP_DELETE = 18,
	/* TCPStore again: the connection `client_number` uses its first key of a default process group. The answer's number
	 * is the epoch. */
	HVD_OP_BEGIN_GROUP = 19,
};

/* An epoch of the TCPStore or, with a name (name.p not NULL), a scope of HTTP. */
struct hvd_store_scope_id {
	struct hvd_slice name;
	uint32_t epoch;
};

struct hvd_store_client;

/* Nothing is owned. Fields that an operation does not use are zero. */
struct hvd_store_op {
	enum hvd_store_op_kind kind;
	struct hvd_store_scope_id scope;
	struct hvd_slice key, expected;
	struct hvd_rv_value *value;
	int64_t number;
	struct hvd_store_client *client; /* of the TCPStore: whose operation it is (store_api.h) */
	uint32_t client_number;          /* its number, between processes */
};

enum hvd_store_status {
	HVD_OP_DONE,
	HVD_OP_TOO_LONG,  /* as enum hvd_rv_stored */
	HVD_OP_NO_ROOM,   /* as enum hvd_rv_stored */
	HVD_OP_NO_NUMBER, /* the counter is no number, or overflows */
	HVD_OP_CANCELLED,
	HVD_OP_NO_SCOPE, /* there is no such epoch any longer */
	HVD_OP_LOST,     /* the root cannot be reached any longer; never sent */
};

/* The status of an operation that was to store something. */
enum hvd_store_status hvd_store_status(enum hvd_rv_stored why);

struct hvd_store_result {
	enum hvd_store_status status;
	int64_t number;
	struct hvd_rv_value *value; /* or NULL; the callee takes a reference if it keeps it */
};

struct hvd_rv_scope;

/* Carry out an operation on an epoch's scope; not those of HTTP, nor those of epochs. The caller clears the result.
 * False for a BARRIER that other processes have not reached yet: the caller waits for the key (hvd_rv_scope_wait()),
 * and the wake is the answer. */
bool hvd_store_op_run(struct hvd_rv_scope *scope, const struct hvd_store_op *op, struct hvd_store_result *out);
/* Must an operation of this kind have a value? */
bool hvd_store_op_has_value(enum hvd_store_op_kind kind);
/* Release the value. */
void hvd_store_result_clear(struct hvd_store_result *result);

#endif
