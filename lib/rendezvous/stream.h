/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stream.h - what the connections of HTTP (conn.c) and of the TCPStore (tcpstore_conn.c) have in common: a socket, its
 * events, a deadline, a place among the connections of its address, pending input, and output that the socket did not
 * take.
 *
 * A stream is the first member of the struct of a connection, which its protocol allocates. hvd_rv_stream_open() takes
 * ownership of the descriptor. hvd_rv_stream_close() releases everything except the memory of the input and of the
 * connection, because callers further up the stack may have pointers to it. hvd_rv_reap() frees that memory at the top
 * of a later callback from the event loop.
 *
 * A function that reads or writes calls ops->close() after an error: then `closed` is set when it returns. One thread,
 * that of the server.
 */
#ifndef HVD_RENDEZVOUS_STREAM_H
#define HVD_RENDEZVOUS_STREAM_H

#include "lib/base/log.h"
#include "lib/net/peer_table.h"
#include "timer_wheel.h"
#include "value.h"

#include <sys/queue.h>
#include <sys/types.h>

#include <event2/event_struct.h>

struct hvd_rv;
struct hvd_rv_stream;

TAILQ_HEAD(hvd_rv_streams, hvd_rv_stream);

struct hvd_rv_stream_ops {
	/* A watched event has occurred. */
	void (*ready)(struct hvd_rv_stream *s, short events);
	/* The deadline has passed; there is none any longer. */
	void (*due)(struct hvd_rv_stream *s);
	/* Close the connection. `why` is NULL when there is nothing to be logged. */
	void (*close)(struct hvd_rv_stream *s, enum hvd_log_level level, const char *why);
	/* Free what the connection still has, and its own memory. */
	void (*free)(struct hvd_rv_stream *s);
	/* Bytes of memory for output, without values. They are taken from the budget of the store. 0: they are not
	 * counted, because the protocol sends one short message at a time. */
	size_t out_max;
};

/* To be read. */
struct hvd_rv_stream {
	struct event ev;
	struct hvd_rv *rv;
	const struct hvd_rv_stream_ops *ops;
	struct hvd_rv_streams *list; /* it is always in one */
	TAILQ_ENTRY(hvd_rv_stream) link;
	struct hvd_peer_entry entry; /* in rv->peers */
	struct hvd_rv_timer timer;
	char *in; /* input that is not handled yet; NULL most of the time */
	size_t in_len, in_room;
	struct hvd_rv_segment *first_out, *last_out; /* what the socket did not take */
	size_t out_left;                             /* bytes of it */
	size_t out_charged;                          /* bytes of memory for it, without values */
	int fd;
	short watching; /* events that are registered with the event loop */
	bool closed;
};

/* `s` is zeroed. Watches no events yet. */
void hvd_rv_stream_open(struct hvd_rv_stream *s, struct hvd_rv *rv, const struct hvd_rv_stream_ops *ops, int fd,
			const struct hvd_addr *peer, struct hvd_rv_streams *list);
/* A closed stream is fine. */
void hvd_rv_stream_close(struct hvd_rv_stream *s);
/* Close the stream, and return its descriptor, which stays open and is the caller's. */
int hvd_rv_stream_release(struct hvd_rv_stream *s);
/* Move the stream to the end of another list. */
void hvd_rv_stream_move(struct hvd_rv_stream *s, struct hvd_rv_streams *to);
/* Watch these events, and no others. */
void hvd_rv_stream_watch(struct hvd_rv_stream *s, short events);

/* Read once. 0: the client sends no more. -1: there is no input at present, or the stream is closed. */
ssize_t hvd_rv_stream_read(struct hvd_rv_stream *s, void *into, size_t room);
/* Make room for `room` bytes of input. */
void hvd_rv_stream_make_room(struct hvd_rv_stream *s, size_t room);
/* Keep these bytes, for which there is room, in place of the input; they may be a part of it. 0 bytes take no
 * memory. */
void hvd_rv_stream_keep(struct hvd_rv_stream *s, const char *data, size_t len);

/* Send bytes, and then a value (or NULL). The stream keeps what the socket does not take, after earlier output. Without
 * room for that, the stream is closed. `flags` as of send(2). */
void hvd_rv_stream_send(struct hvd_rv_stream *s, const void *data, size_t len, struct hvd_rv_value *v, int flags);
/* Send what is kept, as far as the socket takes it. */
void hvd_rv_stream_flush(struct hvd_rv_stream *s, int flags);

/* Make the table of peers, the wheel, its timer, and the list of closed streams. */
void hvd_rv_streams_init(struct hvd_rv *rv);
/* Free the streams that are closed, and accept connections again if there is a place. Call it at the top of a callback
 * from the event loop only. */
void hvd_rv_reap(struct hvd_rv *rv);
/* Set the deadline of a timer, whose `due` is called after it. `s` may be NULL: then only start the wheel's timer. */
void hvd_rv_arm(struct hvd_rv *rv, struct hvd_rv_timer *s, hvd_time deadline);

#endif
