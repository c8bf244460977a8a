/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Binding and accepting, and making room for a connection by closing another one.
 *
 * The backlog is as deep as the kernel allows: the ranks of a job all connect at once, and a client whose SYN finds the
 * queue full tries again only after a second.
 */
#include "internal.h"

#include "lib/base/xalloc.h"
#include "lib/net/listen.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MODEST 64 /* connections that each address may have, even when places are short */

static bool is_any(const struct sockaddr_storage *ss)
{
	if (ss->ss_family == AF_INET)
		return ((const struct sockaddr_in *)ss)->sin_addr.s_addr == htonl(INADDR_ANY);
	return IN6_IS_ADDR_UNSPECIFIED(&((const struct sockaddr_in6 *)ss)->sin6_addr);
}

static int cannot_listen(const char *ip, uint16_t lo, uint16_t hi, struct hvd_err *err)
{
	if (errno != EADDRINUSE)
		return hvd_err_sys(err, "cannot listen on %s port %u", ip, (unsigned)lo);
	if (lo == 0)
		return hvd_err_set(err, HVD_E_NET, "found no port that is free on all addresses");
	if (lo == hi)
		hvd_err_set(err, HVD_E_NET, "port %u is in use", (unsigned)lo);
	else
		hvd_err_set(err, HVD_E_NET, "all %u ports of the range %u-%u are in use", (unsigned)(hi - lo + 1),
			    (unsigned)lo, (unsigned)hi);
	return hvd_err_hint(err, "Free one, widen the range, or let the kernel choose with port 0.");
}

/* Tell a client that it may not connect. Most clients have sent their request already. It must be read, because
 * otherwise close() would send a reset, which destroys the answer: one call reads it without copying. A client that has
 * sent more than that gets the reset. */
static void refuse(struct hvd_rv *rv, int fd)
{
	char head[HVD_HTTP_HEAD_ROOM];
	size_t len = hvd_http_head(head, 403, 0, HVD_HTTP_AFTER_CLOSE);
	ssize_t n = recv(fd, rv->scratch, sizeof(rv->scratch), MSG_DONTWAIT | MSG_TRUNC);

	rv->stats.bytes_in += n > 0 ? (uint64_t)n : 0;
	/* No answer to a client that has closed the connection. */
	if ((n >= 0 || errno == EAGAIN) && send(fd, head, len, MSG_NOSIGNAL | MSG_DONTWAIT | MSG_MORE) > 0)
		rv->stats.bytes_out += len;
	close(fd);
}

static void pause_accepting(struct hvd_rv *rv)
{
	for (size_t i = 0; i < rv->n_listeners; i++)
		hvd_acceptor_pause(rv->listeners[i]->acceptor);
	rv->paused = true;
	rv->stats.paused++;
	if (rv->stats.tcpstore_now > 0 && !rv->logged_full) { /* these stay, so it may last */
		rv->logged_full = true;
		hvd_warn(rv->log,
			 "the rendezvous has %u connections and can accept no more, so some ranks cannot connect; "
			 "allow this process more open files (ulimit -n)",
			 rv->stats.conns_now);
	}
	/* The timer resumes accepting, so it must run even when no connection has a deadline. */
	hvd_rv_arm(rv, NULL, 0);
}

/* A connection that sends a value, if its address has more than half of all places. */
static struct conn *greedy(const struct hvd_rv *rv)
{
	struct conn *c = hvd_rv_oldest_of_most(rv, CONN_BODY);

	return c && c->s.entry.peer->n > MODEST && c->s.entry.peer->n > rv->cfg.conns_max / 2 ? c : NULL;
}

/* The connection to close for a new one: one that was answered, that has not sent its request, or that only waits. */
static struct conn *find_victim(const struct hvd_rv *rv)
{
	struct conn *c = conn_of(TAILQ_FIRST(&rv->lists[CONN_HEAD])),
		    *victim = conn_of(TAILQ_FIRST(&rv->lists[CONN_DRAIN]));

	if (!victim && c && c->has_asked && c->s.in_len == 0)
		victim = c;
	if (!victim)
		victim = hvd_rv_oldest_of_most(rv, CONN_HEAD);
	if (!victim)
		victim = c;
	if (!victim)
		victim = greedy(rv);
	if (!victim)
		victim = hvd_rv_oldest_of_most(rv, CONN_WAITING);
	return victim ? victim : conn_of(TAILQ_FIRST(&rv->lists[CONN_WAITING]));
}

static bool make_room(struct hvd_rv *rv)
{
	struct conn *victim = find_victim(rv);

	if (!victim)
		return false;
	if (victim->state == CONN_WAITING)
		hvd_rv_conn_release(victim, true);
	else
		hvd_rv_conn_close(victim);
	hvd_rv_reap(rv);
	return true;
}

static bool may_come(void *arg)
{
	struct hvd_rv *rv = ((struct listener *)arg)->rv;

	hvd_rv_reap(rv);
	if (rv->stats.conns_now < rv->cfg.conns_max || find_victim(rv))
		return true;
	pause_accepting(rv);
	return false;
}

static bool no_descriptors(void *arg)
{
	struct hvd_rv *rv = ((struct listener *)arg)->rv;

	if (make_room(rv))
		return true;
	pause_accepting(rv);
	return false;
}

static void on_accepted(void *arg, int fd, const struct sockaddr_storage *peer)
{
	struct listener *l = arg;
	struct hvd_rv *rv = l->rv;
	enum hvd_rv_verdict verdict;

	rv->stats.connections++;
	verdict = hvd_rv_judge(rv, fd, peer, l->any_address ? NULL : &l->addr);
	if (verdict == HVD_RV_ENDED) { /* nobody is there who could be told */
		close(fd);
		return;
	}
	if (verdict == HVD_RV_NOT_LISTED || verdict == HVD_RV_OTHER_USER) {
		rv->stats.errors++;
		refuse(rv, fd);
		return;
	}
	if (rv->stats.conns_now >= rv->cfg.conns_max)
		make_room(rv);
	hvd_rv_conn_start(rv, fd, peer, verdict != HVD_RV_WELCOME);
}

/* The listener owns `fd`. */
static struct listener *listener_create(struct hvd_rv *rv, int fd)
{
	static const struct hvd_acceptor_ops ops = {on_accepted, no_descriptors, may_come};
	struct listener *l = hvd_xcalloc(1, sizeof(*l));
	socklen_t len = sizeof(l->addr);

	l->rv = rv;
	getsockname(fd, (struct sockaddr *)&l->addr, &len);
	l->any_address = is_any(&l->addr);
	l->acceptor = hvd_acceptor_create(rv->base, fd, &ops, l, NULL);
	/* There is memory for a small structure (xalloc.h). */
	if (!l->acceptor)
		abort();
	if (rv->paused)
		hvd_acceptor_pause(l->acceptor);
	return l;
}

void hvd_rv_listen_fd(struct hvd_rv *rv, int fd)
{
	const int on = 1, alive_idle = 120, alive_again = 30, alive_times = 10;

	/* Accepted connections inherit it: an answer must not wait for an acknowledgement. */
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	/* TCPStore clients are silent for weeks. These settings detect that a client's host has vanished: after 7
	 * minutes. */
	setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &alive_idle, sizeof(alive_idle));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &alive_again, sizeof(alive_again));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &alive_times, sizeof(alive_times));
	/* Accept a connection when its request is there, or a second later. */
	setsockopt(fd, IPPROTO_TCP, TCP_DEFER_ACCEPT, &on, sizeof(on));
	rv->listeners = hvd_xrealloc(rv->listeners, rv->n_listeners + 1, sizeof(*rv->listeners));
	rv->listeners[rv->n_listeners++] = listener_create(rv, fd);
}

int hvd_rv_listen(struct hvd_rv *rv, const char *const *ips, size_t n, uint16_t lo, uint16_t hi, struct hvd_err *err)
{
	struct sockaddr_storage *addrs;
	size_t which = 0;
	int rc = 0, *fds;

	if (n == 0)
		return hvd_err_set(err, HVD_E_USAGE, "no address to listen on");
	if (lo > hi || (lo == 0 && hi != 0))
		return hvd_err_set(err, HVD_E_USAGE, "bad port range %u-%u", (unsigned)lo, (unsigned)hi);
	addrs = hvd_xcalloc(n, sizeof(*addrs));
	fds = hvd_xcalloc(n, sizeof(*fds));
	for (size_t i = 0; i < n && rc == 0; i++)
		if (hvd_sockaddr_parse(ips[i], &addrs[i]) != 0)
			rc = hvd_err_set(err, HVD_E_USAGE, "'%s' is not an IPv4 or IPv6 address to listen on", ips[i]);
	if (rc == 0 && hvd_listen_all(addrs, n, lo, hi, fds, &which) != 0)
		rc = cannot_listen(ips[which], lo, hi, err);
	for (size_t i = 0; i < n && rc == 0; i++)
		hvd_rv_listen_fd(rv, fds[i]);
	free(addrs);
	free(fds);
	return rc;
}

void hvd_rv_listener_destroy(struct listener *l)
{
	hvd_acceptor_destroy(l->acceptor);
	free(l);
}
