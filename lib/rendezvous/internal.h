/* SPDX-License-Identifier: Apache-2.0 */
/*
 * internal.h - what the files of the server share; nobody else includes it.
 */
#ifndef HVD_RENDEZVOUS_INTERNAL_H
#define HVD_RENDEZVOUS_INTERNAL_H

#include "lib/net/accept.h"
#include "lib/net/peer_table.h"
#include "server.h"
#include "wheel.h"

#include <event2/event_struct.h>

enum conn_state {
	CONN_HEAD,    /* between requests, or in the middle of a head */
	CONN_BODY,    /* of a PUT */
	CONN_WAITING, /* waits for a key */
	CONN_TAKEN,   /* a hook owes the answer */
	CONN_WRITE,   /* the answer did not fit into the socket */
	CONN_DRAIN, /* answered and shut; what still comes is thrown away, so that the answer is not lost to a reset */
	CONN_DEAD,  /* closed, to be reused */
	CONN_STATES,
};

struct conn {
	struct event ev;
	struct hvd_rv *rv;
	struct hvd_peer_entry entry; /* in rv->peers */
	struct conn *prev, *next;    /* in the list of its state */
	struct hvd_rv_spoke spoke;
	hvd_time limit; /* the state's deadline that progress does not move */
	struct hvd_rv_waiter waiter;
	struct hvd_rv_request *taken;
	struct hvd_rv_value *value; /* being received or sent */
	size_t at;                  /* how far; when sending, the head counts */
	char *buf;                  /* input that is not used yet; NULL most of the time */
	size_t buf_len, scanned;
	char *names; /* scope and key of a PUT whose body is coming */
	size_t scope_len, key_len;
	size_t body_len; /* as announced; the value has room for a part of it, of which `pending` is charged to the peer
			  */
	size_t pending;
	int fd;
	short watching; /* events that are registered */
	enum conn_state state;
	bool close_after, drain_after, http10, body_follows;
	bool has_asked; /* has had an answer: is idle rather than slow */
	unsigned char out_len;
	char out[HVD_HTTP_HEAD_ROOM];
};

struct hvd_rv_request {
	struct conn *conn; /* NULL when it has gone */
	struct hook *hook;
};

struct hook {
	struct hook *next;
	struct hvd_rv_hook fn;
	void *arg;
	size_t scope_len;
	char scope[];
};

struct listener {
	struct hvd_rv *rv;
	struct hvd_acceptor *acceptor;
	struct sockaddr_storage addr;
	bool any_address; /* `addr` is not where a connection has come to */
};

struct conn_list {
	struct conn *first, *last;
	unsigned n;
};

#define SCRATCH_SIZE 65536

struct hvd_rv {
	struct event_base *base;
	struct hvd_rv_config cfg;
	const struct hvd_log *log;
	struct hvd_rv_store *store;
	struct hvd_rv_wheel wheel;
	struct event *tick;
	bool ticking;
	bool paused; /* not accepting, for want of room */
	struct listener **listeners;
	size_t n_listeners;
	struct hook *hooks;
	hvd_rv_watch_fn *watch; /* may be NULL */
	void *watch_arg;
	struct conn_list lists[CONN_STATES];
	struct hvd_peer_table *peers;
	struct conn *pool; /* linked by next */
	unsigned n_pool;
	struct hvd_rv_stats stats;
	bool stopping;
	hvd_time stop_deadline;
	struct event *stop_ev;
	void (*stop_done)(void *arg);
	void *stop_arg;
	char scratch[SCRATCH_SIZE];
};

/* listen.c */
int hvd_rv_bind(const char *const *ips, size_t n, uint16_t lo, uint16_t hi, int *fds, struct hvd_err *err);
/* The descriptor is the listener's. */
struct listener *hvd_rv_listener_create(struct hvd_rv *rv, int fd);
void hvd_rv_listener_destroy(struct listener *l);
void hvd_rv_resume(struct hvd_rv *rv);
/* The oldest connection in a state of the address that has most connections; NULL: none is near the front of the list.
 */
struct conn *hvd_rv_oldest_of_most(const struct hvd_rv *rv, enum conn_state state);

/* conn.c */
void hvd_rv_conn_start(struct hvd_rv *rv, int fd, const struct sockaddr_storage *peer);
void hvd_rv_conn_close(struct conn *c);
void hvd_rv_conn_state(struct conn *c, enum conn_state state);
/* Be told of these events, and no others. */
void hvd_rv_conn_watch(struct conn *c, short events);
/* Progress was made: the next must come within `stall`, and all within the state's limit. */
void hvd_rv_conn_progress(struct conn *c, double stall);
/* When a body of this size must have been moved, however it trickles. */
hvd_time hvd_rv_body_limit(size_t len);
/* The connection's deadline has passed. */
void hvd_rv_conn_due(struct conn *c);
/* Reuse or free what was closed. Only at the top of a callback. */
void hvd_rv_conn_reap(struct hvd_rv *rv);

/* answer.c */
/* Send an answer; `value` may be NULL. Takes a reference of its own. */
void hvd_rv_conn_send(struct conn *c, int status, struct hvd_rv_value *value);
/* Send an answer and close, throwing away what the client may still be sending. */
void hvd_rv_conn_refuse(struct conn *c, int status);
/* Let go of what is waiting: 404 for a held GET, 503 for a taken one. */
void hvd_rv_conn_release(struct conn *c, bool close_after);
/* Go on with an answer that did not fit. */
void hvd_rv_conn_flush(struct conn *c);

/* request.c */
/* Act on a complete head, with body_len bytes behind it. Returns how many of those were used. */
size_t hvd_rv_request_begin(struct conn *c, const struct hvd_http_req *req, const char *body, size_t body_len);
/* There is room for more of a body, or it is refused: then false. */
bool hvd_rv_request_room(struct conn *c);
/* The body of a PUT is complete. */
void hvd_rv_request_put(struct conn *c, struct hvd_slice scope, struct hvd_slice key);
void hvd_rv_wake(void *arg, struct hvd_rv_waiter *w, struct hvd_rv_value *value);

/* server.c */
void hvd_rv_arm(struct hvd_rv *rv, struct conn *c, hvd_time deadline);

#endif
