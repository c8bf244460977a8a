/* SPDX-License-Identifier: Apache-2.0 */
#include "server.h"

#include "downstream.h"
#include "internal.h"
#include "lib/base/xalloc.h"
#include "lib/protocol/conn.h"
#include "tcpstore.h"
#include "upstream.h"

#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#define SPARE_FDS  32 /* descriptors that the process keeps for other things than connections */
#define STOP_MS    10 /* how often a server that is to stop looks whether all connections have ended */
#define LAST_TURNS 8  /* times that connections are accepted when the server ends */

void hvd_rv_config_init(struct hvd_rv_config *cfg)
{
	memset(cfg, 0, sizeof(*cfg));
	/* A full mesh of n ranks holds 136 n (n-1) bytes: 143 MB at 1,024 ranks, 2.3 GB at 4,096. */
	cfg->store.total_max = (size_t)4 << 30;
	cfg->store.value_max = (size_t)256 << 20;
	cfg->store.name_max = 1024;
	cfg->store.scopes_max = 65536;
	cfg->store.scope_keys_max = 262144;
	cfg->head_max = 8192;
	cfg->conns_max = 65536;
	cfg->waiting_max = 49152;
	cfg->pending_max = (size_t)256 << 20;
	cfg->get_wait = 1.0;
	cfg->rank_wait = 30.0;
	cfg->stall = 3.0;
	cfg->head_time = 10.0;
	cfg->idle = 60.0;
	cfg->channel = HVD_CHANNEL_STORE;
	cfg->relay_back = HVD_RELAY_BACK_SECONDS;
	cfg->parent_wait = 20.0;
}

static void fit_limits(struct hvd_rv_config *cfg)
{
	struct rlimit rl;

	if (getrlimit(RLIMIT_NOFILE, &rl) == 0 && rl.rlim_cur != RLIM_INFINITY) {
		rlim_t most = rl.rlim_cur > 2 * SPARE_FDS ? rl.rlim_cur - SPARE_FDS : SPARE_FDS;

		if (cfg->conns_max > most)
			cfg->conns_max = (unsigned)most;
	}
	if (cfg->waiting_max > cfg->conns_max / 4 * 3)
		cfg->waiting_max = cfg->conns_max / 4 * 3;
}

struct hvd_rv *hvd_rv_create(struct event_base *base, const struct hvd_rv_config *cfg, const struct hvd_log *log,
			     struct hvd_err *err)
{
	struct hvd_rv *rv;

	if (cfg->head_max < 256 || cfg->head_max > SCRATCH_SIZE || cfg->conns_max < 1) {
		hvd_err_set(err, HVD_E_USAGE,
			    "a request's head must be allowed 256 to %d bytes, and at least one "
			    "connection",
			    SCRATCH_SIZE);
		return NULL;
	}
	rv = hvd_xcalloc(1, sizeof(*rv));
	rv->base = base;
	rv->cfg = *cfg;
	rv->log = log;
	fit_limits(&rv->cfg);
	if (rv->cfg.pending_max < rv->cfg.store.value_max)
		rv->cfg.pending_max = rv->cfg.store.value_max;
	for (int state = 0; state < CONN_STATES; state++)
		TAILQ_INIT(&rv->lists[state]);
	TAILQ_INIT(&rv->pool);
	hvd_rv_streams_init(rv);
	rv->store = hvd_rv_store_create(&cfg->store);
	rv->store_api.scopes = rv->store;
	if (cfg->relay)
		rv->store_api.upstream = hvd_upstream_create(rv);
	else
		rv->store_api.local = hvd_store_local_create(rv);
	rv->downstream = hvd_downstream_create(rv);
	if (cfg->tcpstore)
		rv->tcpstore = hvd_tcpstore_create(rv);
	if (cfg->ask_owner)
		rv->owners = hvd_rv_owners_create(base, cfg->ask_owner, cfg->ask_owner_arg);
	return rv;
}

static void close_listeners(struct hvd_rv *rv)
{
	for (size_t i = 0; i < rv->n_listeners; i++)
		hvd_rv_listener_destroy(rv->listeners[i]);
	rv->n_listeners = 0;
}

static void close_all(struct hvd_rv_streams *list)
{
	while (!TAILQ_EMPTY(list))
		TAILQ_FIRST(list)->ops->close(TAILQ_FIRST(list), HVD_LOG_DEBUG, NULL);
}

static void close_tcpstore(struct hvd_rv *rv)
{
	if (rv->tcpstore)
		close_all(&rv->tcpstore->conns);
}

static void close_conns(struct hvd_rv *rv)
{
	for (int state = 0; state < CONN_DEAD; state++)
		close_all(&rv->lists[state]);
	close_tcpstore(rv);
	hvd_rv_reap(rv);
}

void hvd_rv_destroy(struct hvd_rv *rv)
{
	if (!rv)
		return;
	rv->stopping = true;
	close_listeners(rv);
	free(rv->listeners);
	close_conns(rv);
	hvd_rv_owners_destroy(rv->owners);
	hvd_downstream_destroy(rv->downstream);
	while (!TAILQ_EMPTY(&rv->pool)) {
		struct conn *c = conn_of(TAILQ_FIRST(&rv->pool));

		TAILQ_REMOVE(&rv->pool, &c->s, link);
		free(c);
	}
	while (rv->hooks) {
		struct hook *h = rv->hooks;

		rv->hooks = h->next;
		free(h);
	}
	hvd_timer_free(rv->tick);
	hvd_timer_free(rv->stop);
	hvd_tcpstore_destroy(rv->tcpstore);
	hvd_upstream_destroy(rv->store_api.upstream);
	hvd_store_local_destroy(rv->store_api.local);
	hvd_rv_store_destroy(rv->store);
	hvd_peer_table_destroy(rv->peers);
	free(rv);
}

int hvd_rv_listener(const struct hvd_rv *rv, size_t i, struct sockaddr_storage *addr)
{
	if (i >= rv->n_listeners)
		return -1;
	*addr = rv->listeners[i]->addr;
	return 0;
}

void hvd_rv_unbind_others(struct hvd_rv *rv, const struct hvd_addr *addrs, size_t n)
{
	size_t kept = 0;

	for (size_t i = 0; i < rv->n_listeners; i++) {
		struct listener *l = rv->listeners[i];
		struct hvd_addr addr;
		bool keep = false;

		hvd_addr_from_sockaddr((struct sockaddr *)&l->addr, &addr, NULL);
		for (size_t k = 0; k < n && !keep; k++)
			keep = hvd_addr_equal(&addr, &addrs[k]);
		if (keep)
			rv->listeners[kept++] = l;
		else
			hvd_rv_listener_destroy(l);
	}
	rv->n_listeners = kept;
}

static void disconnect_denied(struct hvd_rv_streams *list, bool hooked)
{
	for (struct hvd_rv_stream *s = TAILQ_FIRST(list), *next; s; s = next) {
		struct sockaddr_storage peer;
		socklen_t len = sizeof(peer);

		next = TAILQ_NEXT(s, link);
		if (getpeername(s->fd, (struct sockaddr *)&peer, &len) != 0 ||
		    hvd_rv_access_listed(s->rv->cfg.access, &peer))
			continue;
		s->ops->close(s, HVD_LOG_VERBOSE, "its address no longer belongs to the job");
		if (hooked) /* the hook was called, and may have answered other requests */
			next = TAILQ_FIRST(list);
	}
}

void hvd_rv_disconnect_denied(struct hvd_rv *rv)
{
	if (!rv->cfg.access)
		return;
	if (rv->tcpstore)
		disconnect_denied(&rv->tcpstore->conns, false);
	for (int state = 0; state < CONN_DEAD; state++)
		disconnect_denied(&rv->lists[state], state == CONN_TAKEN);
}

void hvd_rv_owner_answer(struct hvd_rv *rv, const struct hvd_owner_answer *answer)
{
	hvd_rv_reap(rv);
	if (rv->owners)
		hvd_rv_owners_answer(rv->owners, answer);
}

uint16_t hvd_rv_port(const struct hvd_rv *rv)
{
	struct sockaddr_storage ss;

	if (hvd_rv_listener(rv, 0, &ss) != 0)
		return 0;
	return ntohs(ss.ss_family == AF_INET ? ((struct sockaddr_in *)&ss)->sin_port
					     : ((struct sockaddr_in6 *)&ss)->sin6_port);
}

static struct hvd_slice slice(const char *s)
{
	return (struct hvd_slice){s, strlen(s)};
}

int hvd_rv_scope_size(struct hvd_rv *rv, const char *scope, size_t members, struct hvd_err *err)
{
	if (hvd_rv_store_scope_size(rv->store, slice(scope), members) != 0)
		return hvd_err_set(err, HVD_E_LIMIT, "no room for the rendezvous scope '%s'", scope);
	return 0;
}

void hvd_rv_set_rank_wait(struct hvd_rv *rv, double seconds)
{
	rv->cfg.rank_wait = seconds;
}

void hvd_rv_lasting(struct hvd_rv *rv, const char *scope)
{
	hvd_rv_store_lasting(rv->store, slice(scope));
}

void hvd_rv_clear(struct hvd_rv *rv, const char *kept)
{
	hvd_rv_store_clear(rv->store, kept ? slice(kept) : (struct hvd_slice){0});
}

void hvd_rv_clear_scope(struct hvd_rv *rv, const char *scope)
{
	hvd_rv_store_clear_scope(rv->store, slice(scope));
}

int hvd_rv_put(struct hvd_rv *rv, const char *scope, const char *key, const void *data, size_t len, struct hvd_err *err)
{
	enum hvd_rv_stored why;
	struct hvd_rv_value *v = hvd_rv_value_new(hvd_rv_store_budget(rv->store), data, len, &why);

	if (v) {
		why = hvd_rv_store_put(rv->store, slice(scope), slice(key), v);
		hvd_rv_value_unref(v);
	}
	if (why != HVD_RV_STORED)
		return hvd_err_set(err, HVD_E_LIMIT, "no room for %zu bytes at /%s/%s in the rendezvous", len, scope,
				   key);
	return 0;
}

const struct hvd_rv_value *hvd_rv_get(struct hvd_rv *rv, const char *scope, const char *key)
{
	return hvd_rv_store_get(rv->store, slice(scope), slice(key));
}

void hvd_rv_stats(const struct hvd_rv *rv, struct hvd_rv_stats *out)
{
	*out = rv->stats;
	hvd_rv_store_stats(rv->store, &out->store);
}

/* --- relays --- */

void hvd_rv_relay_share(struct hvd_rv *rv, struct hvd_conn *conn)
{
	hvd_upstream_connect(rv->store_api.upstream, conn, true);
}

/* Answer all requests that wait. */
static void release_all(struct hvd_rv *rv)
{
	while (!TAILQ_EMPTY(&rv->lists[CONN_WAITING]))
		hvd_rv_conn_release(conn_of(TAILQ_FIRST(&rv->lists[CONN_WAITING])), true);
	while (!TAILQ_EMPTY(&rv->lists[CONN_TAKEN]))
		hvd_rv_conn_release(conn_of(TAILQ_FIRST(&rv->lists[CONN_TAKEN])), true);
}

void hvd_rv_relay_up(struct hvd_rv *rv, struct hvd_conn *conn)
{
	hvd_upstream_connect(rv->store_api.upstream, conn, false);
	if (conn)
		return;
	close_tcpstore(rv);
	release_all(rv);
}

/* --- the end --- */

static void let_go(struct hvd_rv *rv)
{
	/* Clients in the kernel's queue are connected, as far as they know. */
	for (int turns = 0; turns < LAST_TURNS; turns++)
		for (size_t i = 0; i < rv->n_listeners; i++)
			hvd_acceptor_turn(rv->listeners[i]->acceptor);
	close_listeners(rv);
	release_all(rv);
	close_tcpstore(rv);
	for (struct hvd_rv_stream *s = TAILQ_FIRST(&rv->lists[CONN_HEAD]), *next; s; s = next) {
		next = TAILQ_NEXT(s, link);
		if (s->in_len == 0)
			hvd_rv_conn_close(conn_of(s));
	}
}

static void on_stop(void *arg)
{
	struct hvd_rv *rv = arg;
	void (*done)(void *) = rv->stop_done;

	hvd_rv_reap(rv);
	if (rv->n_listeners > 0)
		let_go(rv);
	if (rv->stats.conns_now > 0 && hvd_left(rv->stop_deadline) > 0) {
		hvd_timer_in_ms(rv->stop, STOP_MS);
		return;
	}
	close_conns(rv);
	rv->stop_done = NULL;
	if (done)
		done(rv->stop_arg);
}

void hvd_rv_stop(struct hvd_rv *rv, double seconds, void (*done)(void *arg), void *arg)
{
	if (rv->stopping)
		return;
	rv->stopping = true;
	rv->stop_deadline = hvd_deadline_in(seconds);
	rv->stop_done = done;
	rv->stop_arg = arg;
	rv->stop = hvd_timer_new(rv->base, on_stop, rv);
	hvd_timer_in_ms(rv->stop, 0);
}
