/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An agent begins as a connection that has proven to have the key (pending.h). When its offer was accepted and it has
 * said that it is ready, the connection is a bare descriptor, on which both ends are silent: its end alone is watched.
 * It is taken for a host of the job and then released, or it is told that it is not needed. An agent whose connection
 * ends is freed; if it was taken, not before it is released, for its descriptor is in use until then.
 */
#include "lobby.h"

#include "lib/base/size.h"
#include "lib/base/strv.h"
#include "lib/base/xalloc.h"
#include "lib/job/join.h"
#include "lib/net/listen.h"
#include "lib/protocol/handshake.h"
#include "lib/protocol/pending.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MAX_PENDING  256
#define MAX_WARNINGS 10
/* How long an agent may take to answer, where it has nothing to do before. */
#define ANSWER_SECONDS 10.0
#define TELL_SECONDS   5.0
#define CLOSE_SECONDS  1

enum guest_state {
	GUEST_OFFERING, /* no offer has come */
	GUEST_ACCEPTED, /* … and it was not declined, but the agent is not ready */
	GUEST_WAITING,  /* a bare descriptor from here on */
	GUEST_TAKEN,
	GUEST_GONE,      /* was taken, and its connection has ended */
	GUEST_TURNED_OFF /* a connection again: the agent is being told that it is not needed */
};

struct guest {
	struct hvd_lobby *lobby;
	struct guest *prev, *next; /* by the time of their coming */
	enum guest_state state;
	struct hvd_join_offer offer;
	char *host; /* its name in the job; NULL before its offer */
	struct hvd_conn *conn;
	struct hvd_handshake hs;
	int fd;
	struct event *ended;
};

struct hvd_lobby {
	struct hvd_lobby_opts opts;
	struct event_base *base;
	struct hvd_key key;
	struct hvd_session session;
	struct hvd_pending *pending;
	struct hvd_boot boot; /* where it listens */
	char machine[HVD_MACHINE_LEN + 1];
	char address[HVD_JOIN_ADDRESS_MAX];
	bool file_written;
	struct guest *first, *last;
	struct hvd_strv names; /* that were given out */
	unsigned n_warnings;
	bool enough; /* no more agents are needed */
	bool failed; /* … since the job could not begin */
	int want;    /* slots that are waited for; 0 = any number */
	int sig;     /* has ended the wait */
	struct event *tell;
	void (*changed)(void *arg);
	void *arg;
};

/* ---- guests ---- */

static void free_guest(struct guest *g)
{
	struct hvd_lobby *lobby = g->lobby;

	*(g->prev ? &g->prev->next : &lobby->first) = g->next;
	*(g->next ? &g->next->prev : &lobby->last) = g->prev;
	hvd_conn_free(g->conn);
	if (g->ended)
		event_free(g->ended);
	if (g->fd >= 0)
		close(g->fd);
	free(g->host);
	free(g);
}

static bool is_there(const struct guest *g)
{
	return g->state == GUEST_WAITING || g->state == GUEST_TAKEN;
}

static int slots_waiting(const struct hvd_lobby *lobby)
{
	int slots = 0;

	for (const struct guest *g = lobby->first; g; g = g->next)
		slots += g->state == GUEST_WAITING ? g->offer.slots : 0;
	return slots;
}

static void has_changed(struct hvd_lobby *lobby)
{
	event_active(lobby->tell, EV_TIMEOUT, 0);
}

static void on_tell(evutil_socket_t fd, short what, void *arg)
{
	struct hvd_lobby *lobby = arg;

	(void)fd;
	(void)what;
	if (lobby->want && slots_waiting(lobby) >= lobby->want)
		event_base_loopbreak(lobby->base);
	if (lobby->changed)
		lobby->changed(lobby->arg);
}

/* The connection of an agent that waits or was taken has ended, or is writable, which does not matter. (libevent tells
 * of an error to those alone who wait to read or write.) */
static void on_ended(evutil_socket_t fd, short what, void *arg)
{
	struct guest *g = arg;
	struct hvd_lobby *lobby = g->lobby;
	struct pollfd pfd = {.fd = fd, .events = POLLRDHUP};

	(void)what;
	if (poll(&pfd, 1, 0) == 0)
		return;
	hvd_verbose(lobby->opts.log, "the agent %s has left", g->host);
	event_del(g->ended);
	if (g->state == GUEST_TAKEN)
		g->state = GUEST_GONE;
	else
		free_guest(g);
	has_changed(lobby);
}

/* The agent is ready: from now on both ends are silent. */
static void make_bare(struct guest *g)
{
	struct hvd_lobby *lobby = g->lobby;

	g->fd = fcntl(hvd_conn_fd(g->conn), F_DUPFD_CLOEXEC, 0);
	if (g->fd < 0) {
		hvd_warn(lobby->opts.log, "%s: the agent is turned away: %s", g->host, strerror(errno));
		free_guest(g);
		return;
	}
	hvd_conn_free(g->conn);
	g->conn = NULL;
	g->state = GUEST_WAITING;
	g->ended = event_new(lobby->base, g->fd, EV_WRITE | EV_CLOSED | EV_ET | EV_PERSIST, on_ended, g);
	event_add(g->ended, NULL);
	if (lobby->want)
		hvd_verbose(lobby->opts.log, "the agent %s has come with %d slot%s: %d of %d", g->host, g->offer.slots,
			    g->offer.slots == 1 ? "" : "s", slots_waiting(lobby), lobby->want);
	else
		hvd_verbose(lobby->opts.log, "the agent %s has come with %d slot%s", g->host, g->offer.slots,
			    g->offer.slots == 1 ? "" : "s");
	has_changed(lobby);
}

/* ---- what agents say ---- */

static bool is_name_taken(const struct hvd_lobby *lobby, const char *name)
{
	for (size_t i = 0; i < lobby->names.n; i++)
		if (strcmp(lobby->names.v[i], name) == 0)
			return true;
	return false;
}

/* "n1", and for others that call their host so "n1-2", "n1-3" … The caller frees it. */
static char *new_name(struct hvd_lobby *lobby, const char *host)
{
	char *name = hvd_xstrdup(host);

	for (unsigned i = 2; is_name_taken(lobby, name); i++) {
		free(name);
		name = hvd_xasprintf("%.240s-%u", host, i);
	}
	hvd_strv_add(&lobby->names, name);
	return name;
}

/* May this offer be accepted, beside those of the others? */
static int check_offer(const struct hvd_lobby *lobby, const struct hvd_join_offer *offer, struct hvd_err *err)
{
	int hosts = 1, slots = offer->slots;

	for (const struct guest *g = lobby->first; g; g = g->next) {
		if (!g->host || g->state == GUEST_TURNED_OFF || g->state == GUEST_GONE)
			continue;
		if (offer->index >= 0 && g->offer.index == offer->index) {
			hvd_err_set(err, HVD_E_USAGE, "there is an agent with the index %d already, %s", offer->index,
				    g->host);
			return hvd_err_hint(err, "each --index may be used once; agents need not have one");
		}
		hosts++;
		slots += g->offer.slots;
		if (hosts > HVD_MAX_HOSTS || slots > HVD_MAX_RANKS)
			return hvd_err_set(err, HVD_E_LIMIT, "no more agents can be taken, there are %d with %d slots",
					   hosts - 1, slots - offer->slots);
	}
	return 0;
}

static void say_last(struct guest *g, json_t *msg)
{
	hvd_conn_send(g->conn, msg);
	hvd_conn_finish(g->conn, hvd_deadline_in(TELL_SECONDS));
	g->conn = NULL;
	free_guest(g);
}

static json_t *not_needed(const struct hvd_lobby *lobby)
{
	struct hvd_err why = {0};

	if (!lobby->failed)
		return json_pack("{s:s}", "t", "enough");
	hvd_err_set(&why, HVD_E_FAILED, "its job could not begin");
	hvd_err_hint(&why, "hvdrun says why");
	return hvd_join_declined(&why);
}

static void on_offer(struct guest *g, const json_t *msg)
{
	struct hvd_lobby *lobby = g->lobby;
	struct hvd_err why = {0};

	if (lobby->enough) {
		say_last(g, not_needed(lobby));
	} else if (hvd_join_offer_read(msg, &g->offer, &why) != 0 || check_offer(lobby, &g->offer, &why) != 0) {
		hvd_warn(lobby->opts.log, "an agent was turned away: %s", why.msg);
		say_last(g, hvd_join_declined(&why));
	} else {
		g->host = new_name(lobby, g->offer.host);
		g->state = GUEST_ACCEPTED;
		hvd_conn_send(g->conn, json_pack("{s:s}", "t", "accepted"));
	}
}

static void on_message(struct hvd_conn *conn, json_t *msg, void *arg)
{
	struct guest *g = arg;
	const char *type;

	(void)conn;
	if (hvd_get_str(msg, "t", 16, &type, NULL) == 0 && g->state == GUEST_OFFERING && strcmp(type, "offer") == 0) {
		on_offer(g, msg);
	} else if (type && g->state == GUEST_ACCEPTED && strcmp(type, "ready") == 0) {
		make_bare(g);
	} else {
		hvd_warn(g->lobby->opts.log, "an agent was turned away: it does not speak as this release does");
		free_guest(g);
	}
}

static void on_closed(struct hvd_conn *conn, const struct hvd_err *why, void *arg)
{
	struct guest *g = arg;

	(void)conn;
	hvd_verbose(g->lobby->opts.log, "%s went before it was ready%s%s", g->host ? g->host : "an agent",
		    *why->msg ? ": " : "", why->msg);
	free_guest(g);
}

static void on_proven(struct hvd_conn *conn, void *arg)
{
	static const struct hvd_conn_ops ops = {.message = on_message, .closed = on_closed};
	struct hvd_lobby *lobby = arg;
	struct guest *g = hvd_xcalloc(1, sizeof(*g));

	g->lobby = lobby;
	g->conn = conn;
	g->fd = -1;
	g->prev = lobby->last;
	*(g->prev ? &g->prev->next : &lobby->first) = g;
	lobby->last = g;
	hvd_conn_set_ops(conn, &ops, g);
	hvd_conn_set_deadline(conn, hvd_deadline_in(ANSWER_SECONDS));
}

/* ---- agents that are not needed ---- */

static void on_turned_off_message(struct hvd_conn *conn, json_t *msg, void *arg)
{
	struct guest *g = arg;
	struct hvd_err why = {0};
	int rc = hvd_handshake_message(&g->hs, conn, msg, &why);

	if (rc > 0)
		say_last(g, not_needed(g->lobby));
	else if (rc < 0)
		free_guest(g);
}

static void turn_off(struct guest *g)
{
	static const struct hvd_conn_ops ops = {.message = on_turned_off_message, .closed = on_closed};
	struct hvd_lobby *lobby = g->lobby;
	struct hvd_err why = {0};

	event_free(g->ended);
	g->ended = NULL;
	g->conn = hvd_conn_new(lobby->base, g->fd, true, &ops, g);
	g->fd = -1;
	g->state = GUEST_TURNED_OFF;
	hvd_conn_set_deadline(g->conn, hvd_deadline_in(TELL_SECONDS));
	if (hvd_handshake_start(&g->hs, &lobby->session, g->conn, true, &why) != 0)
		free_guest(g);
}

static void turn_off_waiting(struct hvd_lobby *lobby)
{
	lobby->enough = true;
	for (struct guest *g = lobby->first, *next; g; g = next) {
		next = g->next;
		if (g->state == GUEST_WAITING)
			turn_off(g);
	}
}

/* ---- opening ---- */

static void on_refused(const struct hvd_addr *from, const struct hvd_err *why, void *arg)
{
	struct hvd_lobby *lobby = arg;
	char peer[HVD_ADDR_TEXT];

	hvd_log(lobby->opts.log, lobby->n_warnings++ < MAX_WARNINGS ? HVD_LOG_WARN : HVD_LOG_VERBOSE,
		"an agent from %s was refused: %s", hvd_addr_text(from, peer), why->msg);
	if (lobby->n_warnings == 1)
		hvd_info(lobby->opts.log, "has it the key of %s?", lobby->opts.key_file);
}

static void on_dropped(const struct hvd_addr *from, const struct hvd_err *why, void *arg)
{
	struct hvd_lobby *lobby = arg;
	char peer[HVD_ADDR_TEXT];

	hvd_verbose(lobby->opts.log, "dropped a connection from %s: %s", hvd_addr_text(from, peer), why->msg);
}

static void on_full(void *arg)
{
	struct hvd_lobby *lobby = arg;

	hvd_warn(lobby->opts.log, "no descriptor is left for another agent; raise the limit (ulimit -n)");
}

static int read_key(struct hvd_lobby *lobby, struct hvd_err *err)
{
	const char *path = lobby->opts.key_file;

	if (access(path, F_OK) != 0 && errno == ENOENT && hvd_key_make_file(path, err) != 0)
		return -1;
	return hvd_key_read_file(path, &lobby->key, err);
}

static int listen_for_agents(struct hvd_lobby *lobby, struct hvd_err *err)
{
	static const struct hvd_pending_ops ops = {
		.proven = on_proven, .refused = on_refused, .dropped = on_dropped, .full = on_full};
	struct hvd_identity identity = {.kind = HVD_ID_KEY, .key = lobby->key};
	struct hvd_this_host self;
	int fd;

	if (hvd_session_create(&lobby->session, &identity, err) != 0 ||
	    hvd_this_host_query(&self, HVD_BOOT_MAX_ADDRS, false, lobby->opts.nics, err) != 0)
		return -1;
	memcpy(lobby->boot.session, lobby->session.id, sizeof(lobby->boot.session));
	/* The last address is 127.0.0.1, which leads an agent on another host to its own host. */
	lobby->boot.n_addrs = (unsigned)self.n_addrs - (self.n_addrs > 1);
	memcpy(lobby->boot.addrs, self.addrs, lobby->boot.n_addrs * sizeof(*self.addrs));
	memcpy(lobby->machine, self.machine, sizeof(lobby->machine));
	hvd_this_host_clear(&self);
	fd = hvd_listen_any(false, 0, 0, &lobby->boot.port, err);
	if (fd < 0)
		return -1;
	lobby->pending = hvd_pending_create(lobby->base, fd, &lobby->session, MAX_PENDING, &ops, lobby, err);
	if (!lobby->pending)
		close(fd);
	return lobby->pending ? 0 : hvd_err_prefix(err, "cannot listen for agents");
}

/* Readers see all of it or nothing. */
static int write_file(struct hvd_lobby *lobby, struct hvd_err *err)
{
	const char *path = lobby->opts.join_file;
	char *temporary = hvd_xasprintf("%s.%ld", path, (long)getpid());
	int fd = open(temporary, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
	bool ok = fd >= 0 && dprintf(fd, "%s\n", lobby->address) > 0;

	if (fd >= 0 && close(fd) != 0)
		ok = false;
	ok = ok && rename(temporary, path) == 0;
	if (!ok) {
		hvd_err_sys(err, "cannot write the join file %s", path);
		unlink(temporary);
	}
	free(temporary);
	lobby->file_written = ok;
	return ok ? 0 : -1;
}

static void remove_file(struct hvd_lobby *lobby)
{
	if (lobby->file_written)
		unlink(lobby->opts.join_file);
	lobby->file_written = false;
}

struct hvd_lobby *hvd_lobby_open(const struct hvd_lobby_opts *opts, struct hvd_err *err)
{
	struct hvd_lobby *lobby = hvd_xcalloc(1, sizeof(*lobby));

	lobby->opts = *opts;
	lobby->base = event_base_new();
	if (!lobby->base) {
		hvd_err_set(err, HVD_E_SYS, "cannot make an event loop");
		free(lobby);
		return NULL;
	}
	lobby->tell = evtimer_new(lobby->base, on_tell, lobby);
	if (read_key(lobby, err) != 0 || listen_for_agents(lobby, err) != 0) {
		hvd_lobby_close(lobby);
		return NULL;
	}
	hvd_join_address_format(&lobby->boot, lobby->address);
	if (opts->join_file && write_file(lobby, err) != 0) {
		hvd_lobby_close(lobby);
		return NULL;
	}
	hvd_info(opts->log, "agents join with: %s --join=%s --key-file=%s", opts->task, lobby->address, opts->key_file);
	return lobby;
}

void hvd_lobby_close(struct hvd_lobby *lobby)
{
	struct timeval tv = {.tv_sec = CLOSE_SECONDS};

	if (!lobby)
		return;
	remove_file(lobby);
	hvd_pending_destroy(lobby->pending);
	turn_off_waiting(lobby);
	for (struct guest *g = lobby->first, *next; g; g = next) {
		next = g->next;
		if (g->state != GUEST_TURNED_OFF)
			free_guest(g);
	}
	lobby->changed = NULL;
	lobby->want = 0;
	/* The loop ends by itself when nothing is left in it. */
	event_free(lobby->tell);
	event_base_loopexit(lobby->base, &tv);
	if (lobby->first)
		event_base_dispatch(lobby->base);
	while (lobby->first)
		free_guest(lobby->first);
	hvd_strv_free(&lobby->names);
	event_base_free(lobby->base);
	explicit_bzero(&lobby->key, sizeof(lobby->key));
	explicit_bzero(&lobby->session, sizeof(lobby->session));
	free(lobby);
}

struct event_base *hvd_lobby_base(const struct hvd_lobby *lobby)
{
	return lobby->base;
}

const struct hvd_key *hvd_lobby_key(const struct hvd_lobby *lobby)
{
	return &lobby->key;
}

const char *hvd_lobby_session(const struct hvd_lobby *lobby)
{
	return lobby->session.id;
}

/* ---- a job of fixed size ---- */

static int by_index(const void *a, const void *b)
{
	const struct guest *const *x = a, *const *y = b;
	unsigned i = (unsigned)(*x)->offer.index, j = (unsigned)(*y)->offer.index; /* -1 is the highest */

	return (i > j) - (i < j);
}

/* The agents that wait, in the order of their ranks. Returns how many; the caller frees *out. */
static size_t in_order(const struct hvd_lobby *lobby, struct guest ***out)
{
	size_t n = 0, indexed = 0;

	for (const struct guest *g = lobby->first; g; g = g->next)
		n += g->state == GUEST_WAITING;
	*out = hvd_xcalloc(n + 1, sizeof(**out));
	for (struct guest *g = lobby->first; g; g = g->next)
		if (g->state == GUEST_WAITING && g->offer.index >= 0)
			(*out)[indexed++] = g;
	n = indexed;
	for (struct guest *g = lobby->first; g; g = g->next)
		if (g->state == GUEST_WAITING && g->offer.index < 0)
			(*out)[n++] = g;
	qsort(*out, indexed, sizeof(**out), by_index);
	return n;
}

static int too_few(const struct hvd_lobby *lobby, double seconds, struct hvd_err *err)
{
	int slots = slots_waiting(lobby), told = 0;
	struct guest **guests;
	size_t n = in_order(lobby, &guests);
	char *who = NULL;

	for (size_t i = 0; i < n; i++, told++) {
		if (told == 16) {
			hvd_xappendf(&who, " and %zu others", n - i);
			break;
		}
		hvd_xappendf(&who, "%s %s (%d)", i ? "," : ":", guests[i]->host, guests[i]->offer.slots);
	}
	hvd_err_set(err, HVD_E_TIMEOUT, "agents with %d of %d slots have come within %g s%s; %d are missing", slots,
		    lobby->want, seconds, who ? who : "", lobby->want - slots);
	hvd_err_hint(err,
		     "do the others run, do they have the key, and can they reach this host at port %u? "
		     "--start-timeout gives them longer",
		     lobby->boot.port);
	free(who);
	free(guests);
	return -1;
}

static void on_signal(evutil_socket_t sig, short what, void *arg)
{
	struct hvd_lobby *lobby = arg;

	(void)what;
	lobby->sig = (int)sig;
	event_base_loopbreak(lobby->base);
}

static void on_late(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	event_base_loopbreak(((struct hvd_lobby *)arg)->base);
}

static void wait_for_slots(struct hvd_lobby *lobby, double seconds)
{
	static const int ends[] = {SIGINT, SIGTERM, SIGHUP};
	struct event *signals[sizeof(ends) / sizeof(ends[0])];
	struct timeval tv = hvd_left_tv(hvd_deadline_in(seconds));
	struct event *late;

	for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
		signals[i] = evsignal_new(lobby->base, ends[i], on_signal, lobby);
		event_add(signals[i], NULL);
	}
	late = evtimer_new(lobby->base, on_late, lobby);
	evtimer_add(late, &tv);
	while (!lobby->sig && slots_waiting(lobby) < lobby->want && evtimer_pending(late, NULL))
		event_base_dispatch(lobby->base);
	event_free(late);
	for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++)
		event_free(signals[i]);
	if (!lobby->sig)
		return;
	remove_file(lobby);
	raise(lobby->sig);
}

int hvd_lobby_gather(struct hvd_lobby *lobby, int np, double seconds, struct hvd_alloc *out, struct hvd_err *err)
{
	struct guest **guests;
	size_t n;
	int rc = 0;

	lobby->want = np;
	wait_for_slots(lobby, seconds);
	lobby->failed = slots_waiting(lobby) < np;
	if (lobby->failed)
		return too_few(lobby, seconds, err);
	lobby->want = 0;
	n = in_order(lobby, &guests);
	snprintf(out->source, sizeof(out->source), "agents that have joined");
	lobby->enough = true;
	for (size_t i = 0; i < n; i++) {
		int slots = guests[i]->offer.slots, left = np - out->slots;

		if (left == 0)
			turn_off(guests[i]);
		else if (rc == 0)
			rc = hvd_alloc_add(out, guests[i]->host, slots < left ? slots : left, err);
	}
	free(guests);
	return rc;
}

bool hvd_lobby_on_this_machine(const struct hvd_lobby *lobby)
{
	for (const struct guest *g = lobby->first; g; g = g->next)
		if (is_there(g) && strcmp(g->offer.machine, lobby->machine) != 0)
			return false;
	return true;
}

/* ---- hosts ---- */

void hvd_lobby_watch(struct hvd_lobby *lobby, void (*changed)(void *arg), void *arg)
{
	lobby->changed = changed;
	lobby->arg = arg;
	if (changed)
		has_changed(lobby);
}

void hvd_lobby_hosts(const struct hvd_lobby *lobby, struct hvd_alloc *out)
{
	for (const struct guest *g = lobby->first; g; g = g->next)
		if (is_there(g))
			hvd_alloc_add(out, g->host, g->offer.slots, NULL);
}

static struct guest *find(struct hvd_lobby *lobby, const char *host)
{
	struct guest *g = lobby->first;

	while (g && !(g->host && strcmp(g->host, host) == 0))
		g = g->next;
	return g;
}

int hvd_lobby_take(struct hvd_lobby *lobby, const char *host, struct hvd_err *err)
{
	struct guest *g = find(lobby, host);

	if (!g || g->state != GUEST_WAITING) {
		hvd_err_set(err, HVD_E_NOENT, "its agent has left");
		hvd_err_hint(err, "was it, or what had started it, ended?");
		return hvd_err_host(err, host);
	}
	g->state = GUEST_TAKEN;
	return g->fd;
}

void hvd_lobby_release(struct hvd_lobby *lobby, const char *host)
{
	struct guest *g = find(lobby, host);

	if (!g || (g->state != GUEST_TAKEN && g->state != GUEST_GONE))
		return;
	shutdown(g->fd, SHUT_RDWR); /* the process may have left a copy of the descriptor to another */
	free_guest(g);
	has_changed(lobby);
}
