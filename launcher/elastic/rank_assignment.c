/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rank_assignment.c - who gets which rank in a next generation.
 *
 * Those that are there keep their places before anybody new gets one. Ranks go host by host; see machine.h for their
 * order.
 */
#include "machine_internal.h"

#include "lib/base/xalloc.h"

#include <stdlib.h>

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
	int seats; /* so many of its slots, from the first on */
	bool carries;
};

/* Slots up to the last one (`first`: the first one) that is held by somebody with the state of the training. Local
 * ranks have no gaps, so that those below it are to be filled as well. */
static int slots_to_carriers(const struct hvd_machine *m, uint32_t host, bool first)
{
	int n = 0;

	for (int s = 0; s < m->hosts[host].slots && !(first && n); s++)
		if (carrier_at(m, host, s))
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

/* Hosts to use, in the order of their ranks. When none of them has a worker with the training's state, the oldest
 * that has one stays for one more generation and hands it over, be it listed or not. */
static size_t choose_hosts(const struct hvd_machine *m, hvd_time now, struct choice *v)
{
	bool carried = false;
	struct choice extra = {.order = UINT64_MAX};
	size_t n = 0;

	for (uint32_t k = 0; k < m->n_hosts; k++) {
		const struct hvd_crowd_host *h = &m->hosts[k];
		struct choice c = {k, h->order, slots_to_carriers(m, k, false), false};

		c.carries = c.seats > 0;
		if (hvd_crowd_usable(h, now)) {
			v[n++] = c;
			carried |= c.carries;
		} else if (c.carries && h->stage == HVD_HOST_HERE && !h->lost && !hvd_crowd_banned(h, now) &&
			   h->order < extra.order) {
			extra = c;
		}
	}
	if (n && !carried && extra.carries) {
		if (m->opts.max_np > 0)
			extra.seats = slots_to_carriers(m, extra.host, true); /* the others need the room */
		v[n++] = extra;
	}
	qsort(v, n, sizeof(*v), cmp_choice);
	return n;
}

static int least(int a, int b)
{
	return a < b ? a : b;
}

/* The first `n` slots of a host: survivors first, then those to be started. */
static void seat_host(const struct hvd_machine *m, struct hvd_seats *seats, uint32_t host, int n)
{
	int top = slots_to_carriers(m, host, false);

	seats->v = hvd_xrealloc(seats->v, (size_t)(seats->n + n) + 1, sizeof(*seats->v));
	for (int pass = 0; pass < 2; pass++)
		for (int s = 0; s < n; s++) {
			struct hvd_worker *w = carrier_at(m, host, s);

			if ((w != NULL) != (pass == 0))
				continue;
			seats->v[seats->n++] = (struct hvd_seat){host, s, w, !w && s < top && top <= n};
			seats->kept += w != NULL;
		}
}

struct hvd_seats hvd_seats_find(const struct hvd_machine *m, hvd_time now)
{
	struct choice *v = hvd_xcalloc(m->n_hosts + 1, sizeof(*v));
	size_t n = choose_hosts(m, now, v);
	struct hvd_seats seats = {0};
	int room = m->opts.max_np > 0 ? m->opts.max_np : INT32_MAX;

	for (size_t i = 0; i < n; i++) {
		v[i].seats = least(v[i].seats, room);
		room -= v[i].seats;
	}
	for (size_t i = 0; i < n; i++) {
		bool leaves = !hvd_crowd_usable(&m->hosts[v[i].host], now);
		int more = leaves ? 0 : least(m->hosts[v[i].host].slots - v[i].seats, room);

		room -= more;
		seat_host(m, &seats, v[i].host, v[i].seats + more);
	}
	free(v);
	return seats;
}

void hvd_seats_clear(struct hvd_seats *seats)
{
	free(seats->v);
	*seats = (struct hvd_seats){0};
}

void hvd_seats_keep(struct hvd_seats *seats)
{
	int n = 0;

	for (int i = 0; i < seats->n; i++)
		if (seats->v[i].survivor || seats->v[i].gap)
			seats->v[n++] = seats->v[i];
	seats->n = n;
}

bool hvd_seats_taken(const struct hvd_seats *seats, const struct hvd_machine *m)
{
	for (int k = 0; k < seats->n; k++) {
		const struct hvd_worker *w =
			seats->v[k].survivor ? NULL : hvd_machine_at(m, seats->v[k].host, seats->v[k].slot);

		if (w && w->state != HVD_WORKER_GONE)
			return true;
	}
	return false;
}

static bool has_place(const struct hvd_seats *seats, const struct hvd_worker *w)
{
	for (int k = 0; k < seats->n; k++)
		if (w->fresh ? !seats->v[k].survivor && seats->v[k].host == w->host && seats->v[k].slot == w->slot
			     : seats->v[k].survivor == w)
			return true;
	return false;
}

bool hvd_seats_hold(const struct hvd_seats *seats, const struct hvd_cast *cast)
{
	for (int r = 0; r < cast->n; r++) {
		const struct hvd_worker *w = cast->v[r];

		if (w->fresh && w->state != HVD_WORKER_STARTING && w->state != HVD_WORKER_ARRIVED)
			return false;
		if (!has_place(seats, w))
			return false;
	}
	return true;
}

const struct hvd_worker *hvd_machine_at(const struct hvd_machine *m, uint32_t host, int slot)
{
	const struct hvd_worker *w = NULL;

	for (uint32_t i = 0; i < m->n_workers; i++)
		if (m->workers[i]->host == host && m->workers[i]->slot == slot && (!w || w->state == HVD_WORKER_GONE))
			w = m->workers[i];
	return w;
}
