/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Operations that relays ask the root for, each carried out once, and the processes behind relays that use the
 * TCPStore.
 *
 * The calls of a relay arrive in the order of their ids, perhaps over two connections one after the other. An id that
 * is not above all earlier ones is a repetition. For that case, the answer to a call that has changed something is kept
 * until the relay confirms that it has the answer. A call that has only read is carried out again.
 */
#include "downstream.h"

#include "lib/base/xalloc.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define CALLS_MAX   65536 /* of a relay, that it does not know the answers of */
#define CLIENTS_MAX 65536 /* of a relay */

struct call {
	struct item item;
	struct relay *relay;
	uint64_t id;
	enum hvd_store_op_kind kind;
	uint32_t client_number;
	bool answered;
	bool again; /* only has read, and the answer was sent: a repetition is carried out */
	struct hvd_store_call under_way;
	struct hvd_store_result result;
};

/* A connection to the TCPStore at a relay. */
struct client {
	struct hvd_hash_node node;
	uint32_t number;
	struct hvd_store_client client;
};

static struct hvd_rv *rv_of(const struct relay *relay)
{
	return relay->down->rv;
}

static const struct hvd_store *store_of(const struct relay *relay)
{
	return &rv_of(relay)->store_api;
}

static struct hvd_rv_budget *budget_of(const struct relay *relay)
{
	return hvd_rv_store_budget(rv_of(relay)->store);
}

/* --- the calls of a relay --- */

/* The first of its calls whose id is not below this one. */
static size_t position(const struct relay *relay, uint64_t id)
{
	size_t from = 0, to = relay->n_calls;

	while (from < to) {
		size_t mid = from + (to - from) / 2;

		if (relay->calls[relay->first_call + mid]->id < id)
			from = mid + 1;
		else
			to = mid;
	}
	return from;
}

static struct call *find_call(const struct relay *relay, uint64_t id)
{
	size_t i = position(relay, id);
	struct call *call = i < relay->n_calls ? relay->calls[relay->first_call + i] : NULL;

	return call && call->id == id ? call : NULL;
}

static void free_call(struct call *call)
{
	hvd_down_unqueue(&call->item);
	hvd_store_abandon(store_of(call->relay), &call->under_way);
	hvd_store_result_clear(&call->result);
	free(call);
}

static bool is_kept(const struct call *call)
{
	return !call->answered || call->item.child;
}

/* Forget the calls below `done`, and, where there are too many, the oldest that was answered. */
static void forget_calls(struct relay *relay, uint64_t done)
{
	while (relay->n_calls > 0 && relay->calls[relay->first_call]->id < done) {
		free_call(relay->calls[relay->first_call++]);
		relay->n_calls--;
	}
	for (size_t i = 0; relay->n_calls >= CALLS_MAX && i < relay->n_calls; i++) {
		struct call **at = &relay->calls[relay->first_call + i];

		if (is_kept(*at))
			continue;
		free_call(*at);
		memmove(at, at + 1, (relay->n_calls - i - 1) * sizeof(struct call *));
		relay->n_calls--;
	}
}

/* --- answers --- */

static bool only_reads(enum hvd_store_op_kind kind)
{
	return kind == HVD_OP_GET || kind == HVD_OP_NUM_KEYS || kind == HVD_OP_LIST_KEYS || kind == HVD_OP_QUEUE_LEN;
}

/* I15 of COHERENCE.md. */
static void check_call(const struct call *call)
{
	assert(call->answered || !call->item.child);
	assert(!call->again || (call->answered && !call->item.child && !call->result.value && only_reads(call->kind)));
	(void)call;
}

static void queue_answer(struct call *call)
{
	struct hvd_rv_child *route = call->relay->route;

	if (!route || call->item.child == route)
		return;
	hvd_down_unqueue(&call->item);
	hvd_down_queue(route, &call->item, NULL);
}

/* The call is answered; takes the reference to the value. */
static void answer(struct call *call, const struct hvd_store_result *result)
{
	assert(!call->answered); /* I15 */
	call->result = *result;
	call->answered = true;
	queue_answer(call);
	check_call(call);
}

static void answer_with(struct call *call, enum hvd_store_status status, int64_t number)
{
	const struct hvd_store_result result = {.status = status, .number = number};

	answer(call, &result);
}

static void send_answer(struct hvd_rv_child *child, struct item *item)
{
	struct call *call = (struct call *)(void *)((char *)item - offsetof(struct call, item));
	struct hvd_relay_msg msg = {.type = HVD_RELAY_ANSWER, .relay_id = call->relay->number, .call = call->id};

	msg.result = call->result;
	hvd_down_send(child, &msg);
	if (!only_reads(call->kind))
		return;
	hvd_store_result_clear(&call->result);
	call->again = true;
	check_call(call);
}

static struct call *add_call(struct relay *relay, const struct hvd_relay_msg *msg)
{
	struct call *call;

	if (relay->first_call + relay->n_calls == relay->calls_room) {
		if (relay->first_call > relay->n_calls) {
			memmove(relay->calls, relay->calls + relay->first_call, relay->n_calls * sizeof(call));
			relay->first_call = 0;
		} else {
			relay->calls_room = relay->calls_room ? 2 * relay->calls_room : 16;
			relay->calls = hvd_xrealloc(relay->calls, relay->calls_room, sizeof(call));
		}
	}
	assert(relay->n_calls == 0 ||
	       relay->calls[relay->first_call + relay->n_calls - 1]->id <= relay->last_call); /* I14 */
	assert(msg->call > relay->last_call);                                                 /* I14 */
	call = hvd_xcalloc(1, sizeof(*call));
	call->relay = relay;
	call->id = msg->call;
	call->kind = msg->op.kind;
	call->client_number = msg->op.client_number;
	call->item.send = send_answer;
	relay->calls[relay->first_call + relay->n_calls++] = call;
	relay->last_call = msg->call;
	return call;
}

/* --- processes --- */

static uint64_t hash_of(const struct relay *relay, uint32_t number)
{
	return hvd_hash(relay->down->seed, &number, sizeof(number));
}

static struct client *find_client(const struct relay *relay, uint32_t number)
{
	struct hvd_hash_node *node = hvd_hash_first(&relay->clients, hash_of(relay, number));

	while (node && ((struct client *)node)->number != number)
		node = hvd_hash_next(node);
	return (struct client *)node;
}

static void end_client(struct relay *relay, struct client *p)
{
	hvd_store_depart(store_of(relay), &p->client);
	hvd_store_leave(store_of(relay), &p->client);
	hvd_hash_table_remove(&relay->clients, &p->node);
	hvd_rv_refund(budget_of(relay), sizeof(*p));
	free(p);
}

/* End the waits of its clients in the TCPStore, or those of one client. */
static void end_waits(struct relay *relay, const uint32_t *client_number)
{
	for (size_t i = 0; i < relay->n_calls; i++) {
		struct call *call = relay->calls[relay->first_call + i];

		if (call->kind != HVD_OP_BARRIER || call->answered ||
		    (client_number && call->client_number != *client_number))
			continue;
		hvd_store_abandon(store_of(relay), &call->under_way);
		answer_with(call, HVD_OP_CANCELLED, 0);
	}
}

/* An epoch may be one that relays have asked for before it was there. */
static void answer_epoch(struct call *call, const struct hvd_store_result *result)
{
	if (result->status == HVD_OP_DONE && call->relay->route)
		hvd_down_reattach(call->relay->route, (uint32_t)result->number);
	answer(call, result);
}

/* The address of a relay's client. */
static struct hvd_addr address_of(const struct relay *relay, const struct hvd_store_op *op)
{
	char text[HVD_ADDR_TEXT];
	struct hvd_addr addr;

	if (op->expected.n == 0 || op->expected.n >= sizeof(text))
		return relay->addr;
	memcpy(text, op->expected.p, op->expected.n);
	text[op->expected.n] = '\0';
	return hvd_addr_parse(text, &addr) == 0 ? addr : relay->addr;
}

static void do_enter(struct call *call, struct hvd_store_op *op)
{
	struct relay *relay = call->relay;
	struct hvd_store_result result;
	struct client *p;

	if (find_client(relay, op->client_number) || relay->clients.n >= CLIENTS_MAX ||
	    !hvd_rv_charge(budget_of(relay), sizeof(*p))) {
		answer_with(call, HVD_OP_NO_ROOM, 0);
		return;
	}
	p = hvd_xcalloc(1, sizeof(*p));
	p->number = op->client_number;
	p->client.from = address_of(relay, op);
	p->client.pid = (uint32_t)op->number;
	hvd_hash_table_add(&relay->clients, &p->node, hash_of(relay, p->number));
	op->client = &p->client;
	hvd_store_submit(store_of(relay), op, &result, &call->under_way); /* at once */
	answer_epoch(call, &result);
	p = find_client(relay, op->client_number); /* whoever was told may have had all ranks started anew */
	if (result.status != HVD_OP_DONE && p)
		end_client(relay, p);
}

static void do_begin_group(struct call *call, struct hvd_store_op *op)
{
	struct relay *relay = call->relay;
	struct client *p = find_client(relay, call->client_number);
	struct hvd_store_result result;

	if (!p) {
		answer_with(call, HVD_OP_NO_SCOPE, 0);
		return;
	}
	end_waits(relay, &call->client_number);
	op->client = &p->client;
	hvd_store_submit(store_of(relay), op, &result, &call->under_way); /* at once */
	answer_epoch(call, &result);
}

static void do_leave(struct call *call)
{
	struct relay *relay = call->relay;
	struct client *p = find_client(relay, call->client_number);

	if (p) {
		end_waits(relay, &call->client_number);
		end_client(relay, p);
	}
	answer_with(call, HVD_OP_DONE, 0);
}

void hvd_down_leave(struct relay *relay, bool for_ever)
{
	end_waits(relay, NULL);
	for (size_t i = 0; i < relay->clients.room; i++)
		while (relay->clients.slots[i])
			end_client(relay, (struct client *)relay->clients.slots[i]);
	if (!for_ever)
		return;
	forget_calls(relay, UINT64_MAX);
	free(relay->calls);
	relay->calls = NULL;
	relay->first_call = relay->calls_room = 0;
	hvd_hash_table_free(&relay->clients);
}

/* --- operations --- */

static void on_answered(struct hvd_store_call *under_way, const struct hvd_store_result *result)
{
	struct call *call = (struct call *)(void *)((char *)under_way - offsetof(struct call, under_way));
	struct hvd_store_result own = *result;

	if (own.value)
		hvd_rv_value_ref(own.value);
	answer(call, &own);
}

static void do_other(struct call *call, struct hvd_store_op *op)
{
	struct client *p = find_client(call->relay, op->client_number);
	struct hvd_store_result result;

	op->client = p ? &p->client : NULL;
	call->under_way.answered = on_answered;
	if (hvd_store_submit(store_of(call->relay), op, &result, &call->under_way))
		answer(call, &result);
}

static void carry_out(struct call *call, const struct hvd_relay_msg *msg)
{
	struct hvd_store_op op = msg->op;

	if (call->relay->refused) {
		answer_with(call, HVD_OP_NO_SCOPE, 0);
		return;
	}
	if (msg->stored != HVD_RV_STORED) {
		answer_with(call, hvd_store_status(msg->stored), 0);
		return;
	}
	switch (op.kind) {
	case HVD_OP_ARRIVE:
	case HVD_OP_VISIT:
		do_enter(call, &op);
		break;
	case HVD_OP_BEGIN_GROUP:
		do_begin_group(call, &op);
		break;
	case HVD_OP_LEAVE:
		do_leave(call);
		break;
	default:
		do_other(call, &op);
		break;
	}
}

const char *hvd_down_call(struct relay *relay, const struct hvd_relay_msg *msg)
{
	struct call *call;

	/* Ids follow one another, and those of another process that is the relay now begin further above. */
	if (relay->last_call > 0 && msg->done > relay->last_call + 1) {
		hvd_down_leave(relay, true);
		hvd_hash_table_init(&relay->clients, 16);
	}
	forget_calls(relay, msg->done);
	if (msg->call <= relay->last_call) {
		call = find_call(relay, msg->call);
		if (call)
			check_call(call);
		if (call && call->again) {
			call->again = call->answered = false;
			carry_out(call, msg);
		} else if (call && call->answered) {
			queue_answer(call);
		}
		return NULL;
	}
	if (relay->n_calls >= CALLS_MAX)
		return "it has too many pending calls";
	carry_out(add_call(relay, msg), msg);
	return NULL;
}

void hvd_down_cancel(struct relay *relay, uint64_t id)
{
	struct call *call = find_call(relay, id);

	if (!call || call->answered)
		return;
	answer_with(call, HVD_OP_CANCELLED, 0);
	hvd_store_abandon(store_of(relay), &call->under_way);
}
