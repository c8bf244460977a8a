/* SPDX-License-Identifier: Apache-2.0 */
/* host_manager.c - the hosts of an elastic job, and which of them may be used. */
#include "machine_internal.h"

#include "lib/base/cleanup.h"
#include "lib/base/xalloc.h"
#include "lib/host/spare_choice.h"
#include "lib/host/switch_path.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

/* A host that leaves the job within this time (nanoseconds) after it was banned is not banned any longer: its ranks
 * failed because it was about to go. */
#define LAST_MOMENTS 30000000000LL
/* The pause after the first loss of a host before its agent is started again. It doubles with each loss, up to the
 * second number. */
#define AGAIN_SECONDS      10.0
#define AGAIN_MOST_SECONDS 300.0

static struct hvd_managed_host *find_host(const struct hvd_machine *m, const char *name)
{
	for (uint32_t h = 0; h < m->n_hosts; h++)
		if (strcmp(m->hosts[h].name, name) == 0)
			return &m->hosts[h];
	return NULL;
}

static struct hvd_managed_host *add_host(struct hvd_machine *m, const char *name)
{
	struct hvd_managed_host *h;

	m->hosts = hvd_xrealloc(m->hosts, m->n_hosts + 1, sizeof(*m->hosts));
	h = &m->hosts[m->n_hosts++];
	memset(h, 0, sizeof(*h));
	h->name = hvd_xstrdup(name);
	h->order = m->next_order++;
	return h;
}

void hvd_host_manager_update(struct hvd_machine *m, const struct hvd_alloc *hosts, hvd_time now)
{
	for (int i = 0; i < hosts->n_hosts; i++) {
		struct hvd_managed_host *h = find_host(m, hosts->hosts[i].name);

		if (!h)
			h = add_host(m, hosts->hosts[i].name);
		else if (!h->listed)
			h->order = m->next_order++; /* it is back, and follows those that stayed */
		h->slots = hosts->hosts[i].slots;
		h->slurm_job = hosts->hosts[i].slurm_job;
		h->listed = true;
	}
	for (uint32_t k = 0; k < m->n_hosts; k++) {
		struct hvd_managed_host *h = &m->hosts[k];

		if (!h->listed || hvd_alloc_find(hosts, h->name) >= 0)
			continue;
		h->again_at = 0;
		h->listed = h->lost = false; /* when it is listed again, it counts as repaired */
		if (h->banned_until && now - h->banned_at < LAST_MOMENTS)
			h->banned_until = 0;
	}
}

bool hvd_host_manager_banned(const struct hvd_managed_host *h, hvd_time now)
{
	return h->banned_until > now;
}

static bool has_slots(const struct hvd_managed_host *h)
{
	return h->listed && h->slots > 0;
}

static bool wanted(const struct hvd_managed_host *h, hvd_time now)
{
	return has_slots(h) && !h->lost && !h->unfit && !hvd_host_manager_banned(h, now);
}

bool hvd_host_manager_usable(const struct hvd_managed_host *h, hvd_time now)
{
	return wanted(h, now) && h->stage == HVD_STAGE_HERE;
}

static bool has_workers(const struct hvd_machine *m, uint32_t host)
{
	for (uint32_t i = 0; i < m->n_workers; i++)
		if (m->workers[i]->host == host && m->workers[i]->state != HVD_WORKER_GONE)
			return true;
	return false;
}

void hvd_host_manager_lost(struct hvd_machine *m, struct hvd_managed_host *h, enum hvd_host_end how, hvd_time now)
{
	double pause = AGAIN_SECONDS;

	h->again_at = 0;
	if (m->generation == 0 && !m->short_since)
		m->short_since = now;
	if (how != HVD_HOST_LOST || (m->opts.hosts_stay && m->opts.spares == 0) || !h->lost)
		return;
	for (int i = 0; i < h->losses && pause < AGAIN_MOST_SECONDS; i++)
		pause *= 2;
	h->losses++;
	h->again_at = hvd_after(now, pause < AGAIN_MOST_SECONDS ? pause : AGAIN_MOST_SECONDS);
}

/* Does the job have fewer slots than -np asks for, or fewer spare hosts than --spares? */
static bool is_short(const struct hvd_machine *m, hvd_time now)
{
	int64_t slots = 0;
	int spares = 0;

	for (uint32_t k = 0; k < m->n_hosts; k++)
		if (wanted(&m->hosts[k], now)) {
			spares += slots >= m->opts.np;
			slots += m->hosts[k].slots;
		}
	return (slots < m->opts.np || slots < m->opts.min_np || spares < m->opts.spares) && !m->gen.success;
}

/* Start agents again on hosts that were lost and whose pause is over. */
static void try_again(struct hvd_machine *m, hvd_time now)
{
	for (uint32_t k = 0; k < m->n_hosts; k++) {
		struct hvd_managed_host *h = &m->hosts[k];

		if (!h->lost || !h->again_at || h->unfit || !is_short(m, now))
			continue;
		if (now < h->again_at) {
			hvd_machine_wake(m, h->again_at);
			continue;
		}
		hvd_info(m->log, "%s: trying the host again", h->name);
		h->lost = false;
		h->again_at = 0;
	}
}

void hvd_host_manager_tend(struct hvd_machine *m, hvd_time now)
{
	try_again(m, now);
	for (uint32_t k = 0; k < m->n_hosts; k++) {
		struct hvd_managed_host *h = &m->hosts[k];

		if (h->stage == HVD_STAGE_AWAY && wanted(h, now)) {
			h->stage = HVD_STAGE_COMING;
			m->ops->host_begin(k, m->arg);
		} else if (h->stage != HVD_STAGE_AWAY && (!has_slots(h) || h->unfit) && !has_workers(m, k)) {
			h->stage = HVD_STAGE_AWAY;
			m->ops->host_end(k, m->arg);
		}
	}
}

/* Has the agent of a usable host been started, but not registered? */
static bool is_one_coming(const struct hvd_machine *m, hvd_time now)
{
	for (uint32_t k = 0; k < m->n_hosts; k++)
		if (m->hosts[k].stage == HVD_STAGE_COMING && wanted(&m->hosts[k], now))
			return true;
	return false;
}

int hvd_host_manager_promised(const struct hvd_machine *m, hvd_time now)
{
	int64_t slots = 0;
	bool any = false;

	for (uint32_t k = 0; k < m->n_hosts; k++) {
		const struct hvd_managed_host *h = &m->hosts[k];
		bool coming = h->stage == HVD_STAGE_COMING && !h->tried;

		if (wanted(h, now) && (coming || h->stage == HVD_STAGE_HERE))
			slots += h->slots;
		any |= wanted(h, now) && coming;
	}
	if (!any)
		return 0;
	return slots < INT_MAX ? (int)slots : INT_MAX;
}

bool hvd_host_manager_settled(struct hvd_machine *m, int slots, hvd_time now)
{
	hvd_time end;

	if (!m->gen.enough_since)
		m->gen.enough_since = now;
	end = hvd_after(m->gen.enough_since, m->opts.settle);
	/* The worst of the first hosts are the spares, so all are waited for. */
	if ((slots == m->opts.max_np && (m->opts.spares == 0 || m->generation > 0)) || !is_one_coming(m, now) ||
	    now >= end)
		return true;
	hvd_machine_wake(m, end);
	return false;
}

/* ---- the ranks of hosts that have gone ---- */

static int by_order(const void *a, const void *b)
{
	const struct hvd_managed_host *x = *(struct hvd_managed_host *const *)a;
	const struct hvd_managed_host *y = *(struct hvd_managed_host *const *)b;

	return x->order < y->order ? -1 : x->order > y->order;
}

/* The nearest of the hosts without ranks that have the slots for the place of `gone`; where the topology does not tell,
 * the first. */
static struct hvd_managed_host *replacement(struct hvd_machine *m, const struct hvd_managed_host *gone, hvd_time now)
{
	hvd_cleanup_free struct hvd_managed_host **fit = hvd_xcalloc(m->n_hosts, sizeof(struct hvd_managed_host *));
	hvd_cleanup_free struct hvd_spare_host *v = hvd_xcalloc(m->n_hosts, sizeof(*v));
	size_t n = 0;

	for (uint32_t k = 0; k < m->n_hosts; k++) {
		struct hvd_managed_host *h = &m->hosts[k];

		if (h->ranks == 0 && h->slots >= gone->ranks && hvd_host_manager_usable(h, now))
			fit[n++] = h;
	}
	qsort(fit, n, sizeof(struct hvd_managed_host *), by_order);
	for (size_t i = 0; i < n; i++)
		v[i].switch_path = fit[i]->switch_path;
	return n ? fit[hvd_spare_nearest(v, n, gone->switch_path)] : NULL;
}

static void log_move(const struct hvd_machine *m, const struct hvd_managed_host *gone,
		     const struct hvd_managed_host *next)
{
	const char *from = gone->switch_path, *to = next->switch_path;

	if (hvd_switch_path_same(from, to))
		hvd_info(m->log, "%s takes the place of %s, below the same switch (%s)", next->name, gone->name, to);
	else if (from && to)
		hvd_info(m->log, "%s (below %s) takes the place of %s (below %s); no fit spare host is nearer",
			 next->name, to, gone->name, from);
	else
		hvd_info(m->log, "%s takes the place of %s", next->name, gone->name);
}

void hvd_host_manager_move_ranks(struct hvd_machine *m, hvd_time now)
{
	for (uint32_t k = 0; k < m->n_hosts; k++) {
		struct hvd_managed_host *gone = &m->hosts[k], *next;
		uint64_t order = gone->order;

		if (gone->ranks == 0 || hvd_host_manager_usable(gone, now) || !(next = replacement(m, gone, now)))
			continue;
		log_move(m, gone, next);
		next->ranks = gone->ranks;
		gone->ranks = 0;
		gone->order = next->order;
		next->order = order;
	}
}

void hvd_host_manager_set_ranks(struct hvd_machine *m)
{
	for (uint32_t k = 0; k < m->n_hosts; k++)
		m->hosts[k].ranks = 0;
	for (int r = 0; r < m->now.n; r++)
		m->hosts[m->now.v[r]->host].ranks++;
}

void hvd_host_manager_log_spares(const struct hvd_machine *m, uint32_t first, uint32_t end, hvd_time now)
{
	hvd_cleanup_free struct hvd_spare_host *v = hvd_xcalloc(m->n_hosts, sizeof(*v));
	char slow[128];

	for (uint32_t k = 0; k < m->n_hosts; k++)
		v[k] = (struct hvd_spare_host){.ranks = 1, .mbps = m->hosts[k].mbps};
	for (uint32_t k = first; k < end && m->opts.spares > 0 && m->now.n == m->opts.max_np; k++)
		if (hvd_host_manager_usable(&m->hosts[k], now) && !hvd_machine_has_rank(m, k)) {
			hvd_spare_slowness(v, m->n_hosts, k, slow);
			hvd_info(m->log, "%s is a spare host%s%s", m->hosts[k].name, *slow ? ": " : "", slow);
		}
}

/* ---- bans ---- */

hvd_time hvd_host_manager_due(const struct hvd_machine *m, hvd_time now)
{
	hvd_time due = HVD_FOREVER;

	for (uint32_t k = 0; k < m->n_hosts; k++)
		if (m->hosts[k].listed && hvd_host_manager_banned(&m->hosts[k], now))
			due = hvd_earlier(due, m->hosts[k].banned_until);
	return due;
}

bool hvd_host_manager_hopeless(const struct hvd_machine *m)
{
	bool any = false;

	for (uint32_t k = 0; k < m->n_hosts; k++) {
		const struct hvd_managed_host *h = &m->hosts[k];

		if (h->slots > 0 && h->banned_until != HVD_FOREVER)
			return false;
		any |= h->slots > 0;
	}
	return any;
}

int hvd_host_manager_left(const struct hvd_machine *m)
{
	int64_t slots = 0;

	for (uint32_t k = 0; k < m->n_hosts; k++)
		if (m->hosts[k].listed && !m->hosts[k].lost && !m->hosts[k].unfit)
			slots += m->hosts[k].slots;
	return slots < INT_MAX ? (int)slots : INT_MAX;
}

bool hvd_host_manager_unban(struct hvd_machine *m)
{
	bool any = false;

	for (uint32_t k = 0; k < m->n_hosts; k++) {
		struct hvd_managed_host *h = &m->hosts[k];

		if (!h->listed || h->banned_until != HVD_FOREVER)
			continue;
		h->banned_until = 0;
		hvd_info(m->log, "%s is used again, because the other hosts do not have enough slots", h->name);
		any = true;
	}
	return any;
}

bool hvd_host_manager_none_came(const struct hvd_machine *m)
{
	bool any = false;

	for (uint32_t k = 0; k < m->n_hosts; k++) {
		const struct hvd_managed_host *h = &m->hosts[k];

		if (has_slots(h) && !h->lost && !h->unfit && !(h->losses && h->stage == HVD_STAGE_COMING))
			return false;
		any |= has_slots(h);
	}
	return any;
}
