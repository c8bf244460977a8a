/* SPDX-License-Identifier: Apache-2.0 */
/*
 * conn.h - a connection that carries messages (wire.h) in a libevent loop.
 *
 * hvd_conn_new() takes ownership of the descriptor. The owner ends the connection with hvd_conn_free() or
 * hvd_conn_finish(), at any time, also within a callback. `closed` is called once if the peer closes the connection or
 * sends something malformed, or if the connection's deadline passes. No callback follows, and the owner still has to
 * free the connection. All calls come from the thread of the event base.
 */
#ifndef HVD_CONN_H
#define HVD_CONN_H

#include "lib/base/deadline.h"
#include "wire.h"

#include <event2/event.h>

/* The channels of bytes of a connection between a launch and one of its hosts, or between two relays. At most
 * UINT16_MAX. */
enum hvd_channel {
	HVD_CHANNEL_PREAMBLE,   /* to a self-registering agent: its command line (lib/host/join.h) */
	HVD_CHANNEL_STDIN,      /* to an agent: input of rank 0; no bytes: its end */
	HVD_CHANNEL_STDOUT,     /* from an agent: output of its ranks */
	HVD_CHANNEL_STDERR,     /* the same */
	HVD_CHANNEL_STORE = 16, /* both ways: the store of world 0 (lib/rendezvous/relay_wire.h); of world k: + k */
};

struct hvd_conn;

struct hvd_conn_ops {
	/* A message has arrived. Its reference is released after the call; a callback that keeps it takes its own. */
	void (*message)(struct hvd_conn *conn, json_t *msg, void *arg);
	/* The connection is over. why->code is HVD_OK when the peer closed it between two messages, and HVD_E_TIMEOUT
	 * when the connection's deadline passed or the peer's host no longer answers. */
	void (*closed)(struct hvd_conn *conn, const struct hvd_err *why, void *arg);
	/* The queue has become shorter than the length of hvd_conn_set_low(). May be NULL. */
	void (*drained)(struct hvd_conn *conn, void *arg);
};

/* `fd` is connected, or still connecting: then messages wait until it is. It is made non-blocking. `server` tells which
 * end this is (wire.h). `ops` must outlive the connection. */
struct hvd_conn *hvd_conn_new(struct event_base *base, int fd, bool server, const struct hvd_conn_ops *ops, void *arg);
/* Close at once; messages that were not sent yet are lost. NULL is fine. */
void hvd_conn_free(struct hvd_conn *conn);

/* Send the queued messages, then close and free. The owner must not use the connection after the call, and no callback
 * follows. Messages that the peer has not read by the deadline are lost. After the deadline the peer gets up to ten
 * more seconds, as long as it reads some of them in each, because this process may have been busy itself. NULL is
 * fine. */
void hvd_conn_finish(struct hvd_conn *conn, hvd_time deadline);

/* The same, but close only after the peer has closed; what the peer still sends is dropped. If this end closed while
 * the peer may still send, the kernel would answer with a reset, and the peer would lose what it has not read. */
void hvd_conn_linger(struct hvd_conn *conn, hvd_time deadline);

/* Queue a message; takes the reference. Never fails here: after an error `closed` is called later, from the loop. */
void hvd_conn_send(struct hvd_conn *conn, json_t *msg);

/* Queue a message of bytes in a channel (enum hvd_channel): the pieces one after the other. It is sent in frames of at most
 * HVD_CONN_PIECE bytes, and may be as long as the peer accepts (hvd_conn_open()). The connection must have a key. */
#define HVD_CONN_PIECE HVD_WIRE_PIECE
void hvd_conn_send_bytes(struct hvd_conn *conn, unsigned channel, const struct hvd_piece *pieces, size_t n);
/* A message of bytes has arrived; the bytes are valid during the call. */
typedef void hvd_conn_bytes_fn(unsigned channel, const void *data, size_t len, void *arg);
/* Accept messages of at most `max` bytes in this channel from now on. A longer message ends the connection, and so does
 * one in a channel that was never opened. A channel may be opened again, which replaces its function. */
void hvd_conn_open(struct hvd_conn *conn, unsigned channel, size_t max, hvd_conn_bytes_fn *fn, void *arg);
/* Throw away what arrives in a channel that was opened: the peer may not know yet that nobody needs it. */
void hvd_conn_mute(struct hvd_conn *conn, unsigned channel);
/* The bytes that are queued and not sent yet. hvd_conn_set_low() sets the length below which `drained` is called, if
 * the queue was longer before. */
size_t hvd_conn_queued(const struct hvd_conn *conn);
void hvd_conn_set_low(struct hvd_conn *conn, size_t low);

void hvd_conn_set_key(struct hvd_conn *conn, const struct hvd_key *key); /* see hvd_wire_set_key() */
void hvd_conn_set_max(struct hvd_conn *conn, size_t max);                /* see hvd_wire_set_max() */

/* End the connection (HVD_E_TIMEOUT) if it is still open at this time; 0 removes the deadline. */
void hvd_conn_set_deadline(struct hvd_conn *conn, hvd_time deadline);

/* End the connection (HVD_E_TIMEOUT) when the peer's host has not answered for HVD_CONN_WATCH_SECONDS; without this
 * call it takes a minute. The peer's kernel answers, so the connection to a peer that is stopped or does not read stays
 * open. */
#define HVD_CONN_WATCH_SECONDS 14
void hvd_conn_watch_host(struct hvd_conn *conn);
/* For how many milliseconds has the peer's kernel acknowledged nothing? The kernels exchange something every second. 0
 * if that is not known. */
unsigned hvd_conn_silent_ms(const struct hvd_conn *conn);

/* Has the peer sent what was not read yet, or closed the connection? */
bool hvd_conn_unread(const struct hvd_conn *conn);

int hvd_conn_fd(const struct hvd_conn *conn);
void hvd_conn_set_ops(struct hvd_conn *conn, const struct hvd_conn_ops *ops, void *arg);

#endif
