/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rank_assignment.c - which survivor, or new worker, gets which rank in a next generation.
 *
 * Survivors keep their slots; new workers get the others. machine.h describes the order of ranks.
 */
#include "machine_internal.h"

#include "lib/base/xalloc.h"
#include "lib/host/spare_choice.h"

#include <stdlib.h>

/* Does this worker have the training state? While a generation runs, all of its members do. */
static bool carries(const struct hvd_worker *w)
{
	return w->state == HVD_WORKER_READY || w->state == HVD_WORKER_RUNNING;
}

/* The workers that have the training state, host by host. */
struct carriers {
	struct hvd_worker **v;
	uint32_t *first; /* by host: where its workers begin in v; one more: their number */
};

static struct carriers find_carriers(const struct hvd_machine *m)
{
	struct carriers all = {.v = hvd_xcalloc((size_t)m->n_workers + 1, sizeof(*all.v)),
			       .first = hvd_xcalloc((size_t)m->n_hosts + 2, sizeof(*all.first))};
	uint32_t *next = all.first + 1; /* during the second loop: where the host's next worker goes */

	for (uint32_t i = 0; i < m->n_workers; i++)
		if (carries(m->workers[i]))
			next[m->workers[i]->host + 1]++;
	for (uint32_t k = 0; k < m->n_hosts; k++)
		next[k + 1] += next[k];
	for (uint32_t i = 0; i < m->n_workers; i++)
		if (carries(m->workers[i]))
			all.v[next[m->workers[i]->host]++] = m->workers[i];
	return all;
}

static void clear_carriers(struct carriers *all)
{
	free(all->v);
	free(all->first);
}

static struct hvd_worker *carrier_at(const struct carriers *all, uint32_t host, int slot)
{
	for (uint32_t i = all->first[host]; i < all->first[host + 1]; i++)
		if (all->v[i]->slot == slot)
			return all->v[i];
	return NULL;
}

struct choice {
	uint32_t host;
	uint64_t order;
	int slots; /* so many of them, from the first on */
	bool carries;
};

/* The number of slots up to the last one (`first`: the first one) whose worker has the training state. Local ranks have
 * no gaps, so the slots below it must be filled as well. */
static int slots_to_carriers(const struct hvd_machine *m, const struct carriers *all, uint32_t host, bool first)
{
	int n = 0;

	for (int s = 0; s < m->hosts[host].slots && !(first && n); s++)
		if (carrier_at(all, host, s))
			n = s + 1;
	return n;
}

static int cmp_choice(const void *a, const void *b)
{
	const struct choice *x = a, *y = b;

	if (x->carries != y->carries)
		return x->carries ? -1 : 1;
	return x->order < y->order ? -1 : x->order > y->order;
}

static int least(int a, int b)
{
	return a < b ? a : b;
}

/* Before the first generation: the worst hosts follow the others, and have no ranks. */
static void put_spares_last(const struct hvd_machine *m, struct choice *v, size_t n)
{
	struct hvd_spare_host *hosts = hvd_xcalloc(n + 1, sizeof(*hosts));
	size_t worst;

	for (size_t i = 0; i < n; i++)
		hosts[i] = (struct hvd_spare_host){.ranks = (uint32_t)m->hosts[v[i].host].slots,
						   .mbps = m->hosts[v[i].host].mbps};
	while ((worst = hvd_spare_worst(hosts, n, (uint32_t)m->opts.max_np)) < n) {
		hosts[worst].ranks = 0;
		v[worst].order += m->next_order;
	}
	free(hosts);
	qsort(v, n, sizeof(*v), cmp_choice);
}

/* Hosts to use, in the order of their ranks. When none of the usable hosts has a worker with the training's state, the
 * oldest host that has one stays for one more generation, even if it is no longer listed, and passes the state on. */
static size_t choose_hosts(const struct hvd_machine *m, const struct carriers *all, hvd_time now, struct choice *v)
{
	bool carried = false;
	struct choice extra = {.order = UINT64_MAX};
	size_t n = 0;

	for (uint32_t k = 0; k < m->n_hosts; k++) {
		const struct hvd_managed_host *h = &m->hosts[k];
		struct choice c = {k, h->order, slots_to_carriers(m, all, k, false), false};

		c.carries = c.slots > 0;
		if (m->opts.restart && c.slots < h->ranks)
			c.slots = least(h->ranks, h->slots);
		if (hvd_host_manager_usable(h, now)) {
			v[n++] = c;
			carried |= c.carries;
		} else if (!m->opts.restart && c.carries && h->stage == HVD_STAGE_HERE && !h->lost &&
			   !hvd_host_manager_banned(h, now) && h->order < extra.order) {
			extra = c;
		}
	}
	if (n && !carried && extra.carries) {
		if (m->opts.max_np > 0)
			extra.slots = slots_to_carriers(m, all, extra.host, true); /* the others need the room */
		v[n++] = extra;
	}
	qsort(v, n, sizeof(*v), cmp_choice);
	if (m->generation == 0 && m->opts.spares > 0 && m->opts.max_np > 0)
		put_spares_last(m, v, n);
	return n;
}

/* Assign ranks to the first `n` slots of a host: survivors first, then new workers. */
static void assign_host(const struct hvd_machine *m, const struct carriers *all, struct hvd_rank_assignment *assignment,
			uint32_t host, int n)
{
	int top = slots_to_carriers(m, all, host, false);

	assignment->v = hvd_xrealloc(assignment->v, (size_t)(assignment->n + n) + 1, sizeof(*assignment->v));
	for (int pass = 0; pass < 2; pass++)
		for (int s = 0; s < n; s++) {
			struct hvd_worker *w = carrier_at(all, host, s);

			if ((w != NULL) != (pass == 0))
				continue;
			assignment->v[assignment->n++] =
				(struct hvd_assigned_slot){host, s, w, !w && s < top && top <= n};
			assignment->kept += w != NULL;
		}
}

struct hvd_rank_assignment hvd_rank_assignment_find(const struct hvd_machine *m, hvd_time now)
{
	struct choice *v = hvd_xcalloc(m->n_hosts + 1, sizeof(*v));
	struct carriers all = find_carriers(m);
	size_t n = choose_hosts(m, &all, now, v);
	struct hvd_rank_assignment assignment = {0};
	int room = m->opts.max_np > 0 ? m->opts.max_np : INT32_MAX;

	for (size_t i = 0; i < n; i++) {
		v[i].slots = least(v[i].slots, room);
		room -= v[i].slots;
	}
	for (size_t i = 0; i < n; i++) {
		bool leaves = !hvd_host_manager_usable(&m->hosts[v[i].host], now);
		int more = leaves ? 0 : least(m->hosts[v[i].host].slots - v[i].slots, room);

		room -= more;
		assign_host(m, &all, &assignment, v[i].host, v[i].slots + more);
	}
	free(v);
	clear_carriers(&all);
	return assignment;
}

void hvd_rank_assignment_clear(struct hvd_rank_assignment *assignment)
{
	free(assignment->v);
	*assignment = (struct hvd_rank_assignment){0};
}

void hvd_rank_assignment_keep(struct hvd_rank_assignment *assignment)
{
	int n = 0;

	for (int i = 0; i < assignment->n; i++)
		if (assignment->v[i].survivor || assignment->v[i].gap)
			assignment->v[n++] = assignment->v[i];
	assignment->n = n;
}

bool hvd_rank_assignment_occupied(const struct hvd_rank_assignment *assignment, const struct hvd_machine *m)
{
	for (int k = 0; k < assignment->n; k++) {
		const struct hvd_worker *w = assignment->v[k].survivor ? NULL
								       : hvd_machine_worker_at(m, assignment->v[k].host,
											       assignment->v[k].slot);

		if (w && w->state != HVD_WORKER_GONE)
			return true;
	}
	return false;
}

static bool has_slot(const struct hvd_rank_assignment *assignment, const struct hvd_worker *w)
{
	for (int k = 0; k < assignment->n; k++)
		if (w->fresh ? !assignment->v[k].survivor && assignment->v[k].host == w->host &&
				       assignment->v[k].slot == w->slot
			     : assignment->v[k].survivor == w)
			return true;
	return false;
}

bool hvd_rank_assignment_covers(const struct hvd_rank_assignment *assignment, const struct hvd_worker_group *group)
{
	for (int r = 0; r < group->n; r++) {
		const struct hvd_worker *w = group->v[r];

		if (w->fresh && w->state != HVD_WORKER_STARTING && w->state != HVD_WORKER_ARRIVED)
			return false;
		if (!has_slot(assignment, w))
			return false;
	}
	return true;
}

const struct hvd_worker *hvd_machine_worker_at(const struct hvd_machine *m, uint32_t host, int slot)
{
	const struct hvd_worker *w = NULL;

	for (uint32_t i = 0; i < m->n_workers; i++)
		if (m->workers[i]->host == host && m->workers[i]->slot == slot && (!w || w->state == HVD_WORKER_GONE))
			w = m->workers[i];
	return w;
}
