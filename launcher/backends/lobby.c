/* SPDX-License-Identifier: Apache-2.0 */
#include "lobby_internal.h"

#include "lib/base/xalloc.h"
#include "lib/net/listen.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MAX_PENDING  256
#define MAX_WARNINGS 10

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
		.proven = hvd_guest_arrive, .refused = on_refused, .dropped = on_dropped, .full = on_full};
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

void hvd_lobby_remove_file(struct hvd_lobby *lobby)
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
	lobby->tell = evtimer_new(lobby->base, hvd_lobby_on_tell, lobby);
	if (read_key(lobby, err) != 0 || listen_for_agents(lobby, err) != 0) {
		hvd_lobby_close(lobby);
		return NULL;
	}
	hvd_join_address_format(&lobby->boot, lobby->address);
	if (opts->join_file && write_file(lobby, err) != 0) {
		hvd_lobby_close(lobby);
		return NULL;
	}
	/* A file is for a program, whose users do not start agents themselves. */
	hvd_log(opts->log, opts->join_file ? HVD_LOG_VERBOSE : HVD_LOG_INFO,
		"agents join with: %s --join=%s --key-file=%s", opts->task, lobby->address, opts->key_file);
	return lobby;
}

void hvd_lobby_close(struct hvd_lobby *lobby)
{
	if (!lobby)
		return;
	hvd_lobby_remove_file(lobby);
	hvd_pending_destroy(lobby->pending);
	hvd_lobby_turn_off_waiting(lobby);
	while (lobby->first)
		hvd_guest_free(lobby->first);
	event_free(lobby->tell);
	event_base_dispatch(lobby->base); /* until the last messages are out, or have been given up */
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

const struct hvd_session *hvd_lobby_session(const struct hvd_lobby *lobby)
{
	return &lobby->session;
}

/* ---- hosts ---- */

bool hvd_lobby_on_this_machine(const struct hvd_lobby *lobby)
{
	for (const struct hvd_guest *g = lobby->first; g; g = g->next)
		if (g->host && strcmp(g->offer.machine, lobby->machine) != 0)
			return false;
	return true;
}

void hvd_lobby_watch(struct hvd_lobby *lobby, void (*changed)(void *arg), void *arg)
{
	lobby->changed = changed;
	lobby->arg = arg;
	if (changed)
		hvd_lobby_tell(lobby);
}

void hvd_lobby_hosts(const struct hvd_lobby *lobby, struct hvd_alloc *out)
{
	for (const struct hvd_guest *g = lobby->first; g; g = g->next)
		if (g->host)
			hvd_alloc_add(out, g->host, g->offer.slots, NULL);
}

static struct hvd_guest *find(struct hvd_lobby *lobby, const char *host)
{
	struct hvd_guest *g = lobby->first;

	while (g && !(g->host && strcmp(g->host, host) == 0))
		g = g->next;
	return g;
}

int hvd_lobby_take(struct hvd_lobby *lobby, const char *host, struct hvd_err *err)
{
	struct hvd_guest *g = find(lobby, host);

	if (!g || g->state != GUEST_WAITING) {
		hvd_err_set(err, HVD_E_NOENT, "its agent has left");
		hvd_err_hint(err, "was it, or what had started it, ended?");
		return hvd_err_host(err, host);
	}
	g->state = GUEST_TAKEN;
	return 0;
}

struct hvd_conn *hvd_lobby_conn(struct hvd_lobby *lobby, const char *host)
{
	struct hvd_guest *g = find(lobby, host);
	struct hvd_conn *conn = g ? g->conn : NULL;

	if (g)
		g->conn = NULL;
	return conn;
}

void hvd_lobby_release(struct hvd_lobby *lobby, const char *host)
{
	struct hvd_guest *g = find(lobby, host);

	if (!g || g->state != GUEST_TAKEN)
		return;
	hvd_guest_free(g);
	hvd_lobby_tell(lobby);
}
