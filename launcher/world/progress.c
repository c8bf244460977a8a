/* SPDX-License-Identifier: Apache-2.0 */
#include "progress.h"

#include "lib/base/timer.h"
#include "lib/base/xalloc.h"
#include "lib/protocol/wire.h"
#include "lib/protocol/worlds.h"

#include <stdlib.h>
#include <string.h>

#define LOOKS         8   /* in a timeout */
#define LEAST_SECONDS 0.5 /* between two */
/* From the ranks' start until the ranks of all hosts must be watched. */
#define COVER_SECONDS 30.0
/* A timer that is late by so much: this process was stopped. */
#define LATE_SECONDS 2.0
/* Between two looks at ranks that compute without anything else: at most so many timeouts. */
#define MOST_TIMEOUTS 8

struct hvd_progress {
	struct event_base *base;
	unsigned world;
	double timeout, every;
	struct hvd_rv_service *service;
	const struct hvd_host_table *table;
	hvd_stalled_fn *stalled;
	void *arg;
	struct hvd_timer *timer;
	struct hvd_watcher *watchers;
	bool *covered; /* by host */
	struct hvd_progress_state state;
	uint64_t changes;
	hvd_time due;        /* of the timer */
	bool reported, busy; /* the last stall: of ranks that use their processors */
	hvd_time next_busy;  /* the earliest next one */
	unsigned timeouts;   /* until the one after that */
};

static hvd_time ns(double seconds)
{
	return (hvd_time)(seconds * 1e9);
}

/* ---- the decision ---- */

/* Since when this one's ranks are idle, or quiet; `now`: they are not, or that is not known. */
static hvd_time idle_since(const struct hvd_watcher *w, bool busy, double timeout, hvd_time now)
{
	const hvd_time since = busy && w->quiet ? w->quiet : w->since;

	if (since)
		return since;
	return w->answered && w->asked && now - w->heard >= ns(timeout) ? w->heard : now;
}

static hvd_time none_since(const struct hvd_progress_state *state, bool busy, double timeout, hvd_time now)
{
	hvd_time since = state->progress;
	bool any = false;

	if (state->covered < state->hosts && now - state->begun < ns(COVER_SECONDS))
		return now;
	for (size_t i = 0; i < state->n; i++) {
		const struct hvd_watcher *w = &state->watchers[i];
		hvd_time idle = idle_since(w, busy, timeout, now);

		if (w->answered && w->ranks == 0)
			continue;
		any = true;
		if (w->input)
			return now;
		if (idle > since)
			since = idle;
	}
	return any ? since : now;
}

hvd_time hvd_progress_none_since(const struct hvd_progress_state *state, double timeout, hvd_time now)
{
	return none_since(state, false, timeout, now);
}

hvd_time hvd_progress_quiet_since(const struct hvd_progress_state *state, double timeout, hvd_time now)
{
	return none_since(state, true, timeout, now);
}

/* ---- asking ---- */

static void ask(struct hvd_progress *p, struct hvd_watcher *w, hvd_time now)
{
	w->asked = now;
	hvd_conn_send(w->cl->conn, hvd_world_mark(json_pack("{s:s, s:f}", "t", "watch", "every", p->every), p->world));
}

static void tell(struct hvd_progress *p, bool busy, hvd_time since, hvd_time now)
{
	struct hvd_stall stall = {.seconds = (double)(now - since) / 1e9, .busy = busy, .progress = p};
	struct hvd_stalled_host *hosts = hvd_xcalloc(p->table->n + 1, sizeof(*hosts)); /* by number, then packed */

	for (size_t i = 0; i < p->state.n; i++) {
		const struct hvd_watcher *w = &p->watchers[i];
		double idle = (double)(now - idle_since(w, busy, p->timeout, now)) / 1e9;
		struct hvd_stalled_host *host = &hosts[w->host];

		if (w->ranks == 0)
			continue;
		host->idle = host->name && host->idle < idle ? host->idle : idle;
		host->answers = (!host->name || host->answers) && (!w->asked || now - w->asked < ns(p->timeout / 4));
		host->name = p->table->hosts[w->host].name;
	}
	for (uint32_t h = 0; h < p->table->n; h++)
		if (hosts[h].name)
			hosts[stall.n++] = hosts[h];
	stall.hosts = hosts;
	p->reported = true;
	p->busy = busy;
	p->stalled(&stall, p->arg);
	free(hosts);
}

static void wait_on(struct hvd_progress *p)
{
	p->due = hvd_deadline_in(p->every);
	hvd_timer_at(p->timer, p->due);
}

static void look_at_store(struct hvd_progress *p, hvd_time now)
{
	uint64_t changes = hvd_rv_service_changes(p->service);

	if (changes == p->changes)
		return;
	p->changes = changes;
	p->state.progress = now;
	p->reported = false;
	p->timeouts = 1;
}

/* Ranks use their processors: after the timeout without anything else, and not too often. */
static void look_at_busy(struct hvd_progress *p, hvd_time now)
{
	hvd_time since = hvd_progress_quiet_since(&p->state, p->timeout, now);

	if (now < p->next_busy || now - since < ns(p->timeout))
		return;
	p->next_busy = now + ns(p->timeout * p->timeouts);
	p->timeouts = p->timeouts < MOST_TIMEOUTS ? 2 * p->timeouts : MOST_TIMEOUTS;
	tell(p, true, since, now);
}

static void on_timer(void *arg)
{
	struct hvd_progress *p = arg;
	hvd_time now = hvd_now(), since;

	if (now - p->due > ns(LATE_SECONDS))
		hvd_progress_begin(p, 0);
	wait_on(p);
	/* Ask idle agents, too: one of them may have gone on, and then have been frozen. An agent that has never
	 * answered may not have started its rank yet when it was asked. */
	for (size_t i = 0; i < p->state.n; i++) {
		struct hvd_watcher *w = &p->watchers[i];

		if (w->asked ? !w->answered : now - w->heard >= ns(p->timeout / 2))
			ask(p, w, now);
	}
	look_at_store(p, now);
	since = hvd_progress_none_since(&p->state, p->timeout, now);
	if (p->reported)
		return;
	if (now - since >= ns(p->timeout))
		tell(p, false, since, now);
	else
		look_at_busy(p, now);
}

/* ---- what is told ---- */

static struct hvd_watcher *find(const struct hvd_progress *p, const struct hvd_client *cl)
{
	for (size_t i = 0; i < p->state.n; i++)
		if (p->watchers[i].cl == cl)
			return &p->watchers[i];
	return NULL;
}

static void cover(struct hvd_progress *p, uint32_t host)
{
	if (host >= p->state.hosts || p->covered[host])
		return;
	p->covered[host] = true;
	p->state.covered++;
}

void hvd_progress_add(struct hvd_progress *p, struct hvd_client *cl)
{
	struct hvd_watcher *w;
	hvd_time now = hvd_now();

	if (!p || find(p, cl) || cl->host >= p->table->n)
		return;
	p->watchers = hvd_xrealloc(p->watchers, p->state.n + 1, sizeof(*p->watchers));
	w = &p->watchers[p->state.n++];
	p->state.watchers = p->watchers;
	*w = (struct hvd_watcher){.cl = cl, .host = cl->host, .heard = now, .ranks = -1};
	if (p->state.begun)
		ask(p, w, now);
}

void hvd_progress_remove(struct hvd_progress *p, const struct hvd_client *cl)
{
	struct hvd_watcher *w = p ? find(p, cl) : NULL;

	if (w)
		*w = p->watchers[--p->state.n];
}

void hvd_progress_message(struct hvd_progress *p, const struct hvd_client *cl, const json_t *msg)
{
	struct hvd_watcher *w = p ? find(p, cl) : NULL;
	const json_t *idle = json_object_get(msg, "idle");
	double seconds = json_number_value(idle), quiet = json_number_value(json_object_get(msg, "quiet"));
	int64_t ranks;

	if (!w || !json_is_number(idle) || !(seconds >= 0 && seconds < HVD_MOST_SECONDS) ||
	    !(quiet >= 0 && quiet < HVD_MOST_SECONDS) || hvd_get_int(msg, "ranks", 0, INT32_MAX, &ranks, NULL) != 0)
		return;
	w->heard = hvd_now();
	w->asked = 0;
	w->answered = true;
	w->ranks = ranks;
	if (w->input) /* until now, or still */
		p->state.progress = w->heard;
	w->input = json_is_true(json_object_get(msg, "input"));
	w->since = seconds > 0 ? w->heard - ns(seconds) : 0;
	w->quiet = quiet > 0 ? w->heard - ns(quiet) : 0;
	if (!w->since && !(p->busy && w->quiet) && ranks > 0)
		p->reported = false;
	if (!w->since && !w->quiet && ranks > 0)
		p->timeouts = 1;
	cover(p, w->host);
}

/* ---- life ---- */

struct hvd_progress *hvd_progress_create(struct event_base *base, unsigned world, double timeout,
					 struct hvd_rv_service *service, const struct hvd_host_table *table,
					 hvd_stalled_fn *stalled, void *arg)
{
	struct hvd_progress *p = hvd_xcalloc(1, sizeof(*p));

	*p = (struct hvd_progress){.base = base,
				   .world = world,
				   .timeout = timeout,
				   .every = timeout / LOOKS > LEAST_SECONDS ? timeout / LOOKS : LEAST_SECONDS,
				   .service = service,
				   .table = table,
				   .stalled = stalled,
				   .arg = arg,
				   .timeouts = 1};
	p->timer = hvd_timer_new(base, on_timer, p);
	return p;
}

void hvd_progress_begin(struct hvd_progress *p, uint32_t hosts)
{
	hvd_time now = hvd_now();

	if (!p)
		return;
	p->reported = false;
	p->state.progress = now;
	if (p->state.begun)
		return;
	p->state.begun = now;
	p->state.hosts = hosts;
	p->covered = hvd_xcalloc(hosts ? hosts : 1, sizeof(*p->covered));
	for (size_t i = 0; i < p->state.n; i++)
		ask(p, &p->watchers[i], now);
	wait_on(p);
}

bool hvd_progress_again(const struct hvd_progress *p)
{
	return p && !p->reported;
}

void hvd_progress_works(struct hvd_progress *p)
{
	if (p && p->busy)
		p->reported = false;
}

void hvd_progress_stop(struct hvd_progress *p)
{
	if (p)
		hvd_timer_stop(p->timer);
}

void hvd_progress_destroy(struct hvd_progress *p)
{
	if (!p)
		return;
	hvd_timer_free(p->timer);
	free(p->watchers);
	free(p->covered);
	free(p);
}
