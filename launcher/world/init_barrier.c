/* SPDX-License-Identifier: Apache-2.0 */
#include "init_barrier.h"

#include "lib/base/hostlist.h"
#include "lib/base/strv.h"
#include "lib/base/xalloc.h"
#include "lib/host/rank_list.h"

#include <stdlib.h>
#include <string.h>

#define NO_MACHINE UINT32_MAX
/* Hosts of which only some ranks have come are named one by one if they are not more. */
#define ONE_BY_ONE 3

/* ---- which address is whose ---- */

static int compare_addr(const void *a, const void *b)
{
	const struct hvd_addr *x = &((const struct hvd_init_barrier_addr *)a)->addr;
	const struct hvd_addr *y = &((const struct hvd_init_barrier_addr *)b)->addr;

	if (x->family != y->family)
		return x->family < y->family ? -1 : 1;
	return memcmp(&x->u, &y->u, x->family == AF_INET ? sizeof(x->u.v4) : sizeof(x->u.v6));
}

struct named {
	const char *machine;
	uint32_t host;
};

static int compare_named(const void *a, const void *b)
{
	const struct named *x = a, *y = b;
	int c = strcmp(x->machine, y->machine);

	return c ? c : (x->host > y->host) - (x->host < y->host);
}

static int compare_machines(const void *a, const void *b)
{
	uint32_t x = *((const struct hvd_init_barrier_machine *)a)->hosts;
	uint32_t y = *((const struct hvd_init_barrier_machine *)b)->hosts;

	return (x > y) - (x < y);
}

static void find_machines(struct hvd_init_barrier *a, const struct hvd_host_table *table)
{
	struct named *named = hvd_xcalloc((size_t)a->layout->n_hosts + 1, sizeof(*named));
	uint32_t n = 0;

	for (int h = 0; h < a->layout->n_hosts; h++)
		if (a->layout->hosts[h].n > 0 && (uint32_t)h < table->n)
			named[n++] = (struct named){table->hosts[h].node.machine, (uint32_t)h};
	qsort(named, n, sizeof(*named), compare_named);
	a->machines = hvd_xcalloc(n + 1, sizeof(*a->machines));
	for (uint32_t i = 0; i < n; i++) {
		uint32_t h = named[i].host;
		struct hvd_init_barrier_machine *m;

		if (i == 0 || strcmp(named[i].machine, named[i - 1].machine) != 0)
			a->n_machines++;
		m = &a->machines[a->n_machines - 1];
		m->hosts = hvd_xrealloc(m->hosts, m->n_hosts + 1, sizeof(*m->hosts));
		m->hosts[m->n_hosts++] = h;
		m->ranks += (uint32_t)a->layout->hosts[h].n;
	}
	free(named);
	qsort(a->machines, a->n_machines, sizeof(*a->machines), compare_machines);
	if (a->n_machines == 1)
		a->server = 0;
}

static void find_addrs(struct hvd_init_barrier *a, const struct hvd_host_table *table)
{
	size_t kept = 0;

	for (uint32_t m = 0; m < a->n_machines; m++) {
		const struct hvd_host_info *node = &table->hosts[a->machines[m].hosts[0]].node;
		const struct hvd_addr *addr;
		uint8_t iface;

		for (size_t i = 0; (addr = hvd_host_table_addr(node, i, &iface)); i++) {
			if ((a->n_addrs & (a->n_addrs - 1)) == 0)
				a->addrs = hvd_xrealloc(a->addrs, a->n_addrs ? 2 * a->n_addrs : 1, sizeof(*a->addrs));
			a->addrs[a->n_addrs++] = (struct hvd_init_barrier_addr){*addr, m};
		}
	}
	if (a->n_addrs)
		qsort(a->addrs, a->n_addrs, sizeof(*a->addrs), compare_addr);
	/* An address that several machines have, as that of a bridge for containers, tells nothing. */
	for (size_t i = 0, next; i < a->n_addrs; i = next) {
		bool shared = false;

		for (next = i + 1; next < a->n_addrs && compare_addr(&a->addrs[i], &a->addrs[next]) == 0; next++)
			shared |= a->addrs[next].machine != a->addrs[i].machine;
		if (!shared)
			a->addrs[kept++] = a->addrs[i];
	}
	a->n_addrs = kept;
}

static uint32_t machine_of(const struct hvd_init_barrier *a, const struct hvd_addr *addr)
{
	struct hvd_init_barrier_addr key = {*addr, 0}, *found;

	if (hvd_addr_loopback(addr))
		return a->server;
	found = a->n_addrs ? bsearch(&key, a->addrs, a->n_addrs, sizeof(key), compare_addr) : NULL;
	return found ? found->machine : NO_MACHINE;
}

void hvd_init_barrier_begin(struct hvd_init_barrier *a, const struct hvd_layout *layout,
			    const struct hvd_host_table *table)
{
	*a = (struct hvd_init_barrier){.layout = layout, .server = NO_MACHINE};
	find_machines(a, table);
	find_addrs(a, table);
}

void hvd_init_barrier_clear(struct hvd_init_barrier *a)
{
	for (uint32_t m = 0; m < a->n_machines; m++)
		free(a->machines[m].hosts);
	free(a->machines);
	free(a->addrs);
	for (uint32_t i = 0; i < a->n; i++)
		free(a->epochs[i].by_machine);
	memset(a, 0, sizeof(*a));
}

/* ---- arrivals ---- */

/* The epoch, a new one if need be; NULL when it is too old. */
static struct hvd_init_round *epoch(struct hvd_init_barrier *a, uint32_t number, hvd_time now)
{
	uint32_t i = a->n;

	if (number < a->floor)
		return NULL;
	while (i > 0 && a->epochs[i - 1].number > number)
		i--;
	if (i > 0 && a->epochs[i - 1].number == number)
		return &a->epochs[i - 1];
	if (a->n == HVD_INIT_BARRIER_EPOCHS) {
		if (i == 0)
			return NULL;
		a->floor = a->epochs[0].number + 1;
		free(a->epochs[0].by_machine);
		memmove(a->epochs, a->epochs + 1, --i * sizeof(*a->epochs));
	} else {
		memmove(a->epochs + i + 1, a->epochs + i, (a->n++ - i) * sizeof(*a->epochs));
	}
	a->epochs[i] = (struct hvd_init_round){.number = number,
					       .first = now,
					       .by_machine = hvd_xcalloc(a->n_machines, sizeof(uint32_t)),
					       .warn_at = now + (hvd_time)(HVD_INIT_BARRIER_PATIENCE * 1e9)};
	return &a->epochs[i];
}

const struct hvd_init_round *hvd_init_barrier_add(struct hvd_init_barrier *a, const struct hvd_rv_init_event *join,
						  hvd_time now)
{
	uint32_t m = a->layout ? machine_of(a, &join->from) : NO_MACHINE;
	struct hvd_init_round *g = m == NO_MACHINE ? NULL : epoch(a, join->epoch, now);

	if (!g || g->by_machine[m] >= a->machines[m].ranks)
		return NULL;
	g->by_machine[m]++;
	g->arrived++;
	g->last = now;
	if (g->arrived < (uint32_t)a->layout->size)
		return NULL;
	g->warn_at = 0;
	return g;
}

/* ---- those that do not come ---- */

static hvd_time overdue_at(const struct hvd_init_round *g, double patience)
{
	if (g->number != 0 || g->warn_at == 0 || patience <= 0)
		return INT64_MAX;
	return g->first + (hvd_time)((patience < HVD_MOST_SECONDS ? patience : HVD_MOST_SECONDS) * 1e9);
}

hvd_time hvd_init_barrier_next(const struct hvd_init_barrier *a, double patience)
{
	hvd_time next = INT64_MAX;

	for (uint32_t i = 0; i < a->n; i++) {
		const struct hvd_init_round *g = &a->epochs[i];

		if (g->warn_at)
			next = hvd_earlier(next, hvd_earlier(g->warn_at, overdue_at(g, patience)));
	}
	return next;
}

const struct hvd_init_round *hvd_init_barrier_late(struct hvd_init_barrier *a, hvd_time now)
{
	for (uint32_t i = 0; i < a->n; i++) {
		struct hvd_init_round *g = &a->epochs[i];

		if (g->warn_at == 0 || g->warn_at > now)
			continue;
		g->warn_at = g->number == 0 ? g->first + 2 * (now - g->first) : INT64_MAX;
		return g;
	}
	return NULL;
}

const struct hvd_init_round *hvd_init_barrier_overdue(const struct hvd_init_barrier *a, hvd_time now, double patience)
{
	for (uint32_t i = 0; i < a->n; i++)
		if (overdue_at(&a->epochs[i], patience) <= now)
			return &a->epochs[i];
	return NULL;
}

/* ---- words ---- */

/* The ranks and hosts of a report. */
struct clause {
	int *ranks;
	size_t n;
	struct hvd_strv hosts;
	uint32_t missing;
};

static void add_machine(struct clause *c, const struct hvd_init_barrier *a, const struct hvd_init_round *g, uint32_t m)
{
	const struct hvd_init_barrier_machine *machine = &a->machines[m];

	c->missing += machine->ranks - g->by_machine[m];
	c->ranks = hvd_xrealloc(c->ranks, c->n + machine->ranks, sizeof(*c->ranks));
	for (uint32_t i = 0; i < machine->n_hosts; i++) {
		const struct hvd_layout_host *host = &a->layout->hosts[machine->hosts[i]];

		memcpy(c->ranks + c->n, host->ranks, (size_t)host->n * sizeof(*c->ranks));
		c->n += (size_t)host->n;
		hvd_strv_add(&c->hosts, host->name);
	}
}

/* Append the clause, if there is one, and empty it. */
static void say(char **text, struct clause *c)
{
	char *ranks, *hosts;

	if (c->missing == 0)
		return;
	ranks = hvd_rank_list(c->ranks, c->n);
	hosts = hvd_hostlist_compress(c->hosts.v, c->hosts.n);
	hvd_xappendf(text, "%s", *text ? ", and " : "");
	if (c->missing < c->n)
		hvd_xappendf(text, "%u of ", (unsigned)c->missing);
	hvd_xappendf(text, "%s on %s", ranks, hosts);
	free(ranks);
	free(hosts);
	free(c->ranks);
	hvd_strv_free(&c->hosts);
	*c = (struct clause){0};
}

char *hvd_init_barrier_missing(const struct hvd_init_barrier *a, const struct hvd_init_round *g)
{
	struct clause none = {0}, some = {0};
	uint32_t n_some = 0;
	char *text = NULL;

	for (uint32_t m = 0; m < a->n_machines; m++)
		n_some += g->by_machine[m] > 0 && g->by_machine[m] < a->machines[m].ranks;
	for (uint32_t m = 0; m < a->n_machines; m++)
		if (g->by_machine[m] == 0)
			add_machine(&none, a, g, m);
	say(&text, &none);
	for (uint32_t m = 0; m < a->n_machines; m++) {
		if (g->by_machine[m] == 0 || g->by_machine[m] >= a->machines[m].ranks)
			continue;
		add_machine(&some, a, g, m);
		if (n_some <= ONE_BY_ONE)
			say(&text, &some);
	}
	say(&text, &some);
	hvd_xappendf(&text, " %s not called init_process_group",
		     (uint32_t)a->layout->size - g->arrived == 1 ? "has" : "have");
	if (g->number > 0)
		hvd_xappendf(&text, " %u times", (unsigned)g->number + 1);
	return text;
}

static bool has_host(const struct hvd_init_barrier_machine *machine, int32_t host)
{
	for (uint32_t i = 0; i < machine->n_hosts; i++)
		if (machine->hosts[i] == (uint32_t)host)
			return true;
	return host < 0;
}

char *hvd_init_barrier_absent(const struct hvd_init_barrier *a, int32_t host, bool *any)
{
	const struct hvd_init_round *first = a->n && a->epochs[0].number == 0 ? &a->epochs[0] : NULL;
	/* Those that are not asked for count as if they had come. */
	struct hvd_init_round seen = {.by_machine = hvd_xcalloc(a->n_machines, sizeof(uint32_t))};
	char *text = NULL;

	*any = a->n > 0 || a->floor > 0;
	for (uint32_t m = 0; m < a->n_machines; m++) {
		seen.by_machine[m] = !has_host(&a->machines[m], host) ? a->machines[m].ranks
				     : first                          ? first->by_machine[m]
								      : 0;
		seen.arrived += seen.by_machine[m];
	}
	if (a->layout && a->floor == 0 && seen.arrived < (uint32_t)a->layout->size)
		text = hvd_init_barrier_missing(a, &seen);
	free(seen.by_machine);
	return text;
}
