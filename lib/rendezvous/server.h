/* SPDX-License-Identifier: Apache-2.0 */
/*
 * server.h - the HTTP key-value server through which the ranks of a job rendezvous (Horovod's Gloo contexts).
 *
 *   PUT /scope/key      store the body           200
 *   GET /scope/key      the value                200, or 404
 *   HEAD /scope/key     as GET, without waiting and without the value
 *   DELETE /scope/key   see hvd_rv_store_delete  200
 *
 * A GET for a key without a value waits until the key is PUT; after a limit the answer is 404. Horovod's client has no
 * receive timeout, and checks its own limit of 30 s only when it gets a 404. So `get_wait` must stay well below 30 s;
 * it is 1 s.
 *
 * Keys named rank_<number> have a wait of their own. Gloo asks for such a key once, as soon as it starts, and takes a
 * 404 for an empty host name: the worker then silently gets a wrong local rank. Gloo has no limit for the answer, so
 * `rank_wait` is as long as a worker would wait for the other workers anyway.
 *
 * A client that exceeds a limit gets a status (413, 431, 507 …). The number of connections is an exception, because a
 * worker gives up after three refused connections within 1.5 s: connections above the limit stay in the kernel's queue.
 * To make room for them the server closes connections that have not sent a request, first those of the address with
 * most connections. The Content-Length of a request takes no memory before the bytes arrive.
 *
 * The server runs in the caller's event loop, in one thread. Callbacks come from that loop; they may call all functions
 * of this file except hvd_rv_destroy().
 */
#ifndef HVD_RENDEZVOUS_SERVER_H
#define HVD_RENDEZVOUS_SERVER_H

#include "access.h"
#include "http.h"
#include "lib/base/err.h"
#include "lib/base/log.h"
#include "lib/net/addr.h"
#include "remote_owner.h"
#include "store.h"

#include <event2/event.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

struct hvd_conn;
struct hvd_rv;
struct hvd_rv_request;

/*
 * PyTorch's TCPStore clients (torch.distributed) may connect to the same port: no HTTP request begins with their first
 * byte (tcpstore.h). A process that calls init_process_group() adds to the store's key "init/". Each such addition,
 * also for a later default process group, is an init event.
 */
struct hvd_rv_init_event {
	struct hvd_addr from;
	uint32_t pid;   /* of the process, as the client sends it; 0 = it sends none */
	uint32_t epoch; /* of the store: each default process group but the first has an empty one */
};
typedef void hvd_rv_init_fn(void *arg, const struct hvd_rv_init_event *join);

/* Limits and times. hvd_rv_config_init() sets all of them; change what should differ. Times are in seconds. */
struct hvd_rv_config {
	struct hvd_rv_store_limits store;
	size_t head_max;      /* bytes of a request's head */
	unsigned conns_max;   /* open connections; at most as many as this process may have descriptors */
	size_t pending_max;   /* bytes of incomplete values that one address is sending; at least value_max */
	unsigned waiting_max; /* waiting GETs; at most 3/4 of conns_max. One more is answered 404 at once */

	double get_wait;  /* how long a GET waits for its value; 0 = not at all */
	double rank_wait; /* the same for keys named rank_<number> */
	double stall;     /* a request of which nothing arrives for so long gets 408 */
	double head_time; /* a head that is not complete after so long gets 408, even when bytes still arrive */
	double idle;      /* a connection without a request is closed after so long */

	struct hvd_rv_access *access; /* not owned, must outlive the server; NULL = anyone */
	/* With `access`: whose a connection from another host is must be known, too. This asks, and the answer goes to
	 * hvd_rv_owner_answer(). NULL: their address is enough. */
	hvd_rv_ask_fn *ask_owner;
	void *ask_owner_arg;
	bool tcpstore;              /* answer TCPStore clients */
	hvd_rv_init_fn *init_event; /* may be NULL */
	void *init_event_arg;
	/* A rank of Horovod has stored its first value: its init() has begun. At the root; may be NULL. */
	void (*horovod)(void *arg);
	void *horovod_arg;

	unsigned channel;  /* of the messages between this server and relays; HVD_CHANNEL_STORE */
	double relay_back; /* seconds within which a relay whose connection has ended may come back */

	/* This server is a relay: its values are those of the root (relay_wire.h). It has no parent at first. */
	bool relay;
	uint32_t relay_id; /* this relay's number, which no other of the launch has */
	struct hvd_addr
		relay_addr; /* in place of the address of its clients, where they are told apart (hvd_rv_init_event) */
	double parent_wait; /* a parent that owes an answer, and sends nothing for so long, is lost */
	/* The connection to the parent has ended; the callee may give the relay another one. */
	void (*parent_lost)(void *arg);
	void *parent_lost_arg;
};

void hvd_rv_config_init(struct hvd_rv_config *cfg);

/* `log` may be NULL, else it must outlive the server. */
struct hvd_rv *hvd_rv_create(struct event_base *base, const struct hvd_rv_config *cfg, const struct hvd_log *log,
			     struct hvd_err *err);
/* Close all connections at once. A request that a hook has taken stays valid until the hook answers it. NULL is
 * fine. */
void hvd_rv_destroy(struct hvd_rv *rv);

/*
 * Listen on `n` numeric addresses ("::" takes IPv4 too), all at one port of lo..hi that is free on
 * each of them; lo = hi = 0 lets the kernel choose. The search begins at a random port of the range. A second call adds
 * addresses, at a port of their own. On error (HVD_E_USAGE for a bad address or range, HVD_E_NET when no port is left)
 * nothing was added.
 */
int hvd_rv_listen(struct hvd_rv *rv, const char *const *ips, size_t n, uint16_t lo, uint16_t hi, struct hvd_err *err);
/* Also take the connections of `fd`, which listens and is non-blocking. Takes ownership of `fd`. */
void hvd_rv_listen_fd(struct hvd_rv *rv, int fd);
/* Stop listening on all addresses but these. Open connections stay open. */
void hvd_rv_unbind_others(struct hvd_rv *rv, const struct hvd_addr *addrs, size_t n);
/* The answer to a question of cfg.ask_owner. */
void hvd_rv_owner_answer(struct hvd_rv *rv, const struct hvd_owner_answer *answer);
/* Close all connections from addresses that cfg.access does not list (any longer). */
void hvd_rv_disconnect_denied(struct hvd_rv *rv);
/* The port of the first listener; 0 while there is none. */
uint16_t hvd_rv_port(const struct hvd_rv *rv);
/* The address and port of listener `i`; -1 when there are not so many. */
int hvd_rv_listener(const struct hvd_rv *rv, size_t i, struct sockaddr_storage *addr);

/* The server is a relay: `conn` leads to its parent from now on. Takes ownership of `conn`. NULL: there will be no
 * parent any longer, and clients are closed. */
void hvd_rv_relay_up(struct hvd_rv *rv, struct hvd_conn *conn);
/* The same for a connection that also carries other messages, and stays the caller's. When the connection ends:
 * hvd_rv_relay_up(rv, NULL). */
void hvd_rv_relay_share(struct hvd_rv *rv, struct hvd_conn *conn);

/* A relay has connected, and has proven that it belongs to this launch (lib/protocol/preauth.h). Takes ownership of
 * `conn`. */
void hvd_rv_relay_take(struct hvd_rv *rv, struct hvd_conn *conn);
/* The same for a connection that also carries other messages, and stays the caller's. The caller reports when the queue
 * has become short (hvd_conn_ops.drained), and when the connection is over, before it is freed. `dropped` is called when
 * the server has no use for the relay any longer; `broken`: because the relay has broken the protocol. After
 * hvd_rv_child_over() or `dropped` the child is invalid. */
struct hvd_rv_child;
struct hvd_rv_child *hvd_rv_child_share(struct hvd_rv *rv, struct hvd_conn *conn,
					void (*dropped)(bool broken, void *arg), void *arg);
void hvd_rv_child_drained(struct hvd_rv_child *child);
void hvd_rv_child_over(struct hvd_rv_child *child);
/* Only relays with these numbers may be connected to this server from now on. */
void hvd_rv_relay_admit(struct hvd_rv *rv, const uint32_t *relay_ids, size_t n);

/* Change how long a GET waits for a key named rank_<number>, from now on. */
void hvd_rv_set_rank_wait(struct hvd_rv *rv, double seconds);
/* All ranks of the job start again: forget what TCPStore clients have stored and how often each process has arrived,
 * and close their connections. */
void hvd_rv_tcpstore_reset(struct hvd_rv *rv);
/* Set how many ranks there are, which helps to assign clients to epochs (tcpstore_epoch.h); 0: not known. */
void hvd_rv_tcpstore_ranks(struct hvd_rv *rv, size_t ranks);
/* What TCPStore clients wait for: at most `max` lines (wait_line.h); NULL = nobody waits. The caller frees it. */
char *hvd_rv_tcpstore_waits(const struct hvd_rv *rv, size_t max);
typedef void hvd_rv_waits_fn(char *text, void *arg); /* takes the text */
/* The same for the clients of this server and of all relays. `done` is called from the event loop, after at most a
 * second, or when the server is destroyed. */
void hvd_rv_tcpstore_ask_waits(struct hvd_rv *rv, size_t max, hvd_rv_waits_fn *done, void *arg);
/* Set how many members a scope has: its values are removed when all members have deleted their keys. 0: not known. */
int hvd_rv_scope_size(struct hvd_rv *rv, const char *scope, size_t members, struct hvd_err *err);
/* Keep the scope, which must have a value, as long as the server: hvd_rv_clear() leaves it alone. */
void hvd_rv_lasting(struct hvd_rv *rv, const char *scope);
/* Forget all values and scope sizes, except those of the scope `kept` (may be NULL) and of lasting ones: a new
 * generation of the job begins. Waiting GETs go on waiting. */
void hvd_rv_clear(struct hvd_rv *rv, const char *kept);
/* Forget the values of one scope, not its size. */
void hvd_rv_clear_scope(struct hvd_rv *rv, const char *scope);
/* Do the same as a client's PUT and GET. The value that hvd_rv_get() returns is valid until the next call or event. */
int hvd_rv_put(struct hvd_rv *rv, const char *scope, const char *key, const void *data, size_t len,
	       struct hvd_err *err);
const struct hvd_rv_value *hvd_rv_get(struct hvd_rv *rv, const char *scope, const char *key);

enum hvd_rv_took {
	HVD_RV_PASS,  /* the server answers, as if there were no hook */
	HVD_RV_TAKEN, /* the hook answers `req` with hvd_rv_answer(), now or later, exactly once */
};

/* What a scope does besides storing values. Any function may be NULL. Keys are not terminated. In a scope with get or
 * put, and without all_deleted, a client may not DELETE (403): the values do not belong to clients. */
struct hvd_rv_hook {
	/* A client GETs a key. */
	enum hvd_rv_took (*get)(void *arg, struct hvd_slice key, struct hvd_rv_request *req);
	/* A client has PUT a value. Return 0 to store it (200); otherwise the status of the answer, and the value is
	 * not stored. */
	int (*put)(void *arg, struct hvd_slice key, const void *data, size_t len);
	/* All members of the scope have deleted their keys, and its values were removed. */
	void (*all_deleted)(void *arg);
	/* The client of a taken request has closed its connection. The hook must still answer the request; the answer
	 * has no effect. */
	void (*gone)(void *arg, struct hvd_rv_request *req);
};

/* Set the hook of a scope, in place of the former one. `hook` is copied. */
void hvd_rv_hook(struct hvd_rv *rv, const char *scope, const struct hvd_rv_hook *hook, void *arg);

/* Called for each value of a client, in any scope, before it is stored; hvd_rv_get() finds earlier values. Names are
 * not terminated. */
typedef void hvd_rv_watch_fn(void *arg, struct hvd_slice scope, struct hvd_slice key, const void *data, size_t len);

/* Set the server's only watch function, in place of the former one. */
void hvd_rv_watch(struct hvd_rv *rv, hvd_rv_watch_fn *fn, void *arg);

/* Answer a taken request and free it. Safe if the client has closed its connection, and after hvd_rv_destroy(). */
void hvd_rv_answer(struct hvd_rv_request *req, int status, const void *data, size_t len);

struct hvd_rv_stats {
	uint64_t connections; /* accepted, including those that were refused */
	uint64_t requests;
	uint64_t gets, puts, deletes; /* by method; HEAD counts as GET */
	uint64_t ok, not_found;       /* answers 200 and 404 */
	uint64_t errors;              /* all other answers */
	uint64_t waited;              /* GETs that had to wait */
	uint64_t refused_address, refused_user;
	uint64_t refused_malformed; /* 400, 411, 414, 417, 431, 501, 505 */
	uint64_t refused_size;      /* 413 */
	uint64_t refused_room;      /* 507 */
	uint64_t timeouts;          /* answers 408, and clients that did not read their answer */
	uint64_t wait_limit;        /* GETs that did not wait because waiting_max was reached */
	uint64_t paused;            /* times that accepting stopped because all places were taken */
	uint64_t bytes_in, bytes_out;
	unsigned conns_now, conns_peak; /* of both protocols */
	uint64_t tcpstore_requests;
	uint64_t tcpstore_joined;             /* init events */
	uint64_t tcpstore_old;                /* clients that were too old */
	unsigned tcpstore_now, tcpstore_peak; /* open connections */
	unsigned waiting_now, waiting_peak;
	unsigned relays_now; /* that are connected to this server */
	struct hvd_rv_store_stats store;
};
void hvd_rv_stats(const struct hvd_rv *rv, struct hvd_rv_stats *out);

/*
 * End gracefully: accept no more connections, finish the requests under way, answer waiting GETs with 404 and taken
 * ones with 503. After `seconds` the remaining connections are closed. `done` is called once, from the loop, when no
 * connection is left.
 */
void hvd_rv_stop(struct hvd_rv *rv, double seconds, void (*done)(void *arg), void *arg);

#endif
