/* SPDX-License-Identifier: Apache-2.0 */
#include "dial.h"

#include "lib/base/random.h"
#include "lib/base/timer.h"
#include "lib/base/xalloc.h"
#include "lib/rendezvous/peeruid.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* How long an address that has greeted may take to prove who it is, before the next one gets its turn. */
#define TURN_SECONDS 1.0
/* How long to wait before connecting again to an address that closed the connection without a message: twice as long
 * each time, up to the most. */
#define AGAIN_SECONDS      0.05
#define MOST_AGAIN_SECONDS 1.0

/* One address of the driver. */
struct way {
	struct hvd_dial *link;
	unsigned index;
	int fd; /* while connecting */
	struct event *connecting;
	struct hvd_timer *again; /* connects again after a while; NULL = it was never needed */
	unsigned closed;         /* connections that were closed without a message */
	struct hvd_conn *conn;
	struct hvd_handshake hs;
	json_t *hello; /* the greeting, while the address waits for its turn */
	bool asked;    /* it has got this side's proof */
	bool failed;   /* it was given up */
	int error;     /* the errno of a connect that failed; else 0 */
	char why[320]; /* what happened there, for the message; "" = nothing yet */
};

struct hvd_dial {
	struct event_base *base;
	const struct hvd_boot *boot;
	struct hvd_session *session;
	struct way ways[HVD_BOOT_MAX_ADDRS];
	struct hvd_timer *deadline, *turn;
	void (*up)(struct hvd_conn *conn, void *arg);
	void (*down)(const struct hvd_err *why, void *arg);
	void *arg;
	const char *name; /* of the other side; NULL = it is the driver */
	bool over, mute;
	struct hvd_err local;  /* a failure of this host, which no other address would change */
	struct hvd_err remedy; /* the first failure at an address that has a hint */
};

static void way_close(struct way *way)
{
	if (way->connecting)
		event_free(way->connecting);
	way->connecting = NULL;
	if (way->fd >= 0)
		close(way->fd);
	way->fd = -1;
	json_decref(way->hello);
	way->hello = NULL;
	hvd_conn_free(way->conn);
	way->conn = NULL;
}

static void close_all(struct hvd_dial *link)
{
	for (unsigned i = 0; i < link->boot->n_addrs; i++) {
		way_close(&link->ways[i]);
		if (link->ways[i].again)
			hvd_timer_stop(link->ways[i].again);
	}
	hvd_timer_stop(link->deadline);
	hvd_timer_stop(link->turn);
}

static const char *outcome(const struct way *way)
{
	if (*way->why)
		return way->why;
	if (!way->conn)
		return "no answer";
	return way->asked ? "connected, but got no answer after the greeting" : "connected, but got no answer";
}

/* Say what the user can do; it depends on how the attempts ended. */
static void hint(const struct hvd_dial *link, struct hvd_err *why)
{
	unsigned refused = 0, closed = 0;

	if (*link->remedy.hint)
		hvd_err_hint(why, "%s", link->remedy.hint);
	if (*link->remedy.hint || link->name)
		return;
	for (unsigned i = 0; i < link->boot->n_addrs; i++) {
		const struct way *way = &link->ways[i];

		refused += way->failed && way->error == ECONNREFUSED;
		closed += way->closed > 0;
	}
	if (link->mute)
		hvd_err_hint(why, "the driver accepts connections but does not answer: is srun's hvd-driver or hvdrun "
				  "stopped, or its host overloaded?");
	else if (refused)
		hvd_err_hint(why,
			     "nothing listens there: did srun or hvdrun end, or was it or srun's hvd-driver killed?");
	else if (closed)
		hvd_err_hint(why,
			     "the driver has reached its limit of connections: does another program flood its port?");
	else
		hvd_err_hint(why, "does a firewall block the connection? The driver listens in SrunPortRange if the "
				  "site sets one; srun --hvd-verbose shows more");
}

static void give_up(struct hvd_dial *link, enum hvd_errc code)
{
	struct hvd_err why = {0};
	char addr[HVD_ADDR_TEXT];
	size_t at;

	if (link->over)
		return;
	link->over = true;
	for (unsigned i = 0; i < link->boot->n_addrs; i++)
		link->mute |= !link->ways[i].failed && link->ways[i].conn;
	if (link->local.code) {
		why = link->local;
	} else {
		hvd_err_set(&why, code, "cannot reach %s at port %u of any of its addresses:",
			    link->name ? link->name : "the driver", link->boot->port);
		for (unsigned i = 0; i < link->boot->n_addrs; i++) {
			at = strlen(why.msg);
			snprintf(why.msg + at, sizeof(why.msg) - at, "%s %s (%s)", i ? "," : "",
				 hvd_addr_text(&link->boot->addrs[i], addr), outcome(&link->ways[i]));
		}
		hint(link, &why);
	}
	close_all(link);
	link->down(&why, link->arg);
}

static void next_turn(struct hvd_dial *link);

/* An address was given up: go on with the others, if there are any. */
static void one_less(struct hvd_dial *link)
{
	for (unsigned i = 0; i < link->boot->n_addrs; i++)
		if (!link->ways[i].failed) {
			next_turn(link);
			return;
		}
	give_up(link, HVD_E_NET);
}

static void way_failed(struct way *way, const struct hvd_err *why)
{
	struct hvd_dial *link = way->link;

	if (way->failed || link->over)
		return;
	way->failed = true;
	snprintf(way->why, sizeof(way->why), "%.*s", (int)sizeof(way->why) - 1, why->msg);
	if (!*link->remedy.hint)
		link->remedy = *why;
	way_close(way);
	/* This host cannot make a credential: at the other addresses it would fail as well. */
	if (why->code == HVD_E_SYS && way->asked) {
		link->local = *why;
		give_up(link, why->code);
		return;
	}
	one_less(link);
}

static void established(struct way *way)
{
	struct hvd_dial *link = way->link;
	struct hvd_conn *conn = way->conn;

	link->over = true;
	way->conn = NULL;
	close_all(link);
	link->up(conn, link->arg);
}

static void handshake(struct way *way, const json_t *msg)
{
	struct hvd_err why = {0};
	int rc = hvd_handshake_message(&way->hs, way->conn, msg, &why);

	if (rc < 0)
		way_failed(way, &why);
	else if (rc > 0)
		established(way);
}

/* Unless an address is at it within its time: go on with the handshake at the first that has greeted. */
static void next_turn(struct hvd_dial *link)
{
	json_t *hello;

	for (unsigned i = 0; i < link->boot->n_addrs; i++)
		if (link->ways[i].asked && !link->ways[i].failed && hvd_timer_runs(link->turn))
			return;
	for (unsigned i = 0; i < link->boot->n_addrs && !link->over; i++) {
		struct way *way = &link->ways[i];

		if (!way->hello || way->failed)
			continue;
		hello = way->hello;
		way->hello = NULL;
		way->asked = true;
		hvd_timer_at(link->turn, hvd_deadline_in(TURN_SECONDS));
		handshake(way, hello);
		json_decref(hello);
		return;
	}
}

static void on_turn(void *arg)
{
	next_turn(arg);
}

static void on_deadline(void *arg)
{
	give_up(arg, HVD_E_TIMEOUT);
}

/* An address of the driver's may be one of this host, too, such as docker0's. Another user here could then listen at the
 * driver's port, pass the handshake on in both directions, and keep back all that follows. The kernel knows whose process
 * is at the other end of a connection within the host, once it has sent something, until it closes the connection. */
enum owner {
	OURS,
	ANOTHER_USERS,
	CLOSED
};

static enum owner owner_of(int fd)
{
	struct sockaddr_storage own = {0}, peer = {0};
	socklen_t own_len = sizeof(own), peer_len = sizeof(peer);
	struct hvd_addr own_addr, peer_addr;
	uid_t uid = 0;
	int netlink, rc;

	if (getsockname(fd, (struct sockaddr *)&own, &own_len) != 0 ||
	    getpeername(fd, (struct sockaddr *)&peer, &peer_len) != 0 ||
	    hvd_addr_from_sockaddr((struct sockaddr *)&own, &own_addr, NULL) != 0 ||
	    hvd_addr_from_sockaddr((struct sockaddr *)&peer, &peer_addr, NULL) != 0 ||
	    !(hvd_addr_loopback(&peer_addr) || hvd_addr_equal(&own_addr, &peer_addr)))
		return OURS;
	netlink = hvd_peer_uid_open();
	rc = netlink < 0 ? -1 : hvd_peer_uid_diag(netlink, 1, &peer, &own, &uid, NULL);
	if (netlink >= 0)
		close(netlink);
	if (rc < 0)
		rc = hvd_peer_uid_proc(&peer, &own, &uid);
	if (rc > 0)
		return CLOSED;
	return rc == 0 && uid != geteuid() ? ANOTHER_USERS : OURS;
}

static void begin(struct way *way);

static void on_again(void *arg)
{
	struct way *way = arg;

	begin(way);
	if (way->failed)
		one_less(way->link);
}

/* When to connect again. The random part keeps hosts whose connections were closed together from returning together. */
static hvd_time again_at(unsigned closed)
{
	double seconds = closed < 8 ? AGAIN_SECONDS * (double)(1U << closed) : MOST_AGAIN_SECONDS;
	unsigned char random = 0;

	hvd_random(&random, sizeof(random), NULL);
	if (seconds > MOST_AGAIN_SECONDS)
		seconds = MOST_AGAIN_SECONDS;
	return hvd_deadline_in(seconds * (0.5 + random / 255.0));
}

static void connect_again(struct way *way)
{
	struct hvd_dial *link = way->link;
	hvd_time again = again_at(way->closed++);

	snprintf(way->why, sizeof(way->why), "closed %u connection%s without an answer", way->closed,
		 way->closed == 1 ? "" : "s");
	way_close(way);
	if (way->asked)
		hvd_timer_stop(link->turn);
	way->asked = false;
	if (!way->again)
		way->again = hvd_timer_new(link->base, on_again, way);
	hvd_timer_at(way->again, again);
	next_turn(link);
}

static void on_message(struct hvd_conn *conn, json_t *msg, void *arg)
{
	struct way *way = arg;
	struct hvd_err why = {0};

	if (way->asked) {
		handshake(way, msg);
		return;
	}
	if (way->hello)
		return;
	switch (owner_of(hvd_conn_fd(conn))) {
	case CLOSED: /* as a driver with too many connections does */
		connect_again(way);
		break;
	case ANOTHER_USERS:
		hvd_err_set(&why, HVD_E_AUTH, "a process of another user on this host listens there");
		way_failed(way, &why);
		break;
	case OURS:
		way->hello = json_incref(msg);
		next_turn(way->link);
		break;
	}
}

static void on_closed(struct hvd_conn *conn, const struct hvd_err *why, void *arg)
{
	struct way *way = arg;

	(void)conn;
	if (why->code != HVD_OK && why->code != HVD_E_NET)
		way_failed(way, why);
	else
		connect_again(way);
}

static void on_connect(evutil_socket_t fd, short what, void *arg)
{
	static const struct hvd_conn_ops ops = {.message = on_message, .closed = on_closed};
	struct way *way = arg;
	struct hvd_err why = {0};
	socklen_t len = sizeof(int);
	int error = 0;

	(void)what;
	event_free(way->connecting);
	way->connecting = NULL;
	if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len) != 0)
		error = errno;
	if (error) {
		way->error = error;
		hvd_err_set(&why, HVD_E_NET, "%s", strerror(error));
		way_failed(way, &why);
		return;
	}
	way->fd = -1;
	way->conn = hvd_conn_new(way->link->base, fd, false, &ops, way);
	if (hvd_handshake_start(&way->hs, way->link->session, way->conn, false, &why) != 0)
		way_failed(way, &why);
}

static void begin(struct way *way)
{
	const struct hvd_boot *boot = way->link->boot;
	struct sockaddr_storage ss;
	socklen_t len = hvd_addr_to_sockaddr(&boot->addrs[way->index], boot->port, &ss);
	int error;

	way->fd = socket(boot->addrs[way->index].family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (way->fd >= 0 && (connect(way->fd, (struct sockaddr *)&ss, len) == 0 || errno == EINPROGRESS)) {
		way->connecting = event_new(way->link->base, way->fd, EV_WRITE, on_connect, way);
		event_add(way->connecting, NULL);
		return;
	}
	error = errno;
	way->failed = true; /* without way_failed(): the other addresses may not have been tried yet */
	way->error = error;
	snprintf(way->why, sizeof(way->why), "%s", strerror(error));
	way_close(way);
}

struct hvd_dial *hvd_dial_create(struct event_base *base, const struct hvd_boot *boot, struct hvd_session *session,
				 hvd_time deadline, void (*up)(struct hvd_conn *conn, void *arg),
				 void (*down)(const struct hvd_err *why, void *arg), void *arg)
{
	struct hvd_dial *link = hvd_xcalloc(1, sizeof(*link));
	bool any = false;

	link->base = base;
	link->boot = boot;
	link->session = session;
	link->up = up;
	link->down = down;
	link->arg = arg;
	link->deadline = hvd_timer_new(base, on_deadline, link);
	link->turn = hvd_timer_new(base, on_turn, link);
	for (unsigned i = 0; i < boot->n_addrs; i++) {
		link->ways[i].link = link;
		link->ways[i].index = i;
		link->ways[i].fd = -1;
		begin(&link->ways[i]);
		any |= !link->ways[i].failed;
	}
	hvd_timer_at(link->deadline, any ? deadline : hvd_now());
	return link;
}

void hvd_dial_name(struct hvd_dial *link, const char *name)
{
	link->name = name;
}

void hvd_dial_destroy(struct hvd_dial *link)
{
	if (!link)
		return;
	close_all(link);
	for (unsigned i = 0; i < link->boot->n_addrs; i++)
		hvd_timer_free(link->ways[i].again);
	hvd_timer_free(link->deadline);
	hvd_timer_free(link->turn);
	free(link);
}
