/* SPDX-License-Identifier: Apache-2.0 */
/*
 * internal.h - what the files of the server share. Nobody else includes it.
 *
 *   server.c        create and destroy, the end
 *   listen.c        bind, accept, make room
 *   conn.c          a connection: whose it is, reading, deadlines
 *   request.c       decide what to answer to a request
 *   conn_state.c    the state of a connection, its answer, and its end
 *   stream.h        what connections of both protocols have in common, and the timer
 *   store_local.c   the store at the root, and its hooks
 *   remote_owner.h  whose connections from other hosts are
 *   tcpstore.h      the other protocol; it gets its connections from conn.c
 *
 * Each file calls only those below it, with one exception: stream.c calls the functions that conn.c has registered.
 */
#ifndef HVD_RENDEZVOUS_INTERNAL_H
#define HVD_RENDEZVOUS_INTERNAL_H

#include "lib/base/timer.h"
#include "lib/net/accept.h"
#include "remote_owner.h"
#include "server.h"
#include "store_api.h"
#include "stream.h"

enum conn_state {
	CONN_HEAD,    /* between requests, or in the middle of a head */
	CONN_BODY,    /* of a PUT */
	CONN_WAITING, /* waits for a key */
	CONN_TAKEN,   /* what it asks for is not known yet, or under way */
	CONN_WRITE,   /* the answer did not fit into the socket */
	CONN_DRAIN,   /* answered and shut for writing; input is thrown away, so that no reset destroys the answer */
	CONN_DEAD,    /* closed */
	CONN_STATES,
};

struct conn {
	struct hvd_rv_stream s; /* in the list of its state */
	hvd_time limit;         /* the deadline of the state as a whole; progress does not move it */
	struct hvd_rv_waiter waiter;
	struct hvd_rv_value *value; /* being received */
	size_t at;                  /* bytes of it that are received */
	size_t scanned;             /* bytes of the input */
	char *names;                /* scope and key of a PUT whose body is arriving, or of a GET that waits */
	size_t scope_len, key_len;
	size_t body_len; /* as announced */
	size_t pending;  /* bytes of the body that `value` has room for, counted in s.entry.peer->pending, too */
	enum conn_state state;
	bool close_after, drain_after, http10, body_follows;
	bool has_asked;                 /* had an answer: it is idle, not slow */
	bool unproven;                  /* nothing is read before its owner is known */
	bool has_syn;                   /* the `has_syn` of hvd_rv_access_judge() */
	struct hvd_rv_asked asked;      /* the question to its host, while it is unproven */
	bool hooked;                    /* in CONN_TAKEN: a hook will answer, as far as is known */
	bool half_closed;               /* the client sends no more, and waits for what it has asked for */
	struct hvd_store_lookup lookup; /* in CONN_TAKEN: either this */
	struct hvd_store_call call;     /* or this, in CONN_TAKEN */
};

static inline struct conn *conn_of(struct hvd_rv_stream *s)
{
	return (struct conn *)s;
}

struct hook {
	struct hook *next;
	struct hvd_rv_hook fn;
	void *arg;
	bool due; /* its function all_deleted() is to be called */
	size_t scope_len;
	char scope[];
};

struct listener {
	struct hvd_rv *rv;
	struct hvd_acceptor *acceptor;
	struct sockaddr_storage addr;
	bool any_address; /* `addr` is ::, or 0.0.0.0, and not the address that a connection was made to */
};

#define SCRATCH_SIZE 65536

struct hvd_rv {
	struct event_base *base;
	struct hvd_rv_config cfg;
	const struct hvd_log *log;
	struct hvd_rv_store *store;
	struct hvd_rv_timer_wheel wheel;
	struct hvd_timer *tick;              /* runs while there is something to wait for */
	bool paused;                         /* does not accept, because all places are taken */
	bool logged_full;                    /* that this may last */
	bool logged_unowned, logged_unknown; /* of connections from other hosts, once */
	struct listener **listeners;
	size_t n_listeners;
	struct hook *hooks;
	struct hvd_tcpstore *tcpstore; /* NULL: not served */
	struct hvd_store store_api;
	struct hvd_downstream *downstream;
	struct hvd_rv_owners *owners; /* NULL: connections from other hosts need no owner */
	hvd_rv_watch_fn *watch;       /* may be NULL */
	void *watch_arg;
	struct hvd_rv_streams lists[CONN_STATES], closed;
	struct hvd_peer_table *peers;
	struct hvd_rv_streams pool; /* of struct conn */
	unsigned n_pool;
	struct hvd_rv_stats stats;
	bool stopping;
	hvd_time stop_deadline;
	struct hvd_timer *stop;
	void (*stop_done)(void *arg);
	void *stop_arg;
	char scratch[SCRATCH_SIZE];
};

/* listen.c */
void hvd_rv_listener_destroy(struct listener *l);

/* conn.c */
void hvd_rv_conn_start(struct hvd_rv *rv, int fd, const struct sockaddr_storage *peer, bool unproven);
/* May this connection go on? Refusals are counted and logged. `local` as in hvd_rv_access_check(). */
enum hvd_rv_verdict hvd_rv_judge(struct hvd_rv *rv, int fd, const struct sockaddr_storage *peer,
				 const struct sockaddr_storage *local);

/* conn_state.c */
void hvd_rv_conn_close(struct conn *c);
void hvd_rv_conn_state(struct conn *c, enum conn_state state);
/* Progress was made: the next progress must come within `stall` seconds, and the state must end at c->limit. */
void hvd_rv_conn_progress(struct conn *c, double stall);
/* The time by which a body of this size must have been transferred. */
hvd_time hvd_rv_body_limit(size_t len);
/* The oldest connection in this state, of the address that has most connections. NULL if none is near the front of the
 * state's list. */
struct conn *hvd_rv_oldest_of_most(const struct hvd_rv *rv, enum conn_state state);
/* Send an answer. `value` may be NULL; the connection takes a reference of its own. */
void hvd_rv_conn_send(struct conn *c, int status, struct hvd_rv_value *value);
/* Send an answer and close. Input that still arrives is thrown away. */
void hvd_rv_conn_refuse(struct conn *c, int status);
/* Answer a request that waits: 404 for a waiting GET, 503 for a request in CONN_TAKEN. */
void hvd_rv_conn_release(struct conn *c, bool close_after);
/* Continue to send an answer. */
void hvd_rv_conn_flush(struct conn *c);

/* request.c */
/* Act on a complete head, behind which body_len bytes have arrived. Returns how many of these bytes were used. */
size_t hvd_rv_request_begin(struct conn *c, const struct hvd_http_req *req, const char *body, size_t body_len);
/* Make room for more of a body. False when the request was refused instead. */
bool hvd_rv_request_room(struct conn *c);
/* The body of a PUT is complete. */
void hvd_rv_request_put(struct conn *c, struct hvd_slice scope, struct hvd_slice key);

/* The client has closed its side for writing while a request is under way. False if there is nothing to wait for. */
bool hvd_rv_request_half_closed(struct conn *c);

/* store_local.c: the store (store_api.h) at the root. All values are here, and operations are carried out at once. */
struct hvd_store_local *hvd_store_local_create(struct hvd_rv *rv);
void hvd_store_local_destroy(struct hvd_store_local *local); /* NULL is fine */
/* For store_api.c, as the functions there. */
bool hvd_store_local_submit(struct hvd_store_local *local, const struct hvd_store_op *op, struct hvd_store_result *now,
			    struct hvd_store_call *call);
void hvd_store_local_abandon(struct hvd_store_call *call);
enum hvd_cache hvd_store_local_know(const struct hvd_store_local *local, const struct hvd_store_scope_id *scope);
void hvd_store_local_leave(struct hvd_store_local *local, struct hvd_store_client *client);
struct hvd_rv_scope *hvd_store_local_epoch(const struct hvd_store_local *local, uint32_t number);
void hvd_store_local_renew(struct hvd_store_local *local);

#endif
