/* SPDX-License-Identifier: Apache-2.0 */
/* crowd.c - the hosts of an elastic job: which may be used, which are banned, who gets a place. */
#include "machine_internal.h"

#include "slurm.h"
#include "strv.h"
#include "xalloc.h"

#include <stdlib.h>
#include <string.h>

/* A host that the job cannot do without is not banned for its first failures. */
#define SPARE_TIMES 3
/* Failures on a host that is gone within this time, in nanoseconds, are not held against it when it comes again. */
#define LAST_MOMENTS 30000000000LL

static struct hvd_crowd_host *find_host(const struct hvd_machine *m, const char *name)
{
	for (uint32_t h = 0; h < m->n_hosts; h++)
		if (strcmp(m->hosts[h].name, name) == 0)
			return &m->hosts[h];
	return NULL;
}

static struct hvd_crowd_host *add_host(struct hvd_machine *m, const char *name)
{
	struct hvd_crowd_host *h;

	m->hosts = hvd_xrealloc(m->hosts, m->n_hosts + 1, sizeof(*m->hosts));
	h = &m->hosts[m->n_hosts++];
	memset(h, 0, sizeof(*h));
	h->name = hvd_xstrdup(name);
	h->order = m->next_order++;
	return h;
}

void hvd_crowd_update(struct hvd_machine *m, const struct hvd_alloc *hosts, hvd_time now)
{
	for (int i = 0; i < hosts->n_hosts; i++) {
		struct hvd_crowd_host *h = find_host(m, hosts->hosts[i].name);

		if (!h)
			h = add_host(m, hosts->hosts[i].name);
		else if (!h->listed)
			h->order = m->next_order++; /* it comes anew, behind those that stayed */
		h->slots = hosts->hosts[i].slots;
		h->listed = true;
	}
	for (uint32_t k = 0; k < m->n_hosts; k++) {
		struct hvd_crowd_host *h = &m->hosts[k];

		if (!h->listed || hvd_alloc_find(hosts, h->name) >= 0)
			continue;
		h->listed = h->lost = false; /* when it comes again it is mended */
		/* Its ranks failed because it was about to go. */
		if (h->banned_until && now - h->banned_at < LAST_MOMENTS)
			h->banned_until = 0;
	}
}

static bool banned(const struct hvd_crowd_host *h, hvd_time now)
{
	return h->banned_until > now;
}

static bool wanted(const struct hvd_crowd_host *h, hvd_time now)
{
	return h->listed && !h->lost && !h->unfit && !banned(h, now);
}

bool hvd_crowd_usable(const struct hvd_machine *m, const struct hvd_crowd_host *h, hvd_time now)
{
	(void)m;
	return wanted(h, now) && h->stage == HVD_HOST_HERE;
}

static bool has_workers(const struct hvd_machine *m, uint32_t host)
{
	for (uint32_t i = 0; i < m->n_workers; i++)
		if (m->workers[i]->host == host && m->workers[i]->state != HVD_WORKER_GONE)
			return true;
	return false;
}

void hvd_crowd_tend(struct hvd_machine *m, hvd_time now)
{
	for (uint32_t k = 0; k < m->n_hosts; k++) {
		struct hvd_crowd_host *h = &m->hosts[k];

		if (h->stage == HVD_HOST_AWAY && wanted(h, now)) {
			h->stage = HVD_HOST_COMING;
			m->ops->host_begin(k, m->arg);
		} else if (h->stage != HVD_HOST_AWAY && (!h->listed || h->unfit) && !has_workers(m, k)) {
			h->stage = HVD_HOST_AWAY;
			m->ops->host_end(k, m->arg);
		}
	}
}

bool hvd_crowd_coming(const struct hvd_machine *m, hvd_time now)
{
	for (uint32_t k = 0; k < m->n_hosts; k++)
		if (m->hosts[k].stage == HVD_HOST_COMING && wanted(&m->hosts[k], now))
			return true;
	return false;
}

/* ---- places ---- */

/* Would this worker, if it lives on, bring the state of the training along? In a generation that runs: all do. */
static bool carries(const struct hvd_worker *w)
{
	return w->state == HVD_WORKER_READY || w->state == HVD_WORKER_RUNNING;
}

static struct hvd_worker *carrier_at(const struct hvd_machine *m, uint32_t host, int slot)
{
	for (uint32_t i = 0; i < m->n_workers; i++)
		if (m->workers[i]->host == host && m->workers[i]->slot == slot && carries(m->workers[i]))
			return m->workers[i];
	return NULL;
}

struct choice {
	uint32_t host;
	uint64_t order;
	bool carrier;
};

static bool host_carries(const struct hvd_machine *m, uint32_t host, int slots)
{
	for (int s = 0; s < slots; s++)
		if (carrier_at(m, host, s))
			return true;
	return false;
}

static int cmp_choice(const void *a, const void *b)
{
	const struct choice *x = a, *y = b;

	if (x->carrier != y->carrier)
		return x->carrier ? -1 : 1;
	return x->order < y->order ? -1 : x->order > y->order;
}

/* Hosts to use, in the order of their ranks. When none of them has a worker with the training's state, the oldest
 * that has one stays for one more generation and hands it over, be it listed or not. */
static size_t choose_hosts(const struct hvd_machine *m, hvd_time now, struct choice *v)
{
	bool any = false, carried = false;
	struct choice extra = {.order = UINT64_MAX};
	size_t n = 0;

	for (uint32_t k = 0; k < m->n_hosts; k++) {
		const struct hvd_crowd_host *h = &m->hosts[k];
		bool carrier = host_carries(m, k, h->slots);

		any |= carrier;
		if (hvd_crowd_usable(m, h, now)) {
			v[n++] = (struct choice){k, h->order, carrier};
			carried |= carrier;
		} else if (carrier && h->stage == HVD_HOST_HERE && !h->lost && !banned(h, now) &&
			   h->order < extra.order) {
			extra = (struct choice){k, h->order, true};
		}
	}
	if (n && any && !carried && extra.carrier)
		v[n++] = extra;
	qsort(v, n, sizeof(*v), cmp_choice);
	return n;
}

struct hvd_seat_plan *hvd_crowd_places(const struct hvd_machine *m, hvd_time now, int *n)
{
	struct choice *v = hvd_xcalloc(m->n_hosts, sizeof(*v));
	size_t n_v = choose_hosts(m, now, v);
	struct hvd_seat_plan *places = NULL;
	int room = m->opts.max_np > 0 ? m->opts.max_np : INT32_MAX;

	*n = 0;
	for (size_t i = 0; i < n_v; i++) {
		int slots = m->hosts[v[i].host].slots < room - *n ? m->hosts[v[i].host].slots : room - *n;

		/* Survivors of the host first, then those to be started. */
		for (int pass = 0; pass < 2; pass++)
			for (int s = 0; s < slots; s++) {
				struct hvd_worker *w = carrier_at(m, v[i].host, s);

				if ((w != NULL) != (pass == 0))
					continue;
				places = hvd_xrealloc(places, (size_t)*n + 1, sizeof(*places));
				places[(*n)++] = (struct hvd_seat_plan){v[i].host, s, w};
			}
	}
	free(v);
	return places;
}

/* ---- bans ---- */

static bool enough_without(struct hvd_machine *m, struct hvd_crowd_host *h, hvd_time now)
{
	hvd_time was = h->banned_until;
	struct hvd_seat_plan *places;
	bool carried = m->generation == 0;
	int n;

	h->banned_until = HVD_FOREVER;
	places = hvd_crowd_places(m, now, &n);
	for (int i = 0; i < n; i++)
		carried |= places[i].survivor != NULL;
	free(places);
	h->banned_until = was;
	return carried && n >= m->opts.min_np;
}

static void ban(struct hvd_machine *m, struct hvd_crowd_host *h, hvd_time now)
{
	double seconds = m->opts.cooldown_min;

	h->bans++;
	h->banned_at = now;
	if (seconds <= 0) {
		h->banned_until = HVD_FOREVER;
		hvd_warn(m->log, "%s: a rank failed there; the host is not used any longer", h->name);
		return;
	}
	for (int i = 1; i < h->bans && seconds < m->opts.cooldown_max; i++)
		seconds *= 2;
	if (seconds > m->opts.cooldown_max)
		seconds = m->opts.cooldown_max;
	h->banned_until = now + (hvd_time)(seconds * 1e9);
	hvd_warn(m->log, "%s: a rank failed there; the host is not used for %g s", h->name, seconds);
}

void hvd_crowd_judge(struct hvd_machine *m, hvd_time now)
{
	for (uint32_t k = 0; k < m->n_hosts; k++) {
		struct hvd_crowd_host *h = &m->hosts[k];

		if (!h->to_judge)
			continue;
		h->to_judge = false;
		if (!h->listed || h->lost || banned(h, now))
			continue;
		if (h->spared < SPARE_TIMES && !enough_without(m, h, now)) {
			h->spared++;
			hvd_warn(m->log,
				 "%s: a rank failed there; the host is used further, for there are not enough others",
				 h->name);
		} else {
			ban(m, h, now);
		}
	}
}

hvd_time hvd_crowd_due(const struct hvd_machine *m, hvd_time now)
{
	hvd_time due = HVD_FOREVER;

	for (uint32_t k = 0; k < m->n_hosts; k++)
		if (m->hosts[k].listed && banned(&m->hosts[k], now))
			due = hvd_earlier(due, m->hosts[k].banned_until);
	return due;
}

bool hvd_crowd_hopeless(const struct hvd_machine *m)
{
	for (uint32_t k = 0; k < m->n_hosts; k++)
		if (m->hosts[k].banned_until != HVD_FOREVER)
			return false;
	return m->n_hosts > 0;
}

bool hvd_crowd_none_came(const struct hvd_machine *m)
{
	bool any = false;

	for (uint32_t k = 0; k < m->n_hosts; k++)
		if (m->hosts[k].listed && !m->hosts[k].lost && !m->hosts[k].unfit)
			return false;
		else
			any |= m->hosts[k].listed;
	return any;
}

/* ---- messages ---- */

static bool in_places(const struct hvd_seat_plan *v, int n, uint32_t host)
{
	for (int i = 0; i < n; i++)
		if (v[i].host == host)
			return true;
	return false;
}

static bool in_members(const struct hvd_machine *m, uint32_t host)
{
	for (int r = 0; r < m->size; r++)
		if (m->members[r]->host == host)
			return true;
	return false;
}

char *hvd_crowd_change(const struct hvd_machine *m, const struct hvd_seat_plan *next, int n)
{
	struct hvd_strv names[2] = {{0}, {0}};
	char *lists[2], *text;

	for (uint32_t k = 0; k < m->n_hosts; k++) {
		bool was = in_members(m, k), is = in_places(next, n, k);

		if (was != is)
			hvd_strv_add(&names[is ? 0 : 1], m->hosts[k].name);
	}
	for (int i = 0; i < 2; i++)
		lists[i] = names[i].n ? hvd_hostlist_compress(names[i].v, names[i].n) : NULL;
	text = hvd_xasprintf("%s%s%s%s%s", lists[0] ? lists[0] : "", lists[0] ? " added" : "",
			     lists[0] && lists[1] ? ", " : "", lists[1] ? lists[1] : "", lists[1] ? " removed" : "");
	for (int i = 0; i < 2; i++) {
		free(lists[i]);
		hvd_strv_free(&names[i]);
	}
	return text;
}

void hvd_crowd_clear(struct hvd_machine *m)
{
	for (uint32_t k = 0; k < m->n_hosts; k++)
		free(m->hosts[k].name);
	free(m->hosts);
}
