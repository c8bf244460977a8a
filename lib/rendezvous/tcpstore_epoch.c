/* SPDX-License-Identifier: Apache-2.0 */
#include "tcpstore_epoch.h"

#include "lib/base/xalloc.h"
#include "tcpstore_wire.h"

#include <stdlib.h>
#include <string.h>

#define KEYS_MAX    (1 << 24) /* of an epoch; PyTorch's server has no limit */
#define COMMON_PIDS 300       /* the kernel's RESERVED_PIDS: process ids begin anew from here */

void hvd_tcpstore_epochs_init(struct hvd_tcpstore_epochs *epochs, struct hvd_rv_store *store)
{
	*epochs = (struct hvd_tcpstore_epochs){.store = store, .seed = hvd_hash_seed()};
	hvd_hash_table_init(&epochs->by_number, 8);
	hvd_hash_table_init(&epochs->processes, 64);
}

/* --- epochs --- */

static uint64_t hash_of_number(const struct hvd_tcpstore_epochs *epochs, uint32_t number)
{
	return hvd_hash(epochs->seed, &number, sizeof(number));
}

static struct hvd_tcpstore_epoch *find(const struct hvd_tcpstore_epochs *epochs, uint32_t number)
{
	struct hvd_hash_node *node = hvd_hash_first(&epochs->by_number, hash_of_number(epochs, number));

	while (node && ((struct hvd_tcpstore_epoch *)node)->number != number)
		node = hvd_hash_next(node);
	return (struct hvd_tcpstore_epoch *)node;
}

const struct hvd_tcpstore_epoch *hvd_tcpstore_epoch(const struct hvd_tcpstore_epochs *epochs, uint32_t number)
{
	return find(epochs, number);
}

static void forget(struct hvd_tcpstore_epochs *epochs, struct hvd_tcpstore_epoch *epoch)
{
	hvd_hash_table_remove(&epochs->by_number, &epoch->node);
	hvd_rv_store_scope_free(epochs->store, epoch->scope);
	hvd_rv_refund(hvd_rv_store_budget(epochs->store), sizeof(*epoch));
	free(epoch);
}

/* Forget it if nobody needs it any longer. */
static void tidy(struct hvd_tcpstore_epochs *epochs, struct hvd_tcpstore_epoch *epoch)
{
	if (epoch && epoch->conns == 0 && epoch != epochs->newest && epoch->number != epochs->base)
		forget(epochs, epoch);
}

static struct hvd_tcpstore_epoch *need(struct hvd_tcpstore_epochs *epochs, uint32_t number)
{
	struct hvd_tcpstore_epoch *epoch = find(epochs, number), *old = epochs->newest;
	struct hvd_rv_budget *budget = hvd_rv_store_budget(epochs->store);
	struct hvd_rv_scope *scope;

	if (epoch || !hvd_rv_charge(budget, sizeof(*epoch)))
		return epoch;
	scope = hvd_rv_store_scope_new(epochs->store, HVD_TCPSTORE_KEY_MAX, KEYS_MAX);
	if (!scope) {
		hvd_rv_refund(budget, sizeof(*epoch));
		return NULL;
	}
	epoch = hvd_xcalloc(1, sizeof(*epoch));
	epoch->number = number;
	epoch->scope = scope;
	hvd_hash_table_add(&epochs->by_number, &epoch->node, hash_of_number(epochs, number));
	if (!old || number > old->number) {
		epochs->newest = epoch;
		tidy(epochs, old);
	}
	return epoch;
}

/* Have all ranks begun a group in it? */
static bool is_full(const struct hvd_tcpstore_epochs *epochs, const struct hvd_tcpstore_epoch *epoch)
{
	return epochs->ranks > 0 && epoch->begun >= epochs->ranks;
}

/* Have all ranks come to it? */
static bool all_arrived(const struct hvd_tcpstore_epochs *epochs, const struct hvd_tcpstore_epoch *epoch)
{
	return epochs->ranks > 0 && epoch->arrived >= epochs->ranks;
}

static uint32_t later(uint32_t a, uint32_t b)
{
	return a > b ? a : b;
}

/* The epoch for the group of a process that cannot be told from others. */
static uint32_t by_order(const struct hvd_tcpstore_epochs *epochs)
{
	const struct hvd_tcpstore_epoch *epoch;
	uint32_t number = later(epochs->floor, epochs->base);

	if (epochs->ranks == 0)
		return epochs->newest ? epochs->newest->number : 0;
	while ((epoch = find(epochs, number)) && is_full(epochs, epoch))
		number++;
	return number;
}

/* The base for a process that comes now: a new one when the program that had the present one is over. */
static uint32_t present_base(struct hvd_tcpstore_epochs *epochs)
{
	struct hvd_tcpstore_epoch *epoch = find(epochs, epochs->base);

	if (epoch && all_arrived(epochs, epoch) && epoch->gone > 0) {
		epochs->base = later(epochs->floor, epochs->newest->number + 1);
		tidy(epochs, epoch);
	}
	return epochs->base;
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

static uint64_t hash_of_process(const struct hvd_tcpstore_epochs *epochs, const struct hvd_addr *addr, uint32_t pid)
{
	size_t len = addr->family == AF_INET ? sizeof(addr->u.v4) : sizeof(addr->u.v6);

	return hvd_hash(hvd_hash(epochs->seed, &addr->u, len), &pid, sizeof(pid));
}

static struct hvd_tcpstore_process *find_process(const struct hvd_tcpstore_epochs *epochs, const struct hvd_addr *addr,
						 uint32_t pid)
{
	struct hvd_hash_node *node = hvd_hash_first(&epochs->processes, hash_of_process(epochs, addr, pid));

	for (; node; node = hvd_hash_next(node)) {
		struct hvd_tcpstore_process *p = (struct hvd_tcpstore_process *)node;

		if (p->pid == pid && hvd_addr_equal(&p->addr, addr))
			return p;
	}
	return NULL;
}

static struct hvd_tcpstore_process *need_process(struct hvd_tcpstore_epochs *epochs, const struct hvd_addr *addr,
						 uint32_t pid)
{
	struct hvd_tcpstore_process *p = find_process(epochs, addr, pid);

	if (p || !hvd_rv_charge(hvd_rv_store_budget(epochs->store), sizeof(*p)))
		return p;
	p = hvd_xcalloc(1, sizeof(*p));
	p->addr = *addr;
	p->pid = pid;
	/* Whether a common id is of another program cannot be told. */
	p->base = p->last = is_common(p) ? epochs->base : present_base(epochs);
	p->next = is_common(p) ? by_order(epochs) : p->base;
	hvd_hash_table_add(&epochs->processes, &p->node, hash_of_process(epochs, addr, pid));
	return p;
}

/* --- connections --- */

/* The epoch of processes that do not send their process id. */
static uint32_t of_unknown_pid(const struct hvd_tcpstore_epochs *epochs)
{
	return later(epochs->floor, epochs->base);
}

int hvd_tcpstore_arrive(struct hvd_tcpstore_epochs *epochs, const struct hvd_addr *addr, uint32_t pid,
			struct hvd_tcpstore_member *member)
{
	bool known = pid && find_process(epochs, addr, pid);
	struct hvd_tcpstore_process *p = pid ? need_process(epochs, addr, pid) : NULL;
	struct hvd_tcpstore_epoch *epoch;

	if (pid && !p)
		return -1;
	epoch = need(epochs, p ? p->base : of_unknown_pid(epochs));
	if (!epoch)
		return -1;
	epoch->conns++;
	if (p && p->open++ == 0) {
		if (!all_arrived(epochs, epoch)) {
			epoch->arrived++;
		} else if (p->gone) {
			p->gone = false;
			epoch->gone -= epoch->gone > 0;
		}
	}
	*member = (struct hvd_tcpstore_member){.epoch = epoch, .process = p, .arrived = true};
	member->first = !known || is_common(p);
	return 0;
}

int hvd_tcpstore_visit(struct hvd_tcpstore_epochs *epochs, const struct hvd_addr *addr, uint32_t pid,
		       struct hvd_tcpstore_member *member)
{
	struct hvd_tcpstore_process *p = pid ? find_process(epochs, addr, pid) : NULL;
	struct hvd_tcpstore_epoch *epoch = need(epochs, p ? p->base : pid ? epochs->base : of_unknown_pid(epochs));

	if (!epoch)
		return -1;
	epoch->conns++;
	*member = (struct hvd_tcpstore_member){.epoch = epoch, .process = p};
	return 0;
}

/* The epoch of the group that the connection begins or joins. */
static uint32_t group_of(const struct hvd_tcpstore_epochs *epochs, const struct hvd_tcpstore_member *member)
{
	const struct hvd_tcpstore_process *p = member->process;

	if (!member->arrived && !p)
		return epochs->newest->number;
	if (!member->arrived && p->groups > 0)
		return p->last;
	if (!p || (is_common(p) && p->groups > 0))
		return by_order(epochs);
	return later(p->next, epochs->floor);
}

int hvd_tcpstore_begin_group(struct hvd_tcpstore_epochs *epochs, struct hvd_tcpstore_member *member)
{
	struct hvd_tcpstore_epoch *old = member->epoch, *epoch = need(epochs, group_of(epochs, member));
	struct hvd_tcpstore_process *p = member->process;

	member->first = false;
	if (!epoch)
		return -1;
	member->epoch = epoch;
	epoch->conns++;
	old->conns--;
	if (member->arrived) {
		member->begun = true;
		member->first = epoch != old;
		if (!is_full(epochs, epoch))
			epoch->begun++;
		if (p) {
			p->groups++;
			p->last = epoch->number;
			p->next = later(p->next, epoch->number + 1);
		}
	}
	tidy(epochs, old);
	return 0;
}

static void end_group(struct hvd_tcpstore_epochs *epochs, const struct hvd_tcpstore_member *member)
{
	struct hvd_tcpstore_epoch *epoch = member->epoch;

	if (!is_full(epochs, epoch))
		epoch->begun--;
	else
		epochs->floor = later(epochs->floor, epoch->number + 1);
	if (member->process)
		member->process->groups--;
}

/* The process has no connection any longer that has arrived. */
static void go(struct hvd_tcpstore_epochs *epochs, struct hvd_tcpstore_process *p)
{
	struct hvd_tcpstore_epoch *base = find(epochs, p->base);

	if (!base)
		return;
	if (!all_arrived(epochs, base)) {
		base->arrived -= base->arrived > 0; /* it may have been forgotten meanwhile */
	} else if (!p->gone) {
		p->gone = true;
		base->gone++;
	}
}

void hvd_tcpstore_leave(struct hvd_tcpstore_epochs *epochs, struct hvd_tcpstore_member *member)
{
	struct hvd_tcpstore_epoch *epoch = member->epoch;
	struct hvd_tcpstore_process *p = member->process;

	if (!epoch)
		return;
	if (member->begun)
		end_group(epochs, member);
	if (member->arrived && p && --p->open == 0)
		go(epochs, p);
	epoch->conns--;
	tidy(epochs, epoch);
	*member = (struct hvd_tcpstore_member){0};
}

void hvd_tcpstore_epochs_clear(struct hvd_tcpstore_epochs *epochs)
{
	struct hvd_hash_node *chain;

	for (size_t i = 0; i < epochs->by_number.room; i++)
		for (struct hvd_hash_node *node = epochs->by_number.slots[i]; node; node = chain) {
			chain = node->chain;
			forget(epochs, (struct hvd_tcpstore_epoch *)node);
		}
	for (size_t i = 0; i < epochs->processes.room; i++)
		for (struct hvd_hash_node *node = epochs->processes.slots[i]; node; node = chain) {
			chain = node->chain;
			hvd_hash_table_remove(&epochs->processes, node);
			hvd_rv_refund(hvd_rv_store_budget(epochs->store), sizeof(struct hvd_tcpstore_process));
			free(node);
		}
	epochs->newest = NULL;
	epochs->base = epochs->floor = 0;
}

void hvd_tcpstore_epochs_free(struct hvd_tcpstore_epochs *epochs)
{
	hvd_tcpstore_epochs_clear(epochs);
	hvd_hash_table_free(&epochs->by_number);
	hvd_hash_table_free(&epochs->processes);
}
