/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A connection: its owner, reading, deadlines.
 *
 * A worker makes a connection for each request, so the cost of a request is the number of system calls for a
 * connection. These are accept4, read, sendmsg and close: the server reads the request right after accepting the
 * connection (it has mostly arrived already) and answers it in the same callback. It registers an event and sets a
 * deadline only when it has to wait for something. This is why connections are plain descriptors and not libevent's
 * bufferevents, and why all deadlines share one timer (timer_wheel.h).
 *
 * The server closes the connection after the answer, unless the client wants to send another request (request.c). The
 * answer and the end of the connection then go out in one segment.
 *
 * The memory of a closed connection is reused only after the callback from the event loop has returned to its top
 * (stream.h): no caller further up the stack can find another connection in its place.
 */
#include "internal.h"

#include "lib/base/xalloc.h"
#include "lib/net/sock_diag.h"
#include "tcpstore.h"

#include <errno.h>
#include <netdb.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define POOL_MAX    1024      /* closed connections whose memory is kept */
#define READ_BUDGET (1 << 20) /* bytes of one connection per wake-up */

static void on_close(struct hvd_rv_stream *s, enum hvd_log_level level, const char *why)
{
	(void)level;
	(void)why;
	hvd_rv_conn_close(conn_of(s));
}

static void free_conn(struct hvd_rv_stream *s)
{
	struct conn *c = conn_of(s);
	struct hvd_rv *rv = s->rv;

	hvd_rv_value_unref(c->value);
	free(c->names);
	if (rv->n_pool == POOL_MAX) {
		free(c);
		return;
	}
	TAILQ_INSERT_HEAD(&rv->pool, s, link);
	rv->n_pool++;
}

/* --- input --- */

/* Keep the input that is left over. `data` may be a part of the input itself. */
static void stash(struct conn *c, const char *data, size_t len)
{
	if (len > 0 && !c->s.in)
		hvd_rv_stream_make_room(&c->s, c->s.rv->cfg.head_max);
	hvd_rv_stream_keep(&c->s, data, len);
}

/* Handle the complete requests at the front of the input. Returns how many bytes they took. */
static size_t consume(struct conn *c, const char *data, size_t len)
{
	size_t used = 0;

	while (used < len && c->state == CONN_HEAD) {
		const char *p = data + used;
		size_t left = len - used, more;
		struct hvd_http_req req;
		int status;

		switch (hvd_http_parse(p, left, c->s.rv->cfg.head_max, &c->scanned, &req, &status)) {
		case HVD_HTTP_MORE:
			return used;
		case HVD_HTTP_BAD:
			c->s.rv->stats.requests++;
			hvd_rv_conn_refuse(c, status);
			return len;
		case HVD_HTTP_DONE:
			break;
		}
		more = left - req.head_len;
		/* Only a PUT has a use for its body. The body of another request is skipped, and must fit into the
		 * buffer together with the head. */
		if (req.method != HVD_HTTP_PUT && req.length > more && req.length <= c->s.rv->cfg.head_max &&
		    req.head_len + req.length <= c->s.rv->cfg.head_max)
			return used;
		c->scanned = 0;
		used += req.head_len + hvd_rv_request_begin(c, &req, p + req.head_len, more);
	}
	return used;
}

/* Nothing is there to be read: wait for input, as long as the state allows. */
static void wait_for_input(struct conn *c, bool was_partial)
{
	const struct hvd_rv_config *cfg = &c->s.rv->cfg;

	if (c->state == CONN_HEAD && c->s.in_len > 0) {
		if (!was_partial)
			c->limit = hvd_deadline_in(cfg->head_time);
		hvd_rv_conn_progress(c, cfg->stall);
	} else if (c->state == CONN_BODY) {
		hvd_rv_conn_progress(c, cfg->stall);
	} else if (c->state == CONN_HEAD && !c->has_asked) {
		c->limit = INT64_MAX;
		hvd_rv_conn_progress(c, cfg->head_time);
	} else if (c->state == CONN_HEAD) {
		c->limit = INT64_MAX;
		hvd_rv_conn_progress(c, cfg->idle);
	}
	if (c->state != CONN_WRITE && c->state != CONN_DEAD)
		hvd_rv_stream_watch(&c->s, EV_READ);
}

/* The client has closed its side for writing. */
static void on_eof(struct conn *c)
{
	switch (c->state) {
	case CONN_WAITING:
		/* The client has closed the connection, or one half of it. A client that wants an answer does not do
		 * that, so there is no use in waiting any longer. */
		hvd_rv_conn_release(c, true);
		break;
	case CONN_BODY:
		hvd_rv_conn_refuse(c, 400);
		break;
	case CONN_HEAD:
		if (c->s.in_len > 0)
			hvd_rv_conn_refuse(c, 400);
		else
			hvd_rv_conn_close(c);
		break;
	case CONN_TAKEN:
		if (!hvd_rv_request_half_closed(c))
			hvd_rv_conn_close(c);
		break;
	default:
		hvd_rv_conn_close(c);
		break;
	}
}

/* The client speaks the other protocol: its connection goes on there. */
static void hand_over(struct conn *c, const char *data, size_t len)
{
	struct hvd_rv *rv = c->s.rv;
	struct hvd_addr peer = c->s.entry.peer->addr;

	c->state = CONN_DEAD;
	hvd_tcpstore_take(rv->tcpstore, hvd_rv_stream_release(&c->s), &peer, data, len);
}

static void body_done(struct conn *c)
{
	struct hvd_slice scope = {c->names, c->scope_len}, key = {c->names + c->scope_len, c->key_len};
	char *names = c->names;

	c->names = NULL;
	hvd_rv_request_put(c, scope, key);
	free(names);
}

/* --- whose connection it is --- */

static void log_refusal(const struct hvd_rv *rv, const struct sockaddr_storage *peer, const char *why, uid_t uid)
{
	char host[NI_MAXHOST], port[NI_MAXSERV];

	if (!rv->log || rv->log->level < HVD_LOG_VERBOSE)
		return;
	if (getnameinfo((const struct sockaddr *)peer, sizeof(*peer), host, sizeof(host), port, sizeof(port),
			NI_NUMERICHOST | NI_NUMERICSERV) != 0) {
		strcpy(host, "?");
		strcpy(port, "?");
	}
	if (uid == (uid_t)-1)
		hvd_verbose(rv->log, "refused a connection from %s port %s: %s", host, port, why);
	else
		hvd_verbose(rv->log, "refused a connection from %s port %s: %s (uid %u)", host, port, why,
			    (unsigned)uid);
}

enum hvd_rv_verdict hvd_rv_judge(struct hvd_rv *rv, int fd, const struct sockaddr_storage *peer,
				 const struct sockaddr_storage *local)
{
	uid_t uid = (uid_t)-1;
	enum hvd_rv_verdict verdict = HVD_RV_WELCOME;

	if (rv->cfg.access)
		verdict = hvd_rv_access_check(rv->cfg.access, fd, peer, local, &uid);
	if (verdict == HVD_RV_OTHER_HOST && !rv->owners)
		verdict = HVD_RV_WELCOME;
	switch (verdict) {
	case HVD_RV_NOT_LISTED:
		rv->stats.refused_address++;
		log_refusal(rv, peer, "its address does not belong to the job", uid);
		break;
	case HVD_RV_OTHER_USER:
		rv->stats.refused_user++;
		log_refusal(rv, peer, "it belongs to another user of this host", uid);
		break;
	case HVD_RV_ENDED:
		rv->stats.refused_user++;
		break;
	case HVD_RV_WELCOME:
	case HVD_RV_UNPROVEN:
	case HVD_RV_OTHER_HOST:
		break;
	}
	return verdict;
}

/* Go on with a connection whose owner was looked up. */
static void decide(struct conn *c, enum hvd_rv_verdict verdict)
{
	if (verdict == HVD_RV_WELCOME) {
		c->unproven = false;
		c->limit = INT64_MAX;
		return;
	}
	if (c->limit == INT64_MAX)
		c->limit = hvd_deadline_in(c->s.rv->cfg.stall);
	if (verdict == HVD_RV_UNPROVEN && hvd_left(c->limit) > 0) {
		/* An acknowledgement is on its way, of which nothing tells: try again at the next tick. */
		hvd_rv_stream_watch(&c->s, 0);
		hvd_rv_arm(c->s.rv, &c->s.timer, hvd_now());
		return;
	}
	hvd_rv_conn_close(c);
}

/* The connection's host has said whose it is, and that it may not connect. A rank in a container looks like this, and one
 * whose host is stopped, so the first ones are reported. */
static void refuse_remote(struct conn *c, int64_t owner)
{
	struct hvd_rv *rv = c->s.rv;
	char text[HVD_ADDR_TEXT];
	const char *from = hvd_addr_text(&c->s.entry.peer->addr, text);

	rv->stats.refused_user++;
	if (owner == HVD_OWNER_OTHER) {
		hvd_verbose(rv->log, "refused a connection from %s: it belongs to another user of that host", from);
	} else if (owner == HVD_OWNER_UNKNOWN && !rv->logged_unknown) {
		rv->logged_unknown = true;
		hvd_warn(rv->log,
			 "refused a connection from %s to the rendezvous: its host did not say whose it is; "
			 "is the node agent there stopped?",
			 from);
	} else if (owner == HVD_OWNER_NONE && !rv->logged_unowned && hvd_tcp_is_established(c->s.fd)) {
		rv->logged_unowned = true;
		hvd_warn(
			rv->log,
			"refused a connection from %s to the rendezvous: no process on that host has it; if it is that "
			"of a rank in a container with a network of its own, share the node's network with the "
			"container",
			from);
	}
	hvd_rv_conn_close(c);
}

static void input(struct conn *c);

static void on_owner(struct hvd_rv_asked *asked, int64_t owner)
{
	struct conn *c = (struct conn *)(void *)((char *)asked - offsetof(struct conn, asked));
	enum hvd_rv_verdict verdict = hvd_rv_access_judge(c->s.fd, c->has_syn, owner);

	if (verdict == HVD_RV_OTHER_USER) {
		refuse_remote(c, owner);
		return;
	}
	decide(c, verdict);
	if (!c->unproven && c->state != CONN_DEAD)
		input(c);
}

/* Ask the client's host whose it is. on_owner() follows. */
static bool ask_host(struct conn *c, const struct sockaddr_storage *peer)
{
	struct hvd_addr from, to;
	struct sockaddr_storage here;
	socklen_t len = sizeof(here);
	in_port_t port;

	c->has_syn = c->has_syn || hvd_tcp_has_syn(c->s.fd);
	if (!c->has_syn)
		hvd_tcp_acknowledge(c->s.fd);
	if (getsockname(c->s.fd, (struct sockaddr *)&here, &len) != 0 ||
	    hvd_addr_from_sockaddr((const struct sockaddr *)peer, &from, &c->asked.port) != 0 ||
	    hvd_addr_from_sockaddr((const struct sockaddr *)&here, &to, &port) != 0)
		return false;
	c->asked.known = on_owner;
	if (!hvd_rv_owners_ask(c->s.rv->owners, &from, &to, port, &c->asked))
		return false;
	/* The question has a deadline. */
	hvd_rv_stream_watch(&c->s, 0);
	hvd_rv_timer_wheel_remove(&c->s.rv->wheel, &c->s.timer);
	return true;
}

/* Find out whose connection it is, now that the client has sent something. False: it is closed, or has to wait. */
static bool prove(struct conn *c)
{
	struct sockaddr_storage peer;
	socklen_t len = sizeof(peer);
	enum hvd_rv_verdict verdict = HVD_RV_ENDED;
	char byte;
	ssize_t n = recv(c->s.fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);

	if (n < 0 && errno == EAGAIN) {
		wait_for_input(c, false);
		return false;
	}
	if (n > 0 && getpeername(c->s.fd, (struct sockaddr *)&peer, &len) == 0)
		verdict = hvd_rv_judge(c->s.rv, c->s.fd, &peer, NULL);
	if (verdict == HVD_RV_OTHER_HOST && ask_host(c, &peer))
		return false;
	decide(c, verdict);
	return !c->unproven;
}

static void input(struct conn *c)
{
	struct hvd_rv *rv = c->s.rv;
	size_t budget = READ_BUDGET;
	bool was_partial = c->state == CONN_HEAD && c->s.in_len > 0;

	if (c->unproven && !prove(c))
		return;
	if (was_partial && c->scanned == 0) { /* it came behind an earlier request, and was not parsed yet */
		size_t used = consume(c, c->s.in, c->s.in_len);

		stash(c, c->s.in + used, c->s.in_len - used);
		was_partial = used == 0;
	}
	while (budget > 0 && c->state != CONN_DEAD && c->state != CONN_WRITE) {
		size_t room = sizeof(rv->scratch);
		char *into = rv->scratch;
		ssize_t n;

		if (c->state == CONN_BODY && !hvd_rv_request_room(c))
			continue; /* refused */
		if (c->state == CONN_BODY) {
			into = (char *)c->value->data + c->at;
			room = c->value->len - c->at;
		} else if (c->state != CONN_DRAIN && c->s.in) {
			into = c->s.in + c->s.in_len;
			room = c->s.in_room - c->s.in_len;
		} else if (c->state == CONN_WAITING || c->state == CONN_TAKEN) {
			room = rv->cfg.head_max;
		}
		/* The client waits for an answer, and has sent more meanwhile than a request may have. */
		if (room == 0) {
			hvd_rv_conn_close(c);
			return;
		}
		n = hvd_rv_stream_read(&c->s, into, room);
		if (n < 0)
			break;
		if (n == 0) {
			on_eof(c);
			return;
		}
		budget -= (size_t)n < budget ? (size_t)n : budget;
		if (c->state == CONN_BODY) {
			c->at += (size_t)n;
			if (c->at == c->body_len)
				body_done(c);
		} else if (c->state == CONN_HEAD && !c->has_asked && !c->s.in && rv->tcpstore &&
			   hvd_tcpstore_speaks(into[0])) {
			hand_over(c, into, (size_t)n);
			return;
		} else if (c->state == CONN_HEAD) {
			const char *data = c->s.in ? c->s.in : rv->scratch;
			size_t len = c->s.in_len + (size_t)n, used = consume(c, data, len);

			if (c->state == CONN_DEAD)
				return;
			if (c->state == CONN_DRAIN)
				continue;
			if (len - used > rv->cfg.head_max) { /* more requests ahead of their answers than are kept */
				hvd_rv_conn_close(c);
				return;
			}
			was_partial = was_partial && used == 0;
			if (used < len || c->s.in)
				stash(c, data + used, len - used);
			if (c->state == CONN_HEAD && c->s.in_len == 0 && (size_t)n < room)
				break; /* all requests are answered, and no more input is there */
		} else if (c->state != CONN_DRAIN) {
			stash(c, c->s.in ? c->s.in : rv->scratch, c->s.in_len + (size_t)n);
		}
	}
	wait_for_input(c, was_partial);
}

static void on_ready(struct hvd_rv_stream *s, short events)
{
	struct conn *c = conn_of(s);

	(void)events;
	if (c->state == CONN_WRITE) {
		hvd_rv_conn_flush(c);
		if (c->state != CONN_HEAD)
			return;
	}
	input(c);
}

static void on_due(struct hvd_rv_stream *s)
{
	struct conn *c = conn_of(s);

	switch (c->state) {
	case CONN_WAITING:
		hvd_rv_conn_release(c, false);
		break;
	case CONN_BODY:
		hvd_rv_conn_refuse(c, 408);
		break;
	case CONN_HEAD:
		if (c->unproven && !c->s.watching) { /* something has come */
			input(c);
			break;
		}
		if (c->s.in_len > 0) {
			hvd_rv_conn_refuse(c, 408);
			break;
		}
		hvd_rv_conn_close(c);
		break;
	case CONN_WRITE:
		c->s.rv->stats.timeouts++;
		hvd_rv_conn_close(c);
		break;
	default:
		hvd_rv_conn_close(c);
		break;
	}
}

void hvd_rv_conn_start(struct hvd_rv *rv, int fd, const struct sockaddr_storage *peer, bool unproven)
{
	static const struct hvd_rv_stream_ops ops = {
		.ready = on_ready, .due = on_due, .close = on_close, .free = free_conn};
	struct conn *c = conn_of(TAILQ_FIRST(&rv->pool));
	struct hvd_addr addr;

	if (c) {
		TAILQ_REMOVE(&rv->pool, &c->s, link);
		rv->n_pool--;
		memset(c, 0, sizeof(*c));
	} else {
		c = hvd_xcalloc(1, sizeof(*c));
	}
	hvd_addr_from_sockaddr((const struct sockaddr *)peer, &addr, NULL);
	hvd_rv_stream_open(&c->s, rv, &ops, fd, &addr, &rv->lists[CONN_HEAD]);
	c->limit = INT64_MAX;
	c->unproven = unproven;
	input(c);
}
