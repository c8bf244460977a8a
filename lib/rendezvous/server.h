/* SPDX-License-Identifier: Apache-2.0 */
/*
 * server.h - the rendezvous: an HTTP key-value server that Gloo contexts meet at.
 *
 *   PUT /scope/key      store the body           200
 *   GET /scope/key      the value                200, or 404
 *   HEAD /scope/key     as GET, without waiting and without the value
 *   DELETE /scope/key   see hvd_rv_store_delete  200
 *   GET /_hvd/probe/N   answered by the probe callback; names in the scope _hvd are never stored
 *
 * A GET for a key that is not there is held until it is PUT or a time has
 * passed. Horovod's client has no receive timeout, and looks at its own 30 s
 * only when it gets a 404: so `hold` must stay well below those, and 1 s does.
 * Keys named rank_<number> are another matter. Gloo asks for them once, as soon
 * as it starts, and takes a 404 for an empty host name, which gives the worker
 * a wrong local rank without a word. Nothing on its side bounds that wait, so
 * `rank_hold` is as long as a worker would wait for the others anyway.
 *
 * Whoever has no place is told with a status (413, 431, 507 …), with one
 * exception: connections above the limit are left in the kernel's queue rather
 * than refused, since a worker gives up after three refusals within 1.5 s. A
 * place is made free at the cost of connections that ask nothing, those of the
 * address with most connections first. What a client says that it will send
 * takes no room before it is here.
 *
 * The server lives in the caller's event loop, in one thread. Callbacks come
 * from that loop; they may call everything here but hvd_rv_destroy().
 */
#ifndef HVD_RENDEZVOUS_SERVER_H
#define HVD_RENDEZVOUS_SERVER_H

#include "access.h"
#include "http.h"
#include "lib/base/err.h"
#include "lib/base/log.h"
#include "lib/net/addr.h"
#include "store.h"

#include <event2/event.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

struct hvd_rv;
struct hvd_rv_request;

/*
 * Answer to "who are you": `nonce` is 2 to 128 lower- or upper-case hexadecimal digits as the client sent them.
 * Write at most `room` bytes to `out` and return how many, or -1 for 404. `fd` is the connection's, to ask for its
 * ends.
 */
typedef int hvd_rv_probe_fn(void *arg, const char *nonce, int fd, char *out, size_t room);

#define HVD_RV_PROBE_ROOM 1024
#define HVD_RV_PROBE_PATH "/_hvd/probe/" /* and the nonce */

/* Set by hvd_rv_config_init(); change what should differ. Times are in seconds. */
struct hvd_rv_config {
	struct hvd_rv_store_limits store;
	size_t head_max;      /* bytes of a request's head */
	unsigned conns_max;   /* open connections; never more than the descriptors this process may have */
	size_t pending_max;   /* bytes of values that one address is in the middle of sending; value_max at the least */
	unsigned waiting_max; /* held GETs; at most 3/4 of conns_max. One more is answered 404 at once */

	double get_wait;  /* how long a GET waits for its key; 0 = not at all */
	double rank_wait; /* the same for keys named rank_<number> */
	double stall;     /* a request that stops in the middle for so long gets 408 */
	double head_time; /* a head that is not complete after so long gets 408, however it trickles */
	double idle;      /* a connection that is open without a request is closed after so long */

	struct hvd_rv_access *access; /* not owned, must outlive the server; NULL = anyone */
	hvd_rv_probe_fn *probe;       /* NULL = 404 */
	void *probe_arg;
};

void hvd_rv_config_init(struct hvd_rv_config *cfg);

/* `log` may be NULL, else it must outlive the server. */
struct hvd_rv *hvd_rv_create(struct event_base *base, const struct hvd_rv_config *cfg, const struct hvd_log *log,
			     struct hvd_err *err);
/* Closes everything at once. Requests that a hook still owes an answer stay valid until answered. NULL is fine. */
void hvd_rv_destroy(struct hvd_rv *rv);

/*
 * Listen on `n` numeric addresses ("::" takes IPv4 too), all at the same port: one of lo..hi that is free on every
 * one of them, looked for from a random one on; lo = hi = 0 lets the kernel choose. May be called again to add more, at
 * a port of their own. On error (HVD_E_USAGE for a bad address or range, HVD_E_NET when no port is left) nothing was
 * added.
 */
int hvd_rv_listen(struct hvd_rv *rv, const char *const *ips, size_t n, uint16_t lo, uint16_t hi, struct hvd_err *err);
/* Stop listening on all addresses but these numeric ones; connections that are open go on. */
void hvd_rv_keep(struct hvd_rv *rv, const struct hvd_addr *addrs, size_t n);
/* Close the connections of those that cfg.access does not list (any longer), whatever they wait for. */
void hvd_rv_expel(struct hvd_rv *rv);
/* The port of the first listener; 0 while there is none. */
uint16_t hvd_rv_port(const struct hvd_rv *rv);
/* The address of listener `i`, with its port; -1 when there are not so many. */
int hvd_rv_listener(const struct hvd_rv *rv, size_t i, struct sockaddr_storage *addr);

/* Change how long a GET waits for a key named rank_<number>, from now on. */
void hvd_rv_set_rank_wait(struct hvd_rv *rv, double seconds);
/* How many members a scope has, so that its values go when all have given up their key. 0 forgets it. */
int hvd_rv_scope_size(struct hvd_rv *rv, const char *scope, size_t members, struct hvd_err *err);
/* Forget all values and scope sizes, but those of the scope `kept` (may be NULL): a new generation of the job begins.
 * Waiting GETs go on waiting. */
void hvd_rv_clear(struct hvd_rv *rv, const char *kept);
/* Forget the values of one scope, not its size. */
void hvd_rv_clear_scope(struct hvd_rv *rv, const char *scope);
/* What a client's PUT and GET do. The value is on loan until the next call or event. */
int hvd_rv_put(struct hvd_rv *rv, const char *scope, const char *key, const void *data, size_t len,
	       struct hvd_err *err);
const struct hvd_rv_value *hvd_rv_get(struct hvd_rv *rv, const char *scope, const char *key);

enum hvd_rv_took {
	HVD_RV_PASS,  /* go on as if there were no hook */
	HVD_RV_TAKEN, /* the hook answers `req`, now or later, exactly once */
};

/* What a scope does other than to store. Any function may be NULL. Names are not terminated. In a scope with a get or a
 * put of its own no client may DELETE (403), for its values are not theirs; unless it has a met, which waits for that.
 */
struct hvd_rv_hook {
	/* A client wants a key. */
	enum hvd_rv_took (*get)(void *arg, struct hvd_slice key, struct hvd_rv_request *req);
	/* A client has sent a value. 0: store it (200); otherwise nothing is stored and this is the status. */
	int (*put)(void *arg, struct hvd_slice key, const void *data, size_t len);
	/* As many clients as the scope has members have given up their keys, and so the values have gone. */
	void (*met)(void *arg);
	/* The client of a taken request has gone. The request still has to be answered, to no effect. */
	void (*gone)(void *arg, struct hvd_rv_request *req);
};

/* One hook for each scope; set again to replace it. `hook` is copied. */
void hvd_rv_hook(struct hvd_rv *rv, const char *scope, const struct hvd_rv_hook *hook, void *arg);

/* Sees each value that a client has sent and that is about to be stored, whatever the scope; the values that came
 * before it are there for hvd_rv_get(). Names are not terminated. */
typedef void hvd_rv_watch_fn(void *arg, struct hvd_slice scope, struct hvd_slice key, const void *data, size_t len);

/* One for the server; set again to replace it. */
void hvd_rv_watch(struct hvd_rv *rv, hvd_rv_watch_fn *fn, void *arg);

/* Answer and forget a taken request; safe when the client, or the server itself, has gone. */
void hvd_rv_answer(struct hvd_rv_request *req, int status, const void *data, size_t len);
/* Who asks; -1 when it has gone. */
int hvd_rv_request_peer(const struct hvd_rv_request *req, struct sockaddr_storage *peer);

struct hvd_rv_stats {
	uint64_t connections; /* accepted, those that were refused included */
	uint64_t requests;
	uint64_t gets, puts, deletes; /* by method; HEAD counts as GET */
	uint64_t ok, not_found;       /* answers 200 and 404 */
	uint64_t errors;              /* all other answers */
	uint64_t waited;              /* GETs that had to wait */
	uint64_t refused_address, refused_user;
	uint64_t refused_malformed; /* 400, 411, 414, 417, 431, 501, 505 */
	uint64_t refused_size;      /* 413 */
	uint64_t refused_room;      /* 507 */
	uint64_t timeouts;          /* 408, and peers that did not read their answer */
	uint64_t wait_limit;        /* GETs that were not held because waiting_max was met */
	uint64_t paused;            /* times that connections had to wait for a place */
	uint64_t bytes_in, bytes_out;
	unsigned conns_now, conns_peak;
	unsigned waiting_now, waiting_peak;
	struct hvd_rv_store_stats store;
};
void hvd_rv_stats(const struct hvd_rv *rv, struct hvd_rv_stats *out);

/*
 * End gracefully: accept no more, let what is under way finish, answer held GETs 404 and taken ones 503. `done` is
 * called from the loop, once, when no connection is left or after `seconds`, when the rest was cut off.
 */
void hvd_rv_stop(struct hvd_rv *rv, double seconds, void (*done)(void *arg), void *arg);

#endif
