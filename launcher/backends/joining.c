/* SPDX-License-Identifier: Apache-2.0 */
#include "joining_internal.h"

#include "lib/base/cleanup.h"
#include "lib/base/timer.h"
#include "lib/base/xalloc.h"
#include "lib/net/listen.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MAX_PENDING  256
#define MAX_WARNINGS 10
#define MOST_NAMES   16 /* of agents, in a message */

/* ---- opening ---- */

static void on_refused(const struct hvd_addr *from, const struct hvd_err *why, void *arg)
{
	struct hvd_joining *joining = arg;
	char peer[HVD_ADDR_TEXT];

	hvd_log(joining->opts.log, joining->n_warnings++ < MAX_WARNINGS ? HVD_LOG_WARN : HVD_LOG_VERBOSE,
		"an agent from %s was refused: %s", hvd_addr_text(from, peer), why->msg);
	if (joining->n_warnings == 1)
		hvd_info(joining->opts.log, "does it have the key of %s?", joining->opts.key_file);
}

static void on_dropped(const struct hvd_addr *from, const struct hvd_err *why, void *arg)
{
	struct hvd_joining *joining = arg;
	char peer[HVD_ADDR_TEXT];

	hvd_verbose(joining->opts.log, "dropped a connection from %s: %s", hvd_addr_text(from, peer), why->msg);
}

static void on_full(void *arg)
{
	struct hvd_joining *joining = arg;

	hvd_warn(joining->opts.log, "no descriptor is left for another agent; raise the limit (ulimit -n)");
}

static int read_key(struct hvd_joining *joining, struct hvd_err *err)
{
	const char *path = joining->opts.key_file;

	if (access(path, F_OK) != 0 && errno == ENOENT && hvd_key_make_file(path, err) != 0)
		return -1;
	return hvd_key_read_file(path, &joining->key, err);
}

static int listen_for_agents(struct hvd_joining *joining, struct hvd_err *err)
{
	static const struct hvd_preauth_ops ops = {
		.proven = hvd_joiner_arrive, .refused = on_refused, .dropped = on_dropped, .full = on_full};
	struct hvd_identity identity = {.kind = HVD_ID_KEY, .key = joining->key};
	struct hvd_this_host self;
	int fd;

	if (hvd_session_create(&joining->session, &identity, err) != 0 ||
	    hvd_this_host_query(&self, HVD_BOOT_MAX_ADDRS, false, joining->opts.nics, err) != 0)
		return -1;
	memcpy(joining->boot.session, joining->session.id, sizeof(joining->boot.session));
	/* Leave out the last address, 127.0.0.1: an agent on another host would connect to its own host. */
	joining->boot.n_addrs = (unsigned)self.n_addrs - (self.n_addrs > 1);
	memcpy(joining->boot.addrs, self.addrs, joining->boot.n_addrs * sizeof(*self.addrs));
	memcpy(joining->machine, self.machine, sizeof(joining->machine));
	hvd_this_host_clear(&self);
	fd = hvd_listen_any(false, 0, 0, &joining->boot.port, err);
	if (fd < 0)
		return -1;
	joining->pending = hvd_preauth_create(joining->base, fd, &joining->session, MAX_PENDING, &ops, joining, err);
	if (!joining->pending)
		close(fd);
	return joining->pending ? 0 : hvd_err_prefix(err, "cannot listen for agents");
}

/* Write the join file atomically. */
static int write_file(struct hvd_joining *joining, struct hvd_err *err)
{
	const char *path = joining->opts.join_file;
	char *temporary = hvd_xasprintf("%s.XXXXXX", path);
	int fd = mkostemp(temporary, O_CLOEXEC);
	bool ok = fd >= 0 && dprintf(fd, "%s\n", joining->address) > 0;

	if (fd >= 0 && close(fd) != 0)
		ok = false;
	ok = ok && rename(temporary, path) == 0;
	if (!ok) {
		hvd_err_sys(err, "cannot write the join file %s", path);
		if (fd >= 0)
			unlink(temporary);
	}
	free(temporary);
	joining->file_written = ok;
	return ok ? 0 : -1;
}

void hvd_joining_remove_file(struct hvd_joining *joining)
{
	if (joining->file_written)
		unlink(joining->opts.join_file);
	joining->file_written = false;
}

struct hvd_joining *hvd_joining_open(const struct hvd_joining_opts *opts, struct hvd_err *err)
{
	struct hvd_joining *joining = hvd_xcalloc(1, sizeof(*joining));

	joining->opts = *opts;
	TAILQ_INIT(&joining->all);
	joining->base = event_base_new();
	if (!joining->base) {
		hvd_err_set(err, HVD_E_SYS, "cannot make an event loop");
		free(joining);
		return NULL;
	}
	joining->tell = hvd_timer_new(joining->base, hvd_joining_on_tell, joining);
	if (read_key(joining, err) != 0 || listen_for_agents(joining, err) != 0) {
		hvd_joining_close(joining);
		return NULL;
	}
	hvd_join_address_format(&joining->boot, joining->address);
	if (opts->join_file && write_file(joining, err) != 0) {
		hvd_joining_close(joining);
		return NULL;
	}
	/* A join file is for programs; their users do not start agents by hand. */
	hvd_log(opts->log, opts->join_file ? HVD_LOG_VERBOSE : HVD_LOG_INFO,
		"agents join with: %s connect %s --key-file=%s", opts->agent, joining->address, opts->key_file);
	return joining;
}

void hvd_joining_close(struct hvd_joining *joining)
{
	if (!joining)
		return;
	hvd_joining_remove_file(joining);
	hvd_preauth_destroy(joining->pending);
	hvd_joining_turn_off_waiting(joining);
	while (!TAILQ_EMPTY(&joining->all))
		hvd_joiner_free(TAILQ_FIRST(&joining->all));
	hvd_timer_free(joining->tell);
	event_base_dispatch(joining->base); /* until the last messages are sent or have timed out */
	hvd_strv_free(&joining->names);
	event_base_free(joining->base);
	explicit_bzero(&joining->key, sizeof(joining->key));
	explicit_bzero(&joining->session, sizeof(joining->session));
	free(joining);
}

struct event_base *hvd_joining_base(const struct hvd_joining *joining)
{
	return joining->base;
}

const struct hvd_session *hvd_joining_session(const struct hvd_joining *joining)
{
	return &joining->session;
}

/* ---- the wait for enough agents ---- */

static int too_few(const struct hvd_joining *joining, double seconds, struct hvd_err *err)
{
	int slots = hvd_joining_slots_waiting(joining), left = MOST_NAMES;
	const struct hvd_joiner *j;
	hvd_cleanup_free char *who = hvd_xstrdup("");

	TAILQ_FOREACH(j, &joining->all, in)
	if (j->state == JOINER_WAITING && left-- > 0)
		hvd_xappendf(&who, "%s %s (%d)", *who ? "," : ":", j->host, j->offer.slots);
	if (left < 0)
		hvd_xappendf(&who, " and %d others", -left);
	hvd_err_set(err, HVD_E_TIMEOUT, "agents with %d of %d slots have joined within %g s%s; %d missing", slots,
		    joining->want, seconds, who, joining->want - slots);
	hvd_err_hint(err,
		     "are the others running, do they have the key, and can they reach port %u of this host? "
		     "--start-timeout allows more time",
		     joining->boot.port);
	return -1;
}

static void on_signal(int sig, void *arg)
{
	struct hvd_joining *joining = arg;

	joining->sig = sig;
	event_base_loopbreak(joining->base);
}

static void on_late(void *arg)
{
	event_base_loopbreak(((struct hvd_joining *)arg)->base);
}

static void wait_for_slots(struct hvd_joining *joining, double seconds)
{
	static const int ends[] = {SIGINT, SIGTERM, SIGHUP};
	struct hvd_signal_watch *signals[sizeof(ends) / sizeof(ends[0])] = {NULL};
	struct hvd_timer *late;

	for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
		struct sigaction now;

		/* nohup(1) makes its command ignore SIGHUP, and a shell makes background commands ignore SIGINT. */
		if (sigaction(ends[i], NULL, &now) == 0 && now.sa_handler != SIG_IGN)
			signals[i] = hvd_signal_watch(joining->base, ends[i], on_signal, joining);
	}
	late = hvd_timer_new(joining->base, on_late, joining);
	hvd_timer_at(late, hvd_deadline_in(seconds));
	while (!joining->sig && hvd_joining_slots_waiting(joining) < joining->want && hvd_timer_runs(late))
		event_base_dispatch(joining->base);
	hvd_timer_free(late);
	for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++)
		hvd_signal_unwatch(signals[i]);
	if (!joining->sig)
		return;
	hvd_joining_remove_file(joining);
	raise(joining->sig);
}

int hvd_joining_gather(struct hvd_joining *joining, int np, double seconds, struct hvd_alloc *out, struct hvd_err *err)
{
	int rc = 0;

	joining->want = np;
	wait_for_slots(joining, seconds);
	joining->failed = hvd_joining_slots_waiting(joining) < np;
	if (joining->failed)
		return too_few(joining, seconds, err);
	joining->want = 0;
	snprintf(out->source, sizeof(out->source), "agents that have joined");
	joining->enough = true;
	for (struct hvd_joiner *j = TAILQ_FIRST(&joining->all), *next; j; j = next) {
		int slots = j->offer.slots, left = np - out->slots;

		next = TAILQ_NEXT(j, in);
		if (j->state != JOINER_WAITING)
			continue;
		if (left == 0)
			hvd_joiner_turn_off(j);
		else if (rc == 0)
			rc = hvd_alloc_add(out, j->host, slots < left ? slots : left, err);
	}
	return rc;
}

/* ---- hosts ---- */

bool hvd_joining_on_this_machine(const struct hvd_joining *joining)
{
	const struct hvd_joiner *j;

	TAILQ_FOREACH(j, &joining->all, in)
	if (j->host && strcmp(j->offer.machine, joining->machine) != 0)
		return false;
	return true;
}

void hvd_joining_watch(struct hvd_joining *joining, void (*changed)(void *arg), void *arg)
{
	joining->changed = changed;
	joining->arg = arg;
	if (changed)
		hvd_joining_tell(joining);
}

void hvd_joining_hosts(const struct hvd_joining *joining, struct hvd_alloc *out)
{
	const struct hvd_joiner *j;

	TAILQ_FOREACH(j, &joining->all, in)
	if (j->host)
		hvd_alloc_add(out, j->host, j->offer.slots, NULL);
}

static struct hvd_joiner *find(struct hvd_joining *joining, const char *host)
{
	struct hvd_joiner *j;

	TAILQ_FOREACH(j, &joining->all, in)
	if (j->host && strcmp(j->host, host) == 0)
		break;
	return j;
}

int hvd_joining_take(struct hvd_joining *joining, const char *host, struct hvd_err *err)
{
	struct hvd_joiner *j = find(joining, host);

	if (!j || j->state != JOINER_WAITING) {
		hvd_err_set(err, HVD_E_NOENT, "its agent has left");
		hvd_err_hint(err, "did it end, or the process that started it?");
		return hvd_err_host(err, host);
	}
	j->state = JOINER_TAKEN;
	return 0;
}

struct hvd_conn *hvd_joining_conn(struct hvd_joining *joining, const char *host)
{
	struct hvd_joiner *j = find(joining, host);
	struct hvd_conn *conn = j ? j->conn : NULL;

	if (j)
		j->conn = NULL;
	return conn;
}

void hvd_joining_release(struct hvd_joining *joining, const char *host)
{
	struct hvd_joiner *j = find(joining, host);

	if (!j || j->state != JOINER_TAKEN)
		return;
	hvd_joiner_free(j);
	hvd_joining_tell(joining);
}
