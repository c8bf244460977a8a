/* SPDX-License-Identifier: Apache-2.0 */
#include "tcpstore_generation.h"

#include "lib/base/xalloc.h"
#include "tcpstore_wire.h"

#include <stdlib.h>

#define KEYS_MAX    (1 << 24) /* of a generation; PyTorch's server has no limit */
#define COMMON_PIDS 300       /* the kernel's RESERVED_PIDS: process ids begin anew from here */

void hvd_tcpstore_generations_init(struct hvd_tcpstore_generations *gs, struct hvd_rv_store *store)
{
	*gs = (struct hvd_tcpstore_generations){.store = store, .seed = hvd_hash_seed()};
	hvd_hash_table_init(&gs->generations, 8);
	hvd_hash_table_init(&gs->processes, 64);
}

/* --- generations --- */

static uint64_t hash_of_number(const struct hvd_tcpstore_generations *gs, uint32_t number)
{
	return hvd_hash(gs->seed, &number, sizeof(number));
}

static struct hvd_tcpstore_generation *find(const struct hvd_tcpstore_generations *gs, uint32_t number)
{
	struct hvd_hash_node *node = hvd_hash_first(&gs->generations, hash_of_number(gs, number));

	while (node && ((struct hvd_tcpstore_generation *)node)->number != number)
		node = hvd_hash_next(node);
	return (struct hvd_tcpstore_generation *)node;
}

const struct hvd_tcpstore_generation *hvd_tcpstore_generation(const struct hvd_tcpstore_generations *gs,
							      uint32_t number)
{
	return find(gs, number);
}

static void forget(struct hvd_tcpstore_generations *gs, struct hvd_tcpstore_generation *g)
{
	hvd_hash_table_remove(&gs->generations, &g->node);
	hvd_rv_store_scope_free(gs->store, g->scope);
	hvd_rv_refund(hvd_rv_store_budget(gs->store), sizeof(*g));
	free(g);
}

static struct hvd_tcpstore_generation *need(struct hvd_tcpstore_generations *gs, uint32_t number)
{
	struct hvd_tcpstore_generation *g = find(gs, number), *old = gs->newest;
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
	hvd_hash_table_add(&gs->generations, &g->node, hash_of_number(gs, number));
	if (!old || number > old->number) {
		gs->newest = g;
		if (old && old->conns == 0)
			forget(gs, old);
	}
	return g;
}

static bool is_full(const struct hvd_tcpstore_generations *gs, const struct hvd_tcpstore_generation *g)
{
	return gs->ranks > 0 && g->arrived >= gs->ranks;
}

/* The generation for a process that cannot be told from others. */
static uint32_t by_order(const struct hvd_tcpstore_generations *gs)
{
	const struct hvd_tcpstore_generation *g;
	uint32_t number = gs->floor;

	if (gs->ranks == 0)
		return gs->newest ? gs->newest->number : 0;
	while ((g = find(gs, number)) && is_full(gs, g))
		number++;
	return number;
}

/* --- processes --- */

static uint64_t hash_of_process(const struct hvd_tcpstore_generations *gs, const struct hvd_addr *addr, uint32_t pid)
{
	size_t len = addr->family == AF_INET ? sizeof(addr->u.v4) : sizeof(addr->u.v6);

	return hvd_hash(hvd_hash(gs->seed, &addr->u, len), &pid, sizeof(pid));
}

static struct hvd_tcpstore_process *find_process(const struct hvd_tcpstore_generations *gs, const struct hvd_addr *addr,
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

static struct hvd_tcpstore_process *need_process(struct hvd_tcpstore_generations *gs, const struct hvd_addr *addr,
						 uint32_t pid)
{
	struct hvd_tcpstore_process *p = find_process(gs, addr, pid);

	if (p || !hvd_rv_charge(hvd_rv_store_budget(gs->store), sizeof(*p)))
		return p;
	p = hvd_xcalloc(1, sizeof(*p));
	p->addr = *addr;
	p->pid = pid;
	hvd_hash_table_add(&gs->processes, &p->node, hash_of_process(gs, addr, pid));
	return p;
}

/* --- connections --- */

int hvd_tcpstore_arrive(struct hvd_tcpstore_generations *gs, const struct hvd_addr *addr, uint32_t pid,
			struct hvd_tcpstore_place *place)
{
	struct hvd_tcpstore_process *p = pid ? need_process(gs, addr, pid) : NULL;
	struct hvd_tcpstore_generation *g;
	uint32_t number;

	if (pid && !p)
		return -1;
	if (!p || (pid < COMMON_PIDS && p->open > 0))
		number = by_order(gs);
	else
		number = p->came > gs->floor ? p->came : gs->floor;
	g = need(gs, number);
	if (!g)
		return -1;
	g->conns++;
	if (!is_full(gs, g))
		g->arrived++;
	if (p) {
		p->open++;
		p->last = number;
		if (p->came <= number)
			p->came = number + 1;
	}
	*place = (struct hvd_tcpstore_place){g, p, true};
	return 0;
}

int hvd_tcpstore_visit(struct hvd_tcpstore_generations *gs, const struct hvd_addr *addr, uint32_t pid,
		       struct hvd_tcpstore_place *place)
{
	struct hvd_tcpstore_process *p = pid ? find_process(gs, addr, pid) : NULL;
	uint32_t number = p ? p->last : gs->newest ? gs->newest->number : 0;
	struct hvd_tcpstore_generation *g = need(gs, number);

	if (!g)
		return -1;
	g->conns++;
	*place = (struct hvd_tcpstore_place){g, p, false};
	return 0;
}

void hvd_tcpstore_leave(struct hvd_tcpstore_generations *gs, struct hvd_tcpstore_place *place)
{
	struct hvd_tcpstore_generation *g = place->generation;

	if (!g)
		return;
	if (place->arrived) {
		if (!is_full(gs, g))
			g->arrived--;
		else if (gs->floor <= g->number)
			gs->floor = g->number + 1;
		if (place->process)
			place->process->open--;
	}
	if (--g->conns == 0 && g != gs->newest)
		forget(gs, g);
	*place = (struct hvd_tcpstore_place){0};
}

void hvd_tcpstore_generations_clear(struct hvd_tcpstore_generations *gs)
{
	struct hvd_hash_node *chain;

	for (size_t i = 0; i < gs->generations.room; i++)
		for (struct hvd_hash_node *node = gs->generations.slots[i]; node; node = chain) {
			chain = node->chain;
			forget(gs, (struct hvd_tcpstore_generation *)node);
		}
	for (size_t i = 0; i < gs->processes.room; i++)
		for (struct hvd_hash_node *node = gs->processes.slots[i]; node; node = chain) {
			chain = node->chain;
			hvd_hash_table_remove(&gs->processes, node);
			hvd_rv_refund(hvd_rv_store_budget(gs->store), sizeof(struct hvd_tcpstore_process));
			free(node);
		}
	gs->newest = NULL;
	gs->floor = 0;
}

void hvd_tcpstore_generations_free(struct hvd_tcpstore_generations *gs)
{
	hvd_tcpstore_generations_clear(gs);
	hvd_hash_table_free(&gs->generations);
	hvd_hash_table_free(&gs->processes);
}
