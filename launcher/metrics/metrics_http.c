/* SPDX-License-Identifier: Apache-2.0 */
/* metrics_http.c - a client is one connection: it is accepted, sends its request, reads the answer, and is closed when it
 * has closed its end, so that no reset destroys the answer. All of that has one deadline. */
#include "metrics_http.h"

#include "lib/base/deadline.h"
#include "lib/base/file.h"
#include "lib/base/timer.h"
#include "lib/base/xalloc.h"
#include "lib/net/accept.h"
#include "lib/net/addr.h"
#include "lib/net/listen.h"
#include "lib/rendezvous/access.h"
#include "lib/rendezvous/http.h"

#include <errno.h>
#include <netinet/tcp.h>
#include <nettle/memops.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/queue.h>
#include <unistd.h>

/* A turn of the event loop accepts half of these. So a client whose request has come is served in the next turn, before
 * its connection has to make room, however many others connect. */
#define MOST_CLIENTS   (2 * HVD_ACCEPT_TURN)
#define CLIENT_SECONDS 10
#define HEAD_MAX       8192
/* How long an acknowledgement that proves whose a connection is may be on its way, until it is looked for again. */
#define PROVE_MS 20
#define PER_WAKE (256 * 1024)

enum client_state {
	READING, /* its request */
	WRITING,
	DRAINING /* answered, and shut for writing */
};

struct client {
	TAILQ_ENTRY(client) entry; /* the oldest first */
	struct hvd_metrics_http *http;
	enum client_state state;
	int fd;
	bool proven; /* it may connect */
	struct event *event;
	struct hvd_timer *deadline, *again; /* again: look once more whose it is */
	char head[HEAD_MAX];
	size_t n_head, scanned;
	char *answer;
	size_t len, sent;
};

struct hvd_metrics_http {
	struct hvd_metrics_http_opts opts;
	char *token;
	struct hvd_acceptor *acceptor;
	struct hvd_rv_access *access;
	in_port_t port;
	TAILQ_HEAD(clients, client) clients;
	size_t n_clients;
};

/* ---- connections ---- */

static void close_client(struct client *c)
{
	TAILQ_REMOVE(&c->http->clients, c, entry);
	c->http->n_clients--;
	hvd_event_unwatch(&c->event);
	hvd_timer_free(c->deadline);
	hvd_timer_free(c->again);
	close(c->fd);
	free(c->answer);
	free(c);
}

static void on_deadline(void *arg)
{
	close_client(arg);
}

static void watch(struct client *c, short what, event_callback_fn fn)
{
	hvd_event_unwatch(&c->event);
	c->event = hvd_event_watch(c->http->opts.base, c->fd, (short)(what | EV_PERSIST), fn, c);
}

/* A client that goes on sending is stopped by its deadline, or to make room. */
static void on_drain(evutil_socket_t fd, short what, void *arg)
{
	char scratch[4096];
	ssize_t n = recv(fd, scratch, sizeof(scratch), MSG_DONTWAIT);

	(void)what;
	if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
		close_client(arg);
}

static void on_writable(evutil_socket_t fd, short what, void *arg)
{
	struct client *c = arg;
	const size_t left = c->len - c->sent;
	ssize_t n = send(fd, c->answer + c->sent, left < PER_WAKE ? left : PER_WAKE, MSG_NOSIGNAL | MSG_DONTWAIT);

	(void)what;
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n < 0) {
		close_client(c);
		return;
	}
	c->sent += (size_t)n;
	if (c->sent < c->len)
		return;
	shutdown(fd, SHUT_WR);
	c->state = DRAINING;
	watch(c, EV_READ, on_drain);
}

/* ---- answers ---- */

/* `body` is taken over; NULL: the status in words. */
static void answer(struct client *c, int status, const char *type, char *body, size_t len, bool head_only)
{
	const char *more = status == 401   ? "WWW-Authenticate: Bearer realm=\"metrics\"\r\n"
			   : status == 405 ? "Allow: GET, HEAD\r\n"
					   : "";
	char *head;
	size_t n;

	if (!body) {
		body = hvd_xasprintf("%d %s\n", status, hvd_http_reason(status));
		len = strlen(body);
	}
	head = hvd_xasprintf("HTTP/1.1 %d %s\r\nContent-Type: %s\r\nContent-Length: %zu\r\nCache-Control: no-store\r\n"
			     "%sConnection: close\r\n\r\n",
			     status, hvd_http_reason(status), type, len, more);
	n = strlen(head);
	c->len = n + (head_only ? 0 : len);
	c->answer = hvd_xrealloc(head, c->len, 1);
	memcpy(c->answer + n, body, c->len - n);
	free(body);
	c->state = WRITING;
	watch(c, EV_WRITE, on_writable);
}

static void refuse(struct client *c, int status, bool head_only)
{
	answer(c, status, "text/plain; charset=utf-8", NULL, 0, head_only);
}

static bool slice_begins(struct hvd_slice s, const char *word)
{
	return s.n >= strlen(word) && strncasecmp(s.p, word, strlen(word)) == 0;
}

/* How long this takes does not depend on where the two differ. */
static bool has_token(const struct hvd_metrics_http *http, struct hvd_slice given)
{
	static const char scheme[] = "Bearer ";
	const size_t n = strlen(http->token);

	return slice_begins(given, scheme) && given.n == sizeof(scheme) - 1 + n &&
	       memeql_sec(given.p + sizeof(scheme) - 1, http->token, n);
}

static enum hvd_metrics_form form_of(struct hvd_slice accept)
{
	static const char open[] = "application/openmetrics-text";

	return accept.n && memmem(accept.p, accept.n, open, sizeof(open) - 1) ? HVD_METRICS_OPENMETRICS
									      : HVD_METRICS_TEXT;
}

static bool is_page(struct hvd_slice target)
{
	static const char page[] = "/metrics";
	const size_t n = sizeof(page) - 1;

	return target.n >= n && memcmp(target.p, page, n) == 0 && (target.n == n || target.p[n] == '?');
}

static void serve(struct client *c, const struct hvd_http_req *req)
{
	const struct hvd_metrics_http *http = c->http;
	const bool head_only = req->method == HVD_HTTP_HEAD;
	const enum hvd_metrics_form form = form_of(req->accept);
	size_t len;
	char *page;

	if (http->token && !has_token(http, req->authorization)) {
		refuse(c, 401, head_only);
	} else if (req->length > 0) {
		refuse(c, 413, head_only);
	} else if (!is_page(req->target)) {
		refuse(c, 404, head_only);
	} else if (req->method != HVD_HTTP_GET && !head_only) {
		refuse(c, 405, head_only);
	} else {
		page = http->opts.page(form, &len, http->opts.arg);
		answer(c, 200, hvd_metrics_type(form), page, len, head_only);
	}
}

/* ---- requests ---- */

/* Whose is the connection, of which nothing was read yet? */
static enum hvd_rv_verdict judge(const struct hvd_metrics_http *http, int fd)
{
	enum hvd_rv_verdict verdict = HVD_RV_ENDED;
	struct sockaddr_storage peer;
	socklen_t len = sizeof(peer);
	uid_t uid = (uid_t)-1;

	if (http->token)
		return HVD_RV_WELCOME;
	if (getpeername(fd, (struct sockaddr *)&peer, &len) == 0)
		verdict = hvd_rv_access_check(http->access, fd, &peer, NULL, &uid);
	if (verdict == HVD_RV_OTHER_USER)
		hvd_verbose(http->opts.log, "refused a request for metrics: it belongs to another user of this host");
	return verdict;
}

static void on_readable(evutil_socket_t fd, short what, void *arg);

/* False: wait until the client has sent something, or for an acknowledgement, or it is refused. */
static bool prove(struct client *c)
{
	char byte;
	ssize_t n = recv(c->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return false;
	switch (n > 0 ? judge(c->http, c->fd) : HVD_RV_ENDED) {
	case HVD_RV_WELCOME:
		c->proven = true;
		return true;
	case HVD_RV_UNPROVEN:
		hvd_event_unwatch(&c->event);
		hvd_timer_in_ms(c->again, PROVE_MS);
		return false;
	case HVD_RV_ENDED:
		close_client(c);
		return false;
	default:
		refuse(c, 403, false);
		return false;
	}
}

static void on_again(void *arg)
{
	struct client *c = arg;

	watch(c, EV_READ, on_readable);
}

static void on_readable(evutil_socket_t fd, short what, void *arg)
{
	struct client *c = arg;
	struct hvd_http_req req;
	int status;
	ssize_t n;

	(void)what;
	if (!c->proven && !prove(c))
		return;
	n = recv(fd, c->head + c->n_head, sizeof(c->head) - c->n_head, MSG_DONTWAIT);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0) {
		close_client(c);
		return;
	}
	c->n_head += (size_t)n;
	switch (hvd_http_parse(c->head, c->n_head, HEAD_MAX, &c->scanned, &req, &status)) {
	case HVD_HTTP_DONE:
		serve(c, &req);
		break;
	case HVD_HTTP_BAD:
		refuse(c, status, false);
		break;
	case HVD_HTTP_MORE:
		break;
	}
}

/* Close the client that has not sent its request for longest, or else the oldest. */
static bool make_room(void *arg)
{
	struct hvd_metrics_http *http = arg;
	struct client *victim = TAILQ_FIRST(&http->clients), *c;

	TAILQ_FOREACH(c, &http->clients, entry)
	if (c->state != WRITING) {
		victim = c;
		break;
	}
	if (victim)
		close_client(victim);
	return victim != NULL;
}

/* Tell a stranger so, who takes up no more time. */
static void turn_away(int fd)
{
	static const char text[] = "HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
	char scratch[HEAD_MAX];

	/* A request that was not read would make close() send a reset, which destroys the answer. */
	if (recv(fd, scratch, sizeof(scratch), MSG_DONTWAIT) != 0)
		send(fd, text, sizeof(text) - 1, MSG_NOSIGNAL | MSG_DONTWAIT);
	close(fd);
}

static void on_accepted(void *arg, int fd, const struct sockaddr_storage *peer)
{
	struct hvd_metrics_http *http = arg;
	const enum hvd_rv_verdict verdict = judge(http, fd);
	struct client *c;

	(void)peer;
	if (verdict != HVD_RV_WELCOME && verdict != HVD_RV_UNPROVEN) {
		turn_away(fd);
		return;
	}
	if (http->n_clients == MOST_CLIENTS)
		make_room(http);
	c = hvd_xcalloc(1, sizeof(*c));
	c->http = http;
	c->fd = fd;
	c->proven = verdict == HVD_RV_WELCOME;
	c->deadline = hvd_timer_new(http->opts.base, on_deadline, c);
	c->again = hvd_timer_new(http->opts.base, on_again, c);
	TAILQ_INSERT_TAIL(&http->clients, c, entry);
	http->n_clients++;
	hvd_timer_at(c->deadline, hvd_deadline_in(CLIENT_SECONDS));
	watch(c, EV_READ, on_readable);
}

/* ---- life ---- */

static int listen_at(const struct sockaddr_storage *addr, struct hvd_err *err)
{
	char text[HVD_ADDR_TEXT];
	struct hvd_addr ip;
	in_port_t port;
	size_t which;
	const int on = 1;
	int fd;

	hvd_addr_from_sockaddr((const struct sockaddr *)addr, &ip, &port);
	if (hvd_listen_all(addr, 1, port, port, &fd, &which) == 0) {
		/* Accept a connection when its request is there, or a second later. */
		setsockopt(fd, IPPROTO_TCP, TCP_DEFER_ACCEPT, &on, sizeof(on));
		return fd;
	}
	if (errno == EADDRINUSE)
		return hvd_err_set(err, HVD_E_NET, "port %u is in use", (unsigned)port);
	return hvd_err_sys(err, "cannot listen on %s port %u", hvd_addr_text(&ip, text), (unsigned)port);
}

struct hvd_metrics_http *hvd_metrics_http_create(const struct hvd_metrics_http_opts *opts, struct hvd_err *err)
{
	static const struct hvd_acceptor_ops ops = {.accepted = on_accepted, .full = make_room};
	struct hvd_metrics_http *http;
	int fd = listen_at(opts->addr, err);

	if (fd < 0)
		return NULL;
	http = hvd_xcalloc(1, sizeof(*http));
	http->opts = *opts;
	http->port = hvd_addr_port_of(fd);
	http->token = opts->token ? hvd_xstrdup(opts->token) : NULL;
	http->access = hvd_rv_access_create();
	TAILQ_INIT(&http->clients);
	http->acceptor = hvd_acceptor_create(opts->base, fd, &ops, http, err);
	if (http->acceptor)
		return http;
	close(fd);
	hvd_metrics_http_destroy(http);
	return NULL;
}

in_port_t hvd_metrics_http_port(const struct hvd_metrics_http *http)
{
	return http->port;
}

void hvd_metrics_http_destroy(struct hvd_metrics_http *http)
{
	if (!http)
		return;
	while (!TAILQ_EMPTY(&http->clients))
		close_client(TAILQ_FIRST(&http->clients));
	hvd_acceptor_destroy(http->acceptor);
	hvd_rv_access_destroy(http->access);
	if (http->token)
		explicit_bzero(http->token, strlen(http->token));
	free(http->token);
	free(http);
}
