/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the store answers to a query: what PyTorch's libuv server answers, also where that is odd. The differences are
 * that a failed COMPARE_SET wakes nobody; that a client that QUEUE_PUSH has woken does not stay in the list of those
 * that wait; and that counters which are no numbers, or overflow, close the connection.
 */
#include "tcpstore.h"

#include "lib/base/xalloc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WAITS_FIRST 16 /* waits for which there is memory at first, besides the one in the connection */
#define WAITS_MOST  1024

static const char init_key[] = "init/";

static struct hvd_rv_scope *scope_of(const struct hvd_tcpstore_conn *c)
{
	return c->place.generation->scope;
}

static void send_byte(struct hvd_tcpstore_conn *c, unsigned char byte)
{
	hvd_tcpstore_send(c, &byte, 1);
}

static void send_number(struct hvd_tcpstore_conn *c, int64_t n)
{
	char out[8];

	hvd_tcpstore_put_u64(&c->wire, (uint64_t)n, out);
	hvd_tcpstore_send(c, out, sizeof(out));
}

static void send_bytes(struct hvd_tcpstore_conn *c, struct hvd_slice bytes)
{
	send_number(c, (int64_t)bytes.n);
	hvd_tcpstore_send(c, bytes.p, bytes.n);
}

static void no_room(struct hvd_tcpstore_conn *c)
{
	hvd_tcpstore_close(c, HVD_LOG_WARN, "the store has no room left");
}

/* False when the connection was closed. */
static bool stored(struct hvd_tcpstore_conn *c, enum hvd_rv_stored why)
{
	if (why == HVD_RV_TOO_LONG)
		hvd_tcpstore_close(c, HVD_LOG_WARN, "a value would become longer than the store takes");
	else if (why != HVD_RV_STORED)
		no_room(c);
	return why == HVD_RV_STORED;
}

/* --- waits --- */

void hvd_tcpstore_unwait(struct hvd_tcpstore_conn *c)
{
	struct hvd_rv_budget *budget = hvd_rv_store_budget(c->ts->rv->store);

	hvd_rv_unwait(&c->wait.waiter);
	while (c->more) {
		struct hvd_tcpstore_waits *ws = c->more;

		c->more = ws->next;
		for (size_t i = 0; i < ws->n; i++)
			hvd_rv_unwait(&ws->waits[i].waiter);
		hvd_rv_refund(budget, sizeof(*ws) + ws->room * sizeof(ws->waits[0]));
		free(ws);
	}
	c->awaited = 0;
	c->waits_open = false;
}

static bool woken(struct hvd_rv_waiter *w, struct hvd_rv_value *value)
{
	struct hvd_tcpstore_conn *c = ((struct hvd_tcpstore_wait *)(void *)w)->conn;

	(void)value;
	if (--c->awaited > 0 || c->waits_open)
		return false;
	hvd_tcpstore_unwait(c); /* for the memory: none of them waits any longer */
	send_byte(c, 0);
	return true;
}

/* NULL when there is no memory. */
static struct hvd_tcpstore_wait *new_wait(struct hvd_tcpstore_conn *c)
{
	struct hvd_tcpstore_waits *ws = c->more;

	if (!c->wait.waiter.key)
		return &c->wait;
	if (!ws || ws->n == ws->room) {
		size_t room = !ws ? WAITS_FIRST : ws->room < WAITS_MOST ? 2 * ws->room : WAITS_MOST;
		size_t size = sizeof(*ws) + room * sizeof(ws->waits[0]);

		if (!hvd_rv_charge(hvd_rv_store_budget(c->ts->rv->store), size))
			return NULL;
		ws = hvd_xcalloc(1, size);
		ws->room = room;
		ws->next = c->more;
		c->more = ws;
	}
	return &ws->waits[ws->n++];
}

static void await(struct hvd_tcpstore_conn *c, struct hvd_slice key)
{
	struct hvd_tcpstore_wait *w = new_wait(c);

	if (!w) {
		no_room(c);
		return;
	}
	w->conn = c;
	w->waiter.wake = woken;
	if (stored(c, hvd_rv_scope_wait(scope_of(c), key, &w->waiter)))
		c->awaited++;
}

static void do_wait(struct hvd_tcpstore_conn *c, const struct hvd_tcpstore_item *item)
{
	if (item->first) {
		hvd_tcpstore_unwait(c);
		c->waits_open = true;
	}
	if (item->key.p && !hvd_rv_scope_has(scope_of(c), item->key))
		await(c, item->key);
	if (c->dead || !item->last)
		return;
	c->waits_open = false;
	if (c->awaited == 0) {
		hvd_tcpstore_unwait(c);
		send_byte(c, 0);
	}
}

/* --- counters --- */

/* The number that a text begins with, as C++'s stoll() takes it. False when there is none, or it is too large. */
static bool read_counter(const struct hvd_rv_value *v, int64_t *out)
{
	char text[64], *end;
	size_t from = 0, n;

	*out = 0;
	if (!v)
		return true;
	while (from < v->len && memchr(" \t\n\v\f\r", v->data[from], 6))
		from++;
	n = v->len - from < sizeof(text) - 1 ? v->len - from : sizeof(text) - 1;
	memcpy(text, v->data + from, n);
	text[n] = '\0';
	errno = 0;
	*out = strtoll(text, &end, 10);
	return errno == 0 && end > text;
}

/* Add to a counter. False when the connection was closed. */
static bool count(struct hvd_tcpstore_conn *c, struct hvd_slice key, int64_t by, bool wake, int64_t *sum)
{
	char text[24];
	int len;

	if (!read_counter(hvd_rv_scope_get(scope_of(c), key), sum) || __builtin_add_overflow(*sum, by, sum)) {
		hvd_tcpstore_close(c, HVD_LOG_WARN, "it counts with a value that is not a number, or too large");
		return false;
	}
	len = snprintf(text, sizeof(text), "%lld", (long long)*sum);
	return stored(c, hvd_rv_scope_set(scope_of(c), key, (struct hvd_slice){text, (size_t)len}, wake));
}

static void do_add(struct hvd_tcpstore_conn *c, const struct hvd_tcpstore_item *item)
{
	int64_t sum;

	if (count(c, item->key, item->number, true, &sum))
		send_number(c, sum);
}

static void do_barrier(struct hvd_tcpstore_conn *c, const struct hvd_tcpstore_item *item)
{
	int64_t come;

	hvd_tcpstore_unwait(c);
	if (!count(c, item->key, 1, false, &come))
		return;
	if (come < item->number) {
		await(c, item->key);
		return;
	}
	hvd_rv_scope_wake(scope_of(c), item->key);
	send_byte(c, 0);
}

/* --- values --- */

static void do_get(struct hvd_tcpstore_conn *c, struct hvd_slice key)
{
	struct hvd_rv_value *v = hvd_rv_scope_get(scope_of(c), key);

	if (v)
		hvd_tcpstore_send_value(c, v);
	else
		send_number(c, 0);
}

static void do_compare_set(struct hvd_tcpstore_conn *c, const struct hvd_tcpstore_item *item)
{
	struct hvd_rv_value *v = hvd_rv_scope_get(scope_of(c), item->key);
	struct hvd_slice expected = item->expected;

	if (v ? v->len == expected.n && memcmp(v->data, expected.p, expected.n) == 0 : expected.n == 0) {
		if (stored(c, hvd_rv_scope_set(scope_of(c), item->key, item->value, true)))
			send_bytes(c, item->value);
	} else if (v) {
		hvd_tcpstore_send_value(c, v);
	} else {
		send_bytes(c, expected); /* as PyTorch does, although there is no such value */
	}
}

static void do_check(struct hvd_tcpstore_conn *c, const struct hvd_tcpstore_item *item)
{
	if (item->first)
		c->list_there = true;
	if (item->key.p && c->list_there)
		c->list_there = hvd_rv_scope_has(scope_of(c), item->key);
	if (item->last)
		send_byte(c, c->list_there ? 0 : 1);
}

static void do_queue_pop(struct hvd_tcpstore_conn *c, struct hvd_slice key)
{
	size_t n = hvd_rv_scope_queued(scope_of(c), key);
	struct hvd_rv_value *v;

	send_number(c, (int64_t)n);
	v = hvd_rv_scope_pop(scope_of(c), key);
	if (v)
		hvd_tcpstore_send_value(c, v);
	hvd_rv_value_unref(v);
}

static void do_list_keys(struct hvd_tcpstore_conn *c)
{
	const struct hvd_rv_key *k = NULL;

	send_number(c, (int64_t)scope_of(c)->values);
	while (!c->dead && (k = hvd_rv_scope_next(scope_of(c), k)))
		send_bytes(c, hvd_rv_key_name(k));
}

/* --- which generation --- */

/* The first query that needs one decides. False when the connection was closed. */
static bool find_place(struct hvd_tcpstore_conn *c, const struct hvd_tcpstore_item *item)
{
	struct hvd_tcpstore_generations *gs = &c->ts->generations;
	const struct hvd_rv_config *cfg = &c->ts->rv->cfg;
	const struct hvd_addr *addr = &c->entry.peer->addr;
	struct hvd_rv_join join = {.from = *addr, .pid = c->pid};
	bool arrives = item->query == HVD_TCPSTORE_ADD && item->key.n == sizeof(init_key) - 1 &&
		       memcmp(item->key.p, init_key, item->key.n) == 0;

	if ((arrives ? hvd_tcpstore_arrive : hvd_tcpstore_visit)(gs, addr, c->pid, &c->place) != 0) {
		no_room(c);
		return false;
	}
	if (arrives) {
		c->ts->rv->stats.tcpstore_joined++;
		join.generation = c->place.generation->number;
		if (cfg->joined)
			cfg->joined(cfg->joined_arg, &join);
	}
	return !c->dead;
}

void hvd_tcpstore_item(struct hvd_tcpstore_conn *c, const struct hvd_tcpstore_item *item)
{
	char nonce[4];

	c->ts->rv->stats.tcpstore_requests += item->first;
	switch (item->query) {
	case HVD_TCPSTORE_VALIDATE:
		return;
	case HVD_TCPSTORE_PING:
		if (!c->place.generation)
			c->pid = (uint32_t)item->number;
		hvd_tcpstore_put_u32(&c->wire, (uint32_t)item->number, nonce);
		hvd_tcpstore_send(c, nonce, sizeof(nonce));
		return;
	default:
		break;
	}
	if (!c->place.generation && !find_place(c, item))
		return;
	switch (item->query) {
	case HVD_TCPSTORE_SET:
		stored(c, hvd_rv_scope_set(scope_of(c), item->key, item->value, true));
		break;
	case HVD_TCPSTORE_COMPARE_SET:
		do_compare_set(c, item);
		break;
	case HVD_TCPSTORE_GET:
		do_get(c, item->key);
		break;
	case HVD_TCPSTORE_ADD:
		do_add(c, item);
		break;
	case HVD_TCPSTORE_CHECK:
		do_check(c, item);
		break;
	case HVD_TCPSTORE_WAIT:
		do_wait(c, item);
		break;
	case HVD_TCPSTORE_GETNUMKEYS:
		send_number(c, (int64_t)scope_of(c)->values);
		break;
	case HVD_TCPSTORE_DELETE_KEY:
		send_number(c, hvd_rv_scope_remove(scope_of(c), item->key) ? 1 : 0);
		break;
	case HVD_TCPSTORE_APPEND:
		stored(c, hvd_rv_scope_append(scope_of(c), item->key, item->value));
		break;
	case HVD_TCPSTORE_MULTI_GET:
		if (item->key.p)
			do_get(c, item->key);
		break;
	case HVD_TCPSTORE_MULTI_SET:
		if (item->key.p)
			stored(c, hvd_rv_scope_set(scope_of(c), item->key, item->value, true));
		break;
	case HVD_TCPSTORE_CANCEL_WAIT:
		hvd_tcpstore_unwait(c);
		send_byte(c, 1);
		break;
	case HVD_TCPSTORE_QUEUE_PUSH:
		stored(c, hvd_rv_scope_push(scope_of(c), item->key, item->value));
		break;
	case HVD_TCPSTORE_QUEUE_POP:
		do_queue_pop(c, item->key);
		break;
	case HVD_TCPSTORE_QUEUE_LEN:
		send_number(c, (int64_t)hvd_rv_scope_queued(scope_of(c), item->key));
		break;
	case HVD_TCPSTORE_LIST_KEYS:
		do_list_keys(c);
		break;
	default:
		do_barrier(c, item);
		break;
	}
}
