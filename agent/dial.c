/* SPDX-License-Identifier: Apache-2.0 */
#include "dial.h"

#include "lib/base/random.h"
#include "lib/base/timer.h"
#include "lib/base/xalloc.h"
#include "lib/net/sock_diag.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* How long an address that has greeted may take to prove who it is, before the next one gets a slot. */
#define SLOT_SECONDS 1.0
/* How long to wait before connecting again to an address that closed the connection without a message: twice as long
 * each time, up to the most. */
#define RETRY_SECONDS      0.05
#define MOST_RETRY_SECONDS 1.0

/* One address of the driver. */
struct candidate {
	struct hvd_dial *dial;
	unsigned index;
	int fd; /* while connecting */
	struct event *connecting;
	struct hvd_timer *retry; /* connects again after a while; NULL = it was never needed */
	unsigned closed;         /* connections that were closed without a message */
	struct hvd_conn *conn;
	struct hvd_handshake hs;
	json_t *hello; /* the greeting, while the address waits for a slot */
	bool asked;    /* it has got this side's proof */
	bool failed;   /* it was given up */
	int error;     /* the errno of a connect that failed; else 0 */
	char why[320]; /* what happened there, for the message; "" = nothing yet */
};

struct hvd_dial {
	struct event_base *base;
	const struct hvd_boot *boot;
	struct hvd_session *session;
	struct candidate candidates[HVD_BOOT_MAX_ADDRS];
	struct hvd_timer *deadline, *slot;
	void (*up)(struct hvd_conn *conn, void *arg);
	void (*down)(const struct hvd_err *why, void *arg);
	void *arg;
	const char *name; /* of the other side; NULL = it is the driver */
	bool over;
	struct hvd_err local;  /* a failure of this host, which no other address would change */
	struct hvd_err remedy; /* the first failure at an address that has a hint */
};

static void candidate_close(struct candidate *candidate)
{
	hvd_event_unwatch(&candidate->connecting);
	if (candidate->fd >= 0)
		close(candidate->fd);
	candidate->fd = -1;
	json_decref(candidate->hello);
	candidate->hello = NULL;
	hvd_conn_free(candidate->conn);
	candidate->conn = NULL;
}

static void close_all(struct hvd_dial *dial)
{
	for (unsigned i = 0; i < dial->boot->n_addrs; i++) {
		candidate_close(&dial->candidates[i]);
		if (dial->candidates[i].retry)
			hvd_timer_stop(dial->candidates[i].retry);
	}
	hvd_timer_stop(dial->deadline);
	hvd_timer_stop(dial->slot);
}

static const char *outcome(const struct candidate *candidate)
{
	if (*candidate->why)
		return candidate->why;
	if (!candidate->conn)
		return "no answer";
	return candidate->asked ? "connected, but got no answer after the greeting" : "connected, but got no answer";
}

/* Say what the user can do; it depends on how the attempts ended. */
static void hint(const struct hvd_dial *dial, struct hvd_err *why)
{
	unsigned silent = 0, refused = 0, closed = 0;

	if (*dial->remedy.hint)
		hvd_err_hint(why, "%s", dial->remedy.hint);
	if (*dial->remedy.hint || dial->name)
		return;
	for (unsigned i = 0; i < dial->boot->n_addrs; i++) {
		const struct candidate *candidate = &dial->candidates[i];

		silent += !candidate->failed && candidate->conn;
		refused += candidate->failed && candidate->error == ECONNREFUSED;
		closed += candidate->closed > 0;
	}
	if (silent)
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

static void give_up(struct hvd_dial *dial, enum hvd_errc code)
{
	struct hvd_err why = {0};
	char addr[HVD_ADDR_TEXT];
	size_t at;

	if (dial->over)
		return;
	dial->over = true;
	if (dial->local.code) {
		why = dial->local;
	} else {
		hvd_err_set(&why, code, "cannot reach %s at port %u of any of its addresses:",
			    dial->name ? dial->name : "the driver", dial->boot->port);
		for (unsigned i = 0; i < dial->boot->n_addrs; i++) {
			at = strlen(why.msg);
			snprintf(why.msg + at, sizeof(why.msg) - at, "%s %s (%s)", i ? "," : "",
				 hvd_addr_text(&dial->boot->addrs[i], addr), outcome(&dial->candidates[i]));
		}
		hint(dial, &why);
	}
	close_all(dial);
	dial->down(&why, dial->arg);
}

static void next_slot(void *arg);

/* An address was given up: go on with the others, if there are any. */
static void one_less(struct hvd_dial *dial)
{
	for (unsigned i = 0; i < dial->boot->n_addrs; i++)
		if (!dial->candidates[i].failed) {
			next_slot(dial);
			return;
		}
	give_up(dial, HVD_E_NET);
}

static void candidate_failed(struct candidate *candidate, const struct hvd_err *why)
{
	struct hvd_dial *dial = candidate->dial;

	if (candidate->failed || dial->over)
		return;
	candidate->failed = true;
	snprintf(candidate->why, sizeof(candidate->why), "%.*s", (int)sizeof(candidate->why) - 1, why->msg);
	if (!*dial->remedy.hint)
		dial->remedy = *why;
	candidate_close(candidate);
	/* This host cannot make a credential: at the other addresses it would fail as well. */
	if (why->code == HVD_E_SYS && candidate->asked) {
		dial->local = *why;
		give_up(dial, why->code);
		return;
	}
	one_less(dial);
}

static void established(struct candidate *candidate)
{
	struct hvd_dial *dial = candidate->dial;
	struct hvd_conn *conn = candidate->conn;

	dial->over = true;
	candidate->conn = NULL;
	close_all(dial);
	dial->up(conn, dial->arg);
}

static void handshake(struct candidate *candidate, const json_t *msg)
{
	struct hvd_err why = {0};
	int rc = hvd_handshake_message(&candidate->hs, candidate->conn, msg, &why);

	if (rc < 0)
		candidate_failed(candidate, &why);
	else if (rc > 0)
		established(candidate);
}

/* If no handshake is under way within its time, begin one at the first address that has greeted. */
static void next_slot(void *arg)
{
	struct hvd_dial *dial = arg;
	json_t *hello;

	for (unsigned i = 0; i < dial->boot->n_addrs; i++)
		if (dial->candidates[i].asked && !dial->candidates[i].failed && hvd_timer_runs(dial->slot))
			return;
	for (unsigned i = 0; i < dial->boot->n_addrs && !dial->over; i++) {
		struct candidate *candidate = &dial->candidates[i];

		if (!candidate->hello || candidate->failed)
			continue;
		hello = candidate->hello;
		candidate->hello = NULL;
		candidate->asked = true;
		hvd_timer_at(dial->slot, hvd_deadline_in(SLOT_SECONDS));
		handshake(candidate, hello);
		json_decref(hello);
		return;
	}
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

static void begin(struct candidate *candidate);

static void on_retry(void *arg)
{
	struct candidate *candidate = arg;

	begin(candidate);
	if (candidate->failed)
		one_less(candidate->dial);
}

/* When to connect again. The random part keeps hosts whose connections were closed together from returning together. */
static hvd_time retry_at(unsigned closed)
{
	double seconds = closed < 8 ? RETRY_SECONDS * (double)(1U << closed) : MOST_RETRY_SECONDS;
	unsigned char random = 0;

	hvd_random(&random, sizeof(random), NULL);
	if (seconds > MOST_RETRY_SECONDS)
		seconds = MOST_RETRY_SECONDS;
	return hvd_deadline_in(seconds * (0.5 + random / 255.0));
}

static void connect_later(struct candidate *candidate)
{
	struct hvd_dial *dial = candidate->dial;
	hvd_time retry = retry_at(candidate->closed++);

	snprintf(candidate->why, sizeof(candidate->why), "closed %u connection%s without an answer", candidate->closed,
		 candidate->closed == 1 ? "" : "s");
	candidate_close(candidate);
	if (candidate->asked)
		hvd_timer_stop(dial->slot);
	candidate->asked = false;
	if (!candidate->retry)
		candidate->retry = hvd_timer_new(dial->base, on_retry, candidate);
	hvd_timer_at(candidate->retry, retry);
	next_slot(dial);
}

static void on_message(struct hvd_conn *conn, json_t *msg, void *arg)
{
	struct candidate *candidate = arg;
	struct hvd_err why = {0};

	if (candidate->asked) {
		handshake(candidate, msg);
		return;
	}
	if (candidate->hello)
		return;
	switch (owner_of(hvd_conn_fd(conn))) {
	case CLOSED: /* as a driver with too many connections does */
		connect_later(candidate);
		break;
	case ANOTHER_USERS:
		hvd_err_set(&why, HVD_E_AUTH, "a process of another user on this host listens there");
		candidate_failed(candidate, &why);
		break;
	case OURS:
		candidate->hello = json_incref(msg);
		next_slot(candidate->dial);
		break;
	}
}

static void on_closed(struct hvd_conn *conn, const struct hvd_err *why, void *arg)
{
	struct candidate *candidate = arg;

	(void)conn;
	if (why->code != HVD_OK && why->code != HVD_E_NET)
		candidate_failed(candidate, why);
	else
		connect_later(candidate);
}

static void on_connect(evutil_socket_t fd, short what, void *arg)
{
	static const struct hvd_conn_ops ops = {.message = on_message, .closed = on_closed};
	struct candidate *candidate = arg;
	struct hvd_err why = {0};
	socklen_t len = sizeof(int);
	int error = 0;

	(void)what;
	hvd_event_unwatch(&candidate->connecting);
	if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len) != 0)
		error = errno;
	if (error) {
		candidate->error = error;
		hvd_err_set(&why, HVD_E_NET, "%s", strerror(error));
		candidate_failed(candidate, &why);
		return;
	}
	candidate->fd = -1;
	candidate->conn = hvd_conn_new(candidate->dial->base, fd, false, &ops, candidate);
	if (hvd_handshake_start(&candidate->hs, candidate->dial->session, &why) != 0)
		candidate_failed(candidate, &why);
}

static void begin(struct candidate *candidate)
{
	const struct hvd_boot *boot = candidate->dial->boot;
	struct sockaddr_storage ss;
	socklen_t len = hvd_addr_to_sockaddr(&boot->addrs[candidate->index], boot->port, &ss);
	int error;

	candidate->fd = socket(boot->addrs[candidate->index].family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (candidate->fd >= 0 && (connect(candidate->fd, (struct sockaddr *)&ss, len) == 0 || errno == EINPROGRESS)) {
		candidate->connecting =
			hvd_event_watch(candidate->dial->base, candidate->fd, EV_WRITE, on_connect, candidate);
		return;
	}
	error = errno;
	candidate->failed = true; /* without candidate_failed(): the other addresses may not have been tried yet */
	candidate->error = error;
	snprintf(candidate->why, sizeof(candidate->why), "%s", strerror(error));
	candidate_close(candidate);
}

struct hvd_dial *hvd_dial_create(struct event_base *base, const struct hvd_boot *boot, struct hvd_session *session,
				 hvd_time deadline, void (*up)(struct hvd_conn *conn, void *arg),
				 void (*down)(const struct hvd_err *why, void *arg), void *arg)
{
	struct hvd_dial *dial = hvd_xcalloc(1, sizeof(*dial));
	bool any = false;

	dial->base = base;
	dial->boot = boot;
	dial->session = session;
	dial->up = up;
	dial->down = down;
	dial->arg = arg;
	dial->deadline = hvd_timer_new(base, on_deadline, dial);
	dial->slot = hvd_timer_new(base, next_slot, dial);
	for (unsigned i = 0; i < boot->n_addrs; i++) {
		dial->candidates[i].dial = dial;
		dial->candidates[i].index = i;
		dial->candidates[i].fd = -1;
		begin(&dial->candidates[i]);
		any |= !dial->candidates[i].failed;
	}
	hvd_timer_at(dial->deadline, any ? deadline : hvd_now());
	return dial;
}

void hvd_dial_name(struct hvd_dial *dial, const char *name)
{
	dial->name = name;
}

void hvd_dial_destroy(struct hvd_dial *dial)
{
	if (!dial)
		return;
	close_all(dial);
	for (unsigned i = 0; i < dial->boot->n_addrs; i++)
		hvd_timer_free(dial->candidates[i].retry);
	hvd_timer_free(dial->deadline);
	hvd_timer_free(dial->slot);
	free(dial);
}
