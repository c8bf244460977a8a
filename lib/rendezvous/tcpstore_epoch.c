/* SPDX-License-Identifier: Apache-2.0 */
#include "tcpstore_epoch.h"

#include "lib/base/xalloc.h"
#include "tcpstore_wire.h"

#include <stdlib.h>
#include <string.h>

#define KEYS_MAX    (1 << 24) /* of an epoch; PyTorch's server has no limit */
#define COMMON_PIDS 300       /* the kernel's RESERVED_PIDS: process ids begin anew from here */

void hvd_tcpstore_epochs_init(struct hvd_tcpstore_epochs *gs, struct hvd_rv_store *store)
{
	*gs = (struct hvd_tcpstore_epochs){.store = store, .seed = hvd_hash_seed()};
	hvd_hash_table_init(&gs->epochs, 8);
	hvd_hash_table_init(&gs->processes, 64);
}

/* --- epochs --- */

static uint64_t hash_of_number(const struct hvd_tcpstore_epochs *gs, uint32_t number)
{
	return hvd_hash(gs->seed, &number, sizeof(number));
}

static struct hvd_tcpstore_epoch *find(const struct hvd_tcpstore_epochs *gs, uint32_t number)
{
	struct hvd_hash_node *node = hvd_hash_first(&gs->epochs, hash_of_number(gs, number));

	while (node && ((struct hvd_tcpstore_epoch *)node)->number != number)
		node = hvd_hash_next(node);
	return (struct hvd_tcpstore_epoch *)node;
}

const struct hvd_tcpstore_epoch *hvd_tcpstore_epoch(const struct hvd_tcpstore_epochs *gs, uint32_t number)
{
	return find(gs, number);
}

static void forget(struct hvd_tcpstore_epochs *gs, struct hvd_tcpstore_epoch *g)
{
	hvd_hash_table_remove(&gs->epochs, &g->node);
	hvd_rv_store_scope_free(gs->store, g->scope);
	hvd_rv_refund(hvd_rv_store_budget(gs->store), sizeof(*g));
	free(g);
}

/* Forget it if nobody needs it any longer. */
static void tidy(struct hvd_tcpstore_epochs *gs, struct hvd_tcpstore_epoch *g)
{
	if (g && g->conns == 0 && g != gs->newest && g->number != gs->base)
		forget(gs, g);
}

static struct hvd_tcpstore_epoch *need(struct hvd_tcpstore_epochs *gs, uint32_t number)
{
	struct hvd_tcpstore_epoch *g = find(gs, number), *old = gs->newest;
	struct hvd_rv_budget *budget = hvd_rv_store_budget(gs->store);
	struct hvd_rv_scope *scope;

	if (g || !hvd_rv_charge(budget, sizeof(*g)))
		return g;
	scope = hvd_rv_store_scope_new(gs->store, HVD_TCPSTORE_KEY_MAX, KEYS_MAX);
	if (!scope) {
		hvd_rv_refund(budget, sizeof(*g));
		return NULL;
	}
	g = hvd_xcalloc(1, sizeof(*g));
	g->number = number;
	g->scope = scope;
	hvd_hash_table_add(&gs->epochs, &g->node, hash_of_number(gs, number));
	if (!old || number > old->number) {
		gs->newest = g;
		tidy(gs, old);
	}
	return g;
}

/* Have all ranks begun a group in it? */
static bool is_full(const struct hvd_tcpstore_epochs *gs, const struct hvd_tcpstore_epoch *g)
{
	return gs->ranks > 0 && g->begun >= gs->ranks;
}

/* Have all ranks come to it? */
static bool all_came(const struct hvd_tcpstore_epochs *gs, const struct hvd_tcpstore_epoch *g)
{
	return gs->ranks > 0 && g->came >= gs->ranks;
}

static uint32_t later(uint32_t a, uint32_t b)
{
	return a > b ? a : b;
}

/* The epoch for the group of a process that cannot be told from others. */
static uint32_t by_order(const struct hvd_tcpstore_epochs *gs)
{
	const struct hvd_tcpstore_epoch *g;
	uint32_t number = later(gs->floor, gs->base);

	if (gs->ranks == 0)
		return gs->newest ? gs->newest->number : 0;
	while ((g = find(gs, number)) && is_full(gs, g))
		number++;
	return number;
}

/* The base for a process that comes now: a new one when the program that had the present one is over. */
static uint32_t present_base(struct hvd_tcpstore_epochs *gs)
{
	struct hvd_tcpstore_epoch *g = find(gs, gs->base);

	if (g && all_came(gs, g) && g->gone > 0) {
		gs->base = later(gs->floor, gs->newest->number + 1);
		tidy(gs, g);
	}
	return gs->base;
}

/* --- keys --- */

static bool contains(struct hvd_slice key, const char *part)
{
	return key.n > 0 && memmem(key.p, key.n, part, strlen(part)) != NULL;
}

bool hvd_tcpstore_is_group_key(struct hvd_slice key)
{
	static const char dump[] = "/exception_dump"; /* NCCL's, which goes round all prefixes */

	/* The group's own prefix, or, where the program hands in a store, its name, which is always 0. */
	return contains(key, "/default_pg/") || contains(key, "/0//") ||
	       (key.n == sizeof(dump) - 1 && memcmp(key.p, dump, key.n) == 0);
}

/* --- processes --- */

/* Is the process id one that several processes may have? */
static bool is_common(const struct hvd_tcpstore_process *p)
{
	return p->pid < COMMON_PIDS;
}

static uint64_t hash_of_process(const struct hvd_tcpstore_epochs *gs, const struct hvd_addr *addr, uint32_t pid)
{
	size_t len = addr->family == AF_INET ? sizeof(addr->u.v4) : sizeof(addr->u.v6);

	return hvd_hash(hvd_hash(gs->seed, &addr->u, len), &pid, sizeof(pid));
}

static struct hvd_tcpstore_process *find_process(const struct hvd_tcpstore_epochs *gs, const struct hvd_addr *addr,
						 uint32_t pid)
{
	struct hvd_hash_node *node = hvd_hash_first(&gs->processes, hash_of_process(gs, addr, pid));

	for (; node; node = hvd_hash_next(node)) {
		struct hvd_tcpstore_process *p = (struct hvd_tcpstore_process *)node;

		if (p->pid == pid && hvd_addr_equal(&p->addr, addr))
			return p;
	}
	return NULL;
}

static struct hvd_tcpstore_process *need_process(struct hvd_tcpstore_epochs *gs, const struct hvd_addr *addr,
						 uint32_t pid)
{
	struct hvd_tcpstore_process *p = find_process(gs, addr, pid);

	if (p || !hvd_rv_charge(hvd_rv_store_budget(gs->store), sizeof(*p)))
		return p;
	p = hvd_xcalloc(1, sizeof(*p));
	p->addr = *addr;
	p->pid = pid;
	/* Whether a common id is of another program cannot be told. */
	p->base = p->last = is_common(p) ? gs->base : present_base(gs);
	p->next = is_common(p) ? by_order(gs) : p->base;
	hvd_hash_table_add(&gs->processes, &p->node, hash_of_process(gs, addr, pid));
	return p;
}

/* --- connections --- */

/* The epoch of processes that do not send their process id. */
static uint32_t of_strangers(const struct hvd_tcpstore_epochs *gs)
{
	return later(gs->floor, gs->base);
}

int hvd_tcpstore_arrive(struct hvd_tcpstore_epochs *gs, const struct hvd_addr *addr, uint32_t pid,
			struct hvd_tcpstore_place *place)
{
	bool known = pid && find_process(gs, addr, pid);
	struct hvd_tcpstore_process *p = pid ? need_process(gs, addr, pid) : NULL;
	struct hvd_tcpstore_epoch *g;

	if (pid && !p)
		return -1;
	g = need(gs, p ? p->base : of_strangers(gs));
	if (!g)
		return -1;
	g->conns++;
	if (p && p->open++ == 0) {
		if (!all_came(gs, g)) {
			g->came++;
		} else if (p->gone) {
			p->gone = false;
			g->gone -= g->gone > 0;
		}
	}
	*place = (struct hvd_tcpstore_place){.epoch = g, .process = p, .arrived = true};
	place->news = !known || is_common(p);
	return 0;
}

int hvd_tcpstore_visit(struct hvd_tcpstore_epochs *gs, const struct hvd_addr *addr, uint32_t pid,
		       struct hvd_tcpstore_place *place)
{
	struct hvd_tcpstore_process *p = pid ? find_process(gs, addr, pid) : NULL;
	struct hvd_tcpstore_epoch *g = need(gs, p ? p->base : pid ? gs->base : of_strangers(gs));

	if (!g)
		return -1;
	g->conns++;
	*place = (struct hvd_tcpstore_place){.epoch = g, .process = p};
	return 0;
}

/* The epoch of the group that the connection begins or joins. */
static uint32_t group_of(const struct hvd_tcpstore_epochs *gs, const struct hvd_tcpstore_place *place)
{
	const struct hvd_tcpstore_process *p = place->process;

	if (!place->arrived && !p)
		return gs->newest->number;
	if (!place->arrived && p->groups > 0)
		return p->last;
	if (!p || (is_common(p) && p->groups > 0))
		return by_order(gs);
	return later(p->next, gs->floor);
}

int hvd_tcpstore_begin_group(struct hvd_tcpstore_epochs *gs, struct hvd_tcpstore_place *place)
{
	struct hvd_tcpstore_epoch *old = place->epoch, *g = need(gs, group_of(gs, place));
	struct hvd_tcpstore_process *p = place->process;

	place->news = false;
	if (!g)
		return -1;
	place->epoch = g;
	g->conns++;
	old->conns--;
	if (place->arrived) {
		place->begun = true;
		place->news = g != old;
		if (!is_full(gs, g))
			g->begun++;
		if (p) {
			p->groups++;
			p->last = g->number;
			p->next = later(p->next, g->number + 1);
		}
	}
	tidy(gs, old);
	return 0;
}

static void end_group(struct hvd_tcpstore_epochs *gs, const struct hvd_tcpstore_place *place)
{
	struct hvd_tcpstore_epoch *g = place->epoch;

	if (!is_full(gs, g))
		g->begun--;
	else
		gs->floor = later(gs->floor, g->number + 1);
	if (place->process)
		place->process->groups--;
}

/* The process has no connection any longer that has arrived. */
static void go(struct hvd_tcpstore_epochs *gs, struct hvd_tcpstore_process *p)
{
	struct hvd_tcpstore_epoch *base = find(gs, p->base);

	if (!base)
		return;
	if (!all_came(gs, base)) {
		base->came -= base->came > 0; /* it may have been forgotten meanwhile */
	} else if (!p->gone) {
		p->gone = true;
		base->gone++;
	}
}

void hvd_tcpstore_leave(struct hvd_tcpstore_epochs *gs, struct hvd_tcpstore_place *place)
{
	struct hvd_tcpstore_epoch *g = place->epoch;
	struct hvd_tcpstore_process *p = place->process;

	if (!g)
		return;
	if (place->begun)
		end_group(gs, place);
	if (place->arrived && p && --p->open == 0)
		go(gs, p);
	g->conns--;
	tidy(gs, g);
	*place = (struct hvd_tcpstore_place){0};
}

void hvd_tcpstore_epochs_clear(struct hvd_tcpstore_epochs *gs)
{
	struct hvd_hash_node *chain;

	for (size_t i = 0; i < gs->epochs.room; i++)
		for (struct hvd_hash_node *node = gs->epochs.slots[i]; node; node = chain) {
			chain = node->chain;
			forget(gs, (struct hvd_tcpstore_epoch *)node);
		}
	for (size_t i = 0; i < gs->processes.room; i++)
		for (struct hvd_hash_node *node = gs->processes.slots[i]; node; node = chain) {
			chain = node->chain;
			hvd_hash_table_remove(&gs->processes, node);
			hvd_rv_refund(hvd_rv_store_budget(gs->store), sizeof(struct hvd_tcpstore_process));
			free(node);
		}
	gs->newest = NULL;
	gs->base = gs->floor = 0;
}

void hvd_tcpstore_epochs_free(struct hvd_tcpstore_epochs *gs)
{
	hvd_tcpstore_epochs_clear(gs);
	hvd_hash_table_free(&gs->epochs);
	hvd_hash_table_free(&gs->processes);
}
