/* SPDX-License-Identifier: Apache-2.0 */
#include "agent_pool_internal.h"

#include "lib/base/cleanup.h"
#include "lib/base/file.h"
#include "lib/base/timer.h"
#include "lib/base/xalloc.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MOST_NAMES 16 /* of agents, in a message */

/* ---- opening ---- */

static int read_key(struct hvd_agent_pool *pool, struct hvd_err *err)
{
	const char *path = pool->opts.key_file;

	if (access(path, F_OK) != 0 && errno == ENOENT && hvd_key_make_file(path, err) != 0)
		return -1;
	return hvd_key_read_file(path, &pool->key, err);
}

static int listen_for_agents(struct hvd_agent_pool *pool, struct hvd_err *err)
{
	struct hvd_identity identity = {.kind = HVD_ID_KEY, .key = pool->key};
	struct hvd_this_host self;

	if (hvd_session_create(&pool->session, &identity, err) != 0 ||
	    hvd_this_host_query(&self, false, pool->opts.nics, err) != 0)
		return -1;
	memcpy(pool->machine, self.machine, sizeof(pool->machine));
	pool->clients = hvd_clients_create(pool->base, &pool->session, false, 0, 0, NULL, NULL, pool->opts.log, err);
	if (!pool->clients)
		return -1;
	hvd_clients_take_offers(pool->clients, hvd_pool_agent_offer, pool);
	hvd_clients_address(pool->clients, &self, &pool->boot);
	return 0;
}

static int write_file(struct hvd_agent_pool *pool, struct hvd_err *err)
{
	hvd_cleanup_free char *text = hvd_xasprintf("%s\n", pool->address);
	int rc = hvd_replace_file(pool->opts.join_file, "the join file", text, strlen(text), err);

	pool->file_written = rc == 0;
	return rc;
}

static void remove_file(struct hvd_agent_pool *pool)
{
	if (pool->file_written)
		unlink(pool->opts.join_file);
	pool->file_written = false;
}

struct hvd_agent_pool *hvd_agent_pool_open(const struct hvd_agent_pool_opts *opts, struct hvd_err *err)
{
	struct hvd_agent_pool *pool = hvd_xcalloc(1, sizeof(*pool));

	pool->opts = *opts;
	TAILQ_INIT(&pool->all);
	pool->base = event_base_new();
	if (!pool->base) {
		hvd_err_set(err, HVD_E_SYS, "cannot make an event loop");
		free(pool);
		return NULL;
	}
	event_base_priority_init(pool->base, 2); /* it becomes the job's: see launcher/job/job.c */
	pool->tell = hvd_timer_new(pool->base, hvd_agent_pool_on_tell, pool);
	if (read_key(pool, err) != 0 || listen_for_agents(pool, err) != 0) {
		hvd_agent_pool_close(pool);
		return NULL;
	}
	hvd_join_address_format(&pool->boot, pool->address);
	if (opts->join_file && write_file(pool, err) != 0) {
		hvd_agent_pool_close(pool);
		return NULL;
	}
	/* A join file is for programs; their users do not start agents by hand. */
	hvd_log(opts->log, opts->join_file ? HVD_LOG_VERBOSE : HVD_LOG_INFO,
		"agents join with: %s connect %s --key-file=%s", opts->agent, pool->address, opts->key_file);
	return pool;
}

void hvd_agent_pool_close(struct hvd_agent_pool *pool)
{
	struct hvd_pool_agent *j;

	if (!pool)
		return;
	remove_file(pool);
	while ((j = TAILQ_FIRST(&pool->all)))
		if (j->taken)
			hvd_pool_agent_free(j);
		else
			hvd_pool_agent_decline(j);
	hvd_clients_destroy(pool->clients);
	hvd_timer_free(pool->tell);
	event_base_dispatch(pool->base); /* until the last messages are sent or have timed out */
	hvd_strv_free(&pool->names);
	event_base_free(pool->base);
	explicit_bzero(&pool->key, sizeof(pool->key));
	explicit_bzero(&pool->session, sizeof(pool->session));
	free(pool);
}

struct event_base *hvd_agent_pool_base(const struct hvd_agent_pool *pool)
{
	return pool->base;
}

struct hvd_clients *hvd_agent_pool_clients(const struct hvd_agent_pool *pool)
{
	return pool->clients;
}

const struct hvd_session *hvd_agent_pool_session(const struct hvd_agent_pool *pool)
{
	return &pool->session;
}

/* ---- the wait for enough agents ---- */

static int too_few(const struct hvd_agent_pool *pool, double seconds, struct hvd_err *err)
{
	int slots = hvd_agent_pool_slots_waiting(pool), left = MOST_NAMES;
	const struct hvd_pool_agent *j;
	hvd_cleanup_free char *who = hvd_xstrdup("");

	TAILQ_FOREACH(j, &pool->all, in)
	if (!j->taken && left-- > 0)
		hvd_xappendf(&who, "%s %s (%d)", *who ? "," : ":", j->host, j->offer.slots);
	if (left < 0)
		hvd_xappendf(&who, " and %d others", -left);
	hvd_err_set(err, HVD_E_TIMEOUT, "agents with %d of %d slots have joined within %g s%s; %d missing", slots,
		    pool->want, seconds, who, pool->want - slots);
	hvd_err_hint(err,
		     "are the others running, do they have the key, and can they reach port %u of this host? "
		     "--start-timeout allows more time",
		     pool->boot.port);
	return -1;
}

static void on_signal(int sig, void *arg)
{
	struct hvd_agent_pool *pool = arg;

	pool->sig = sig;
	event_base_loopbreak(pool->base);
}

static void on_late(void *arg)
{
	event_base_loopbreak(((struct hvd_agent_pool *)arg)->base);
}

static void wait_for_slots(struct hvd_agent_pool *pool, double seconds)
{
	static const int ends[] = {SIGINT, SIGTERM, SIGHUP};
	struct hvd_signal_watch *signals[sizeof(ends) / sizeof(ends[0])] = {NULL};
	struct hvd_timer *late;

	for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
		struct sigaction now;

		/* nohup(1) makes its command ignore SIGHUP, and a shell makes background commands ignore SIGINT. */
		if (sigaction(ends[i], NULL, &now) == 0 && now.sa_handler != SIG_IGN)
			signals[i] = hvd_signal_watch(pool->base, ends[i], on_signal, pool);
	}
	late = hvd_timer_new(pool->base, on_late, pool);
	hvd_timer_at(late, hvd_deadline_in(seconds));
	while (!pool->sig && hvd_agent_pool_slots_waiting(pool) < pool->want && hvd_timer_runs(late))
		event_base_dispatch(pool->base);
	hvd_timer_free(late);
	for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++)
		hvd_signal_unwatch(signals[i]);
	if (!pool->sig)
		return;
	remove_file(pool);
	raise(pool->sig);
}

int hvd_agent_pool_gather(struct hvd_agent_pool *pool, int np, double seconds, struct hvd_alloc *out,
			  struct hvd_err *err)
{
	int rc = 0;

	pool->want = np;
	wait_for_slots(pool, seconds);
	pool->failed = hvd_agent_pool_slots_waiting(pool) < np;
	if (pool->failed)
		return too_few(pool, seconds, err);
	pool->want = 0;
	snprintf(out->source, sizeof(out->source), "agents that have joined");
	pool->closed = true;
	for (struct hvd_pool_agent *j = TAILQ_FIRST(&pool->all), *next; j; j = next) {
		int slots = j->offer.slots, left = np - out->slots;

		next = TAILQ_NEXT(j, in);
		if (j->taken)
			continue;
		if (left == 0)
			hvd_pool_agent_decline(j);
		else if (rc == 0)
			rc = hvd_alloc_add(out, j->host, slots < left ? slots : left, err);
	}
	return rc;
}

/* ---- hosts ---- */

bool hvd_agent_pool_on_this_machine(const struct hvd_agent_pool *pool)
{
	const struct hvd_pool_agent *j;

	TAILQ_FOREACH(j, &pool->all, in)
	if (strcmp(j->offer.machine, pool->machine) != 0)
		return false;
	return true;
}

void hvd_agent_pool_watch(struct hvd_agent_pool *pool, void (*changed)(void *arg), void *arg)
{
	pool->changed = changed;
	pool->arg = arg;
	if (changed)
		hvd_agent_pool_tell(pool);
}

void hvd_agent_pool_hosts(const struct hvd_agent_pool *pool, struct hvd_alloc *out)
{
	const struct hvd_pool_agent *j;

	for (j = TAILQ_FIRST(&pool->all); j; j = TAILQ_NEXT(j, in))
		hvd_alloc_add(out, j->host, j->offer.slots, NULL);
}

struct hvd_pool_agent *hvd_agent_pool_take(struct hvd_agent_pool *pool, const char *host, struct hvd_err *err)
{
	struct hvd_pool_agent *j;

	TAILQ_FOREACH(j, &pool->all, in)
	if (!j->taken && strcmp(j->host, host) == 0) {
		j->taken = true;
		return j;
	}
	hvd_err_set(err, HVD_E_NOENT, "its agent has left");
	hvd_err_hint(err, "did it end, or the process that started it?");
	hvd_err_host(err, host);
	return NULL;
}
