/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tcpstore.h - what the server's files for PyTorch's TCPStore share. The rest of the server uses only the functions of
 * the first part.
 *
 *   tcpstore_conn.c        connections: reading, deadlines, and what all of them wait for
 *   tcpstore_query.c       decide what to answer to a query
 *   tcpstore_call.c        operations on the store, which may take a while, and their answers
 *   tcpstore_state.c       the owner of a connection, its output, what it waits for, and its end
 *   tcpstore_epoch.h       which values a connection sees
 *   tcpstore_wire.h        the messages
 *
 * Each file calls only those below it. tcpstore_call.c calls a connection back as the event loop does.
 *
 * A connection comes from the HTTP server (conn.c), which has accepted it and has read the first bytes. It lasts as
 * long as the client's store object, which can be weeks, mostly without any traffic. So it has no deadline while it is
 * idle, and is never closed to make room for another connection. TCP keepalive (listen.c) ends it when its host has
 * vanished.
 */
#ifndef HVD_RENDEZVOUS_TCPSTORE_H
#define HVD_RENDEZVOUS_TCPSTORE_H

#include "internal.h"

struct hvd_tcpstore *hvd_tcpstore_create(struct hvd_rv *rv);
void hvd_tcpstore_destroy(struct hvd_tcpstore *ts); /* whose connections are closed and freed; NULL is fine */
/* Is this the first byte of a TCPStore client? */
bool hvd_tcpstore_speaks(char first);
/* Serve a connection of which these bytes, at least one, were read. Takes ownership of `fd`. */
void hvd_tcpstore_take(struct hvd_tcpstore *ts, int fd, const struct hvd_addr *peer, const char *data, size_t len);

/* --- for tcpstore*.c --- */

#include "store_api.h"
#include "tcpstore_wire.h"

#define HVD_TCPSTORE_OUT_ROOM 65536

struct hvd_tcpstore {
	struct hvd_rv *rv;
	struct hvd_rv_streams conns;
	struct hvd_addr old[16]; /* clients that have spoken the protocol before PyTorch 2.2; no more are logged */
	size_t n_old;
	/* The answers to the connection whose requests are handled now, until they are sent together. */
	struct hvd_tcpstore_conn *current;
	size_t out_len;
	char out[HVD_TCPSTORE_OUT_ROOM];
};

/* A wait for a key. */
struct hvd_tcpstore_wait {
	struct hvd_rv_waiter waiter;
	struct hvd_tcpstore_conn *conn;
	STAILQ_ENTRY(hvd_tcpstore_wait) link;
};

struct hvd_tcpstore_conn {
	struct hvd_rv_stream s; /* in ts->conns */
	struct hvd_tcpstore *ts;
	struct hvd_tcpstore_wire wire;
	uint32_t pid;                   /* from PING; 0: not sent */
	struct hvd_store_client client; /* which values it sees */
	size_t in_need;                 /* bytes of the item that has not come completely */

	bool list_there;                                  /* CHECK: all keys so far are there */
	bool waits_open;                                  /* WAIT: keys are still coming */
	size_t awaited;                                   /* waits that have not ended */
	STAILQ_HEAD(conn_waits, hvd_tcpstore_wait) waits; /* all of its WAIT, in the order of the keys */

	bool asks; /* something is under way, and no more of the input is handled until it is known */
	enum hvd_store_op_kind called;
	struct hvd_store_call call;     /* while it asks: either this */
	struct hvd_store_lookup lookup; /* or this, while it asks */
	struct hvd_store_call barrier;  /* a BARRIER, in which input is handled */
	char *barrier_key;              /* for messages; NULL = there is none */
	uint64_t ahead_left;            /* items of the list that the look-ahead has not reached */
};

static inline struct hvd_tcpstore_conn *hvd_tcpstore_conn_of(struct hvd_rv_stream *s)
{
	return (struct hvd_tcpstore_conn *)s;
}

/* tcpstore_state.c */
/* Close the connection. `why` is logged, unless it is NULL. */
void hvd_tcpstore_close(struct hvd_tcpstore_conn *c, enum hvd_log_level level, const char *why);
/* The client's address, by which processes are told apart. For clients of a relay it is the address of the relay's
 * host. */
const struct hvd_addr *hvd_tcpstore_addr(const struct hvd_tcpstore_conn *c);
/* The budget that the connection's memory counts against. */
struct hvd_rv_budget *hvd_tcpstore_budget(const struct hvd_tcpstore_conn *c);
/* The connection's input no longer counts against limits. */
void hvd_tcpstore_refund_input(struct hvd_tcpstore_conn *c);
/* Wait for a key in the scope here. */
enum hvd_rv_stored hvd_tcpstore_wait(struct hvd_tcpstore_conn *c, struct hvd_slice key);
/* End the waits of the connection. */
void hvd_tcpstore_unwait(struct hvd_tcpstore_conn *c);
/* End its BARRIER, if there is one. */
void hvd_tcpstore_end_barrier(struct hvd_tcpstore_conn *c);

/* Any of these may close the connection. Send bytes, or the value with its length in front. */
void hvd_tcpstore_send(struct hvd_tcpstore_conn *c, const void *data, size_t len);
void hvd_tcpstore_send_value(struct hvd_tcpstore_conn *c, struct hvd_rv_value *v);
/* Send the answers to the current connection, and a value (or NULL) behind them. */
void hvd_tcpstore_send_current(struct hvd_tcpstore_conn *c, struct hvd_rv_value *v);
/* Wait until the socket takes what is left, if there is anything. */
void hvd_tcpstore_expect_output(struct hvd_tcpstore_conn *c);
/* May more of the connection's input be handled, or must its answers be sent first? */
bool hvd_tcpstore_may_ask(const struct hvd_tcpstore_conn *c);

/* tcpstore_query.c */
/* Act on an item of a request. The connection may be closed after this. False if something must be known first: then
 * c->asks is set, and the caller hands the item over again when c->asks is cleared. */
bool hvd_tcpstore_item(struct hvd_tcpstore_conn *c, const struct hvd_tcpstore_item *item);

/* tcpstore_call.c. Any of these may close the connection. */
void hvd_tcpstore_send_byte(struct hvd_tcpstore_conn *c, unsigned char byte);
/* Send the answer to an operation, or close the connection if it was refused. */
void hvd_tcpstore_send_result(struct hvd_tcpstore_conn *c, enum hvd_store_op_kind kind,
			      const struct hvd_store_result *result);
/* Close the connection if an operation was refused. Returns true if it was carried out. */
bool hvd_tcpstore_done(struct hvd_tcpstore_conn *c, enum hvd_store_status status);
/* Find the connection's epoch: it arrives, visits, or begins a group. False if the epoch is not known yet: the
 * connection was closed, or it asks. */
bool hvd_tcpstore_enter(struct hvd_tcpstore_conn *c, enum hvd_store_op_kind kind);
/* What is known of a key? With HVD_CACHE_PENDING the connection asks. */
enum hvd_cache hvd_tcpstore_know(struct hvd_tcpstore_conn *c, struct hvd_slice key, bool waits);
/* The connection asks for the key of `item`, behind which these bytes have arrived. Ask for the next keys of a list,
 * too, so that they are known in time. */
void hvd_tcpstore_look_ahead(struct hvd_tcpstore_conn *c, const struct hvd_tcpstore_item *item, const char *data,
			     size_t len);
/* Carry out an operation, and send its result. */
void hvd_tcpstore_call(struct hvd_tcpstore_conn *c, struct hvd_store_op *op);

#endif
