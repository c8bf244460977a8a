/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Watches of relays, and the order of their messages.
 *
 * The changes for a child wait in a list, and are encoded when its connection takes them. A key is in the list once,
 * with its latest value. If a key changes again while it is in the list, it moves to the end, because a relay must not
 * see a value before an earlier write. But an answer behind the key's old place implies that the relay knows of the
 * first change. So in the old place the relay is told not to use its present value.
 *
 * The keys are those in the scopes here. The store knows whether these are complete.
 *
 * COHERENCE.md has the states, and the invariants I9 ... that check_watch() asserts.
 */
#include "downstream.h"

#include "lib/base/xalloc.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define WATCHES_MAX (1 << 20) /* of a child */

enum sent {
	NOTHING,
	VALUE,
	ABSENT,
	ASK,
	ASK_ABSENT,
};

struct down_watch {
	struct hvd_hash_node node;
	struct hvd_rv_child *child;
	struct hvd_rv_watch watch;
	struct hvd_rv_waiter waiter;
	struct item stale; /* what was sent is wrong by now, and `fresh` follows later */
	struct item fresh; /* the key as it is now */
	struct item wake;  /* those who wait are to go on */
	enum sent sent;
	unsigned wakes;     /* how many of those who wait are to go on */
	bool wake_all;      /* all of them are to go on */
	bool woken;         /* WAKE of one was sent */
	bool by_calls;      /* the key cannot be watched here: there is no room, or no value can have such a name */
	bool detached;      /* there is no such epoch */
	bool waits;         /* somebody waits for the key in an epoch that does not exist */
	bool stale_present; /* what `stale`, and `fresh` where it was moved, say about it */
	bool fresh_present;
	struct hvd_store_scope_id scope; /* its name is in `names` */
	size_t key_len;
	uint32_t id;
	char names[];
};

static struct hvd_rv *rv_of(const struct down_watch *w)
{
	return w->child->down->rv;
}

static const struct hvd_store *store_of(const struct down_watch *w)
{
	return &rv_of(w)->store_api;
}

static struct hvd_slice key_of(const struct down_watch *w)
{
	return (struct hvd_slice){w->names + w->scope.name.n, w->key_len};
}

static size_t size_of(const struct down_watch *w)
{
	return sizeof(*w) + w->scope.name.n + w->key_len;
}

static uint64_t hash_of(const struct hvd_rv_child *child, uint32_t id)
{
	return hvd_hash(child->down->seed, &id, sizeof(id));
}

static struct down_watch *find(const struct hvd_rv_child *child, uint32_t id)
{
	struct hvd_hash_node *node = hvd_hash_first(&child->watches, hash_of(child, id));

	while (node && ((struct down_watch *)node)->id != id)
		node = hvd_hash_next(node);
	return (struct down_watch *)node;
}

/* --- the state of a key --- */

/* NOTHING: it is not known, and on_changed() is called when it is. */
static enum sent state_now(const struct down_watch *w, struct hvd_rv_value **value)
{
	struct hvd_rv_watch_state s;

	*value = NULL;
	if (w->by_calls)
		return ASK;
	switch (hvd_store_know(store_of(w), &w->scope, key_of(w), false, NULL)) {
	case HVD_CACHE_PENDING:
		return NOTHING;
	case HVD_CACHE_REMOTE:
		return ASK;
	case HVD_CACHE_REMOTE_EMPTY:
	case HVD_CACHE_NO_ROOM:
		return ASK_ABSENT;
	case HVD_CACHE_HIT:
		break;
	}
	s = hvd_rv_watch_state(&w->watch);
	*value = s.value;
	if (s.ask || s.queued)
		return s.value || s.queued ? ASK : ASK_ABSENT;
	return s.value ? VALUE : ABSENT;
}

/* The invariants of a watch while none of its changes is half done. They concern the actions of this process, whatever
 * the relay sends. */
static void check_watch(const struct down_watch *w)
{
	struct hvd_rv_watch_state s = hvd_rv_watch_state(&w->watch);
	bool plain = !s.queued && !s.ask;

	assert(!w->stale.child || (w->fresh.child && TAILQ_NEXT(&w->stale, link)));            /* I9 */
	assert(!w->wake.child == !(w->wake_all || w->wakes > 0));                              /* I10 */
	assert(w->fresh.child || w->sent != VALUE || (s.value && plain));                      /* I11 */
	assert(w->fresh.child || w->sent != ABSENT || (!s.value && plain));                    /* I11 */
	assert(!w->waiter.key || w->waiter.key == w->watch.key);                               /* I12 */
	assert(!w->by_calls || (!w->watch.key && (w->sent == NOTHING || w->sent == ASK)));     /* I12 */
	assert(!w->detached || (!w->watch.key && !w->scope.name.p && w->child->detached > 0)); /* I13 */
	(void)plain;
}

/* --- changes --- */

static void dirty(struct down_watch *w)
{
	struct hvd_rv_value *value;
	enum sent now = state_now(w, &value);

	if (!w->fresh.child) {
		if (now == w->sent && now != VALUE) {
			check_watch(w);
			return; /* nobody is told of each sum of a counter */
		}
		hvd_down_queue(w->child, &w->fresh, NULL);
	} else if (TAILQ_NEXT(&w->fresh, link)) {
		if (!w->stale.child) {
			hvd_down_queue(w->child, &w->stale, &w->fresh);
			w->stale_present = w->fresh_present;
		}
		hvd_down_unqueue(&w->fresh);
		hvd_down_queue(w->child, &w->fresh, NULL);
	}
	w->fresh_present = now == VALUE || now == ASK;
	check_watch(w);
}

static void on_changed(struct hvd_rv_watch *watch)
{
	struct down_watch *w = (struct down_watch *)(void *)((char *)watch - offsetof(struct down_watch, watch));

	if (!watch->key) {
		w->waits = w->waiter.key != NULL;
		hvd_rv_unwait(&w->waiter);
		w->detached = true;
		w->child->detached++;
	}
	dirty(w);
}

/* --- waits --- */

static void wait_in_scope(struct down_watch *w)
{
	/* There is an entry for the key already, so this needs no room. */
	if (!w->waiter.key && w->watch.key)
		hvd_rv_scope_wait(hvd_rv_watch_scope(&w->watch), key_of(w), &w->waiter);
}

static bool on_wake(struct hvd_rv_waiter *waiter, struct hvd_rv_value *value)
{
	struct down_watch *w = (struct down_watch *)(void *)((char *)waiter - offsetof(struct down_watch, waiter));

	(void)value;
	if (waiter->one) {
		w->wakes++;
		wait_in_scope(w);
	} else {
		w->wake_all = true;
	}
	if (!w->wake.child)
		hvd_down_queue(w->child, &w->wake, NULL);
	check_watch(w);
	return true;
}

static const char no_room[] = "the store has no room left for the keys that it watches";

/* Somebody waits for the key in the relay, which has not known of a wait there. NULL, or what is wrong: nobody would
 * end the wait. */
static const char *begin_to_wait(struct down_watch *w)
{
	struct hvd_rv_watch_state s = hvd_rv_watch_state(&w->watch);
	enum hvd_cache known = hvd_store_know(store_of(w), &w->scope, key_of(w), true, NULL);

	if (known == HVD_CACHE_NO_ROOM)
		return no_room;
	w->waits = w->detached;
	if (s.value || known == HVD_CACHE_REMOTE) {
		w->wake_all = true;
	} else {
		wait_in_scope(w);
		w->wakes += s.queued;
	}
	if ((w->wake_all || w->wakes > 0) && !w->wake.child)
		hvd_down_queue(w->child, &w->wake, NULL);
	check_watch(w);
	return NULL;
}

void hvd_down_unused(struct hvd_rv_child *child, uint32_t id)
{
	struct down_watch *w = find(child, id);

	if (!w)
		return;
	hvd_rv_unwait(&w->waiter);
	hvd_store_unused(store_of(w), &w->scope, key_of(w), &w->watch);
}

/* --- to the relay --- */

static void send_ask(const struct down_watch *w, bool present)
{
	struct hvd_relay_msg msg = {.type = HVD_RELAY_ASK, .watch = w->id, .flag = present};

	hvd_down_send(w->child, &msg);
}

static void send_fresh(struct hvd_rv_child *child, struct item *item)
{
	struct down_watch *w = (struct down_watch *)(void *)((char *)item - offsetof(struct down_watch, fresh));
	struct hvd_relay_msg msg = {.watch = w->id};
	struct hvd_rv_value *value;
	enum sent now = state_now(w, &value);

	if (now == NOTHING || (now == w->sent && now != VALUE))
		return;
	w->sent = now;
	check_watch(w);
	switch (now) {
	case VALUE:
		msg.type = HVD_RELAY_VALUE;
		msg.result.value = value;
		break;
	case ABSENT:
		msg.type = HVD_RELAY_ABSENT;
		break;
	default:
		send_ask(w, now == ASK);
		return;
	}
	hvd_down_send(child, &msg);
}

static void send_stale(struct hvd_rv_child *child, struct item *item)
{
	struct down_watch *w = (struct down_watch *)(void *)((char *)item - offsetof(struct down_watch, stale));

	(void)child;
	send_ask(w, w->stale_present);
	w->sent = w->stale_present ? ASK : ASK_ABSENT;
	check_watch(w);
}

static void send_wake(struct hvd_rv_child *child, struct item *item)
{
	struct down_watch *w = (struct down_watch *)(void *)((char *)item - offsetof(struct down_watch, wake));
	struct hvd_relay_msg msg = {.type = HVD_RELAY_WAKE, .watch = w->id};

	w->woken = w->woken || w->wakes > 0;
	for (; w->wakes > 0; w->wakes--)
		hvd_down_send(child, &msg);
	/* A value wakes all by itself. */
	msg.flag = true;
	if (w->wake_all && w->sent != VALUE)
		hvd_down_send(child, &msg);
	w->wake_all = false;
	check_watch(w);
}

/* --- begin and end --- */

/* Watch the key in its scope here. */
static enum hvd_rv_stored attach(struct down_watch *w)
{
	enum hvd_rv_stored why = hvd_store_watch(store_of(w), &w->scope, key_of(w), &w->watch);

	w->detached = why == HVD_RV_STORED && !w->watch.key;
	w->child->detached += w->detached;
	return why;
}

static void detach(struct down_watch *w)
{
	hvd_rv_unwait(&w->waiter);
	hvd_store_unwatch(store_of(w), &w->scope, &w->watch);
	w->child->detached -= w->detached;
	w->detached = false;
}

static void end(struct down_watch *w)
{
	struct hvd_rv_budget *budget = hvd_rv_store_budget(rv_of(w)->store);

	detach(w);
	hvd_down_unqueue(&w->stale);
	hvd_down_unqueue(&w->fresh);
	hvd_down_unqueue(&w->wake);
	hvd_hash_table_remove(&w->child->watches, &w->node);
	hvd_rv_refund(budget, size_of(w));
	free(w);
}

static struct down_watch *begin(struct hvd_rv_child *child, const struct hvd_relay_msg *msg)
{
	const struct hvd_store_scope_id *scope = &msg->op.scope;
	struct hvd_rv *rv = child->down->rv;
	size_t size = sizeof(struct down_watch) + scope->name.n + msg->op.key.n;
	enum hvd_rv_stored why;
	struct down_watch *w;

	if (child->watches.n >= WATCHES_MAX || !hvd_rv_charge(hvd_rv_store_budget(rv->store), size))
		return NULL;
	w = hvd_xcalloc(1, size);
	w->child = child;
	w->id = msg->watch;
	w->scope = *scope;
	w->key_len = msg->op.key.n;
	if (scope->name.p) {
		memcpy(w->names, scope->name.p, scope->name.n);
		w->scope.name.p = w->names;
	}
	if (w->key_len > 0)
		memcpy(w->names + scope->name.n, msg->op.key.p, w->key_len);
	w->watch.changed = on_changed;
	w->waiter.wake = on_wake;
	w->stale.send = send_stale;
	w->fresh.send = send_fresh;
	w->wake.send = send_wake;
	hvd_hash_table_add(&child->watches, &w->node, hash_of(child, w->id));
	why = attach(w);
	w->by_calls = why != HVD_RV_STORED;
	if (why != HVD_RV_NO_ROOM || scope->name.p)
		return w;
	end(w);
	return NULL;
}

const char *hvd_down_watch(struct hvd_rv_child *child, const struct hvd_relay_msg *msg)
{
	struct down_watch *w = find(child, msg->watch);

	if (!w) {
		w = begin(child, msg);
		if (!w)
			return no_room;
		dirty(w);
	} else if (msg->op.key.n != w->key_len || memcmp(msg->op.key.p, key_of(w).p, w->key_len) != 0) {
		return "it watches two keys by the same number";
	}
	return msg->flag && !w->by_calls ? begin_to_wait(w) : NULL;
}

void hvd_down_unwatch(struct hvd_rv_child *child, uint32_t id)
{
	struct down_watch *w = find(child, id);

	if (!w)
		return;
	/* A WAKE of one may be on its way, and nobody is left for it. */
	if (w->woken || w->wakes > 0) {
		hvd_rv_unwait(&w->waiter);
		hvd_store_unwatched(store_of(w), &w->scope, key_of(w), &w->watch);
	}
	end(w);
}

void hvd_down_unwatch_all(struct hvd_rv_child *child, bool epochs_only)
{
	for (size_t i = 0; i < child->watches.room; i++)
		for (struct hvd_hash_node *node = child->watches.slots[i], *chain; node; node = chain) {
			struct down_watch *w = (struct down_watch *)node;

			chain = node->chain;
			if (!epochs_only || !w->scope.name.p)
				end(w);
		}
}

void hvd_down_reattach(struct hvd_rv_child *child, uint32_t epoch)
{
	if (child->detached == 0)
		return;
	for (size_t i = 0; i < child->watches.room; i++)
		for (struct hvd_hash_node *node = child->watches.slots[i]; node; node = node->chain) {
			struct down_watch *w = (struct down_watch *)node;

			if (!w->detached || w->scope.epoch != epoch)
				continue;
			detach(w);
			if (attach(w) != HVD_RV_STORED)
				continue; /* and nobody gets the epoch */
			dirty(w);
			if (w->waits)
				begin_to_wait(w); /* at the root, where there is always room to know */
		}
}
