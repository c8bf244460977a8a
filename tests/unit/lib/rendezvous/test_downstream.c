/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A root, and relays made by hand: the test sends each message of a relay, and reads what the root says to it.
 */
#include "lib/base/xalloc.h"
#include "lib/rendezvous/relay_wire.h"
#include "relay_conns.h"
#include "tests/unit/relay_count.h"

struct relay {
	struct hvd_conn *conn; /* NULL: closed by the root */
	uint32_t relay_id;
	char *heard; /* as one says it to people, "; " behind each */
	struct hvd_rv_budget budget;
	uint64_t calls;
};

struct world {
	struct event_base *base;
	struct hvd_rv *rv;
	struct hvd_log log;
	char said[512]; /* by the root's log */
	struct relay relays[3];
};

static struct hvd_slice S(const char *s) {
	return (struct hvd_slice){s, strlen(s)};
}

/* --- the relay's end --- */

static void
on_bytes(unsigned channel, const void *data, size_t len, void *arg)
{
	static const char *const statuses[] = {"done", "too long", "no room", "no number", "cancelled", "no scope"};
	struct relay *r = arg;
	struct hvd_relay_msg msg;

	assert_int_equal(hvd_relay_parse(data, len, false, &r->budget, &msg, NULL), 0);
	switch (msg.type) {
	case HVD_RELAY_VALUE:
		hvd_xappendf(&r->heard, "value %u", msg.watch);
		break;
	case HVD_RELAY_ABSENT:
		hvd_xappendf(&r->heard, "absent %u", msg.watch);
		break;
	case HVD_RELAY_ASK:
		hvd_xappendf(&r->heard, "ask %u %s", msg.watch, msg.flag ? "there" : "not there");
		break;
	case HVD_RELAY_WAKE:
		hvd_xappendf(&r->heard, "wake %u %s", msg.watch, msg.flag ? "all" : "one");
		break;
	case HVD_RELAY_ANSWER:
		hvd_xappendf(&r->heard, "answer %u:%llu %s %lld", msg.relay_id, (unsigned long long)msg.call,
			     statuses[msg.result.status], (long long)msg.result.number);
		break;
	case HVD_RELAY_RENEW:
		hvd_xappendf(&r->heard, "renew");
		break;
	default:
		hvd_xappendf(&r->heard, "ask waits %u", msg.level);
		break;
	}
	if (msg.result.value)
		hvd_xappendf(&r->heard, " %.*s", (int)msg.result.value->len, (const char *)msg.result.value->data);
	hvd_xappendf(&r->heard, "; ");
	hvd_relay_msg_clear(&msg);
}

static void on_closed(struct hvd_conn *conn, const struct hvd_err *why, void *arg)
{
	struct relay *r = arg;

	hvd_conn_free(conn);
	r->conn = NULL;
	hvd_xappendf(&r->heard, "closed; ");
}

static void turn(struct world *w)
{
	for (int i = 0; i < 8; i++)
		event_base_loop(w->base, EVLOOP_NONBLOCK);
}

/* Until the root has said something to this relay, and nothing more. */
static void hears(struct world *w, struct relay *r, const char *text)
{
	hvd_time until = hvd_deadline_in(5);

	while (!r->heard || (strlen(r->heard) < strlen(text) && hvd_left(until) > 0))
		if (event_base_loop(w->base, EVLOOP_NONBLOCK) != 0 || hvd_left(until) <= 0)
			break;
	turn(w);
	assert_string_equal(r->heard ? r->heard : "", text);
	free(r->heard);
	r->heard = NULL;
}

static void hears_nothing(struct world *w, struct relay *r)
{
	turn(w);
	assert_string_equal(r->heard ? r->heard : "", "");
}

static void send_msg(struct relay *r, const struct hvd_relay_msg *msg)
{
	hvd_relay_send(r->conn, HVD_CHANNEL_STORE, msg);
}

static void begin(struct relay *r, uint32_t relay_id, const char *addr)
{
	struct hvd_relay_msg msg = {.type = HVD_RELAY_BEGIN, .level = HVD_RELAY_VERSION, .relay_id = relay_id};

	hvd_addr_parse(addr, &msg.addr);
	send_msg(r, &msg);
}

static void connect_relay(struct world *w, struct relay *r)
{
	static const struct hvd_conn_ops ops = {.message = no_message, .closed = on_closed};
	struct hvd_conn *down;

	hvd_conn_free(r->conn);
	relay_conns(w->base, &r->conn, &down);
	hvd_conn_set_ops(r->conn, &ops, r);
	hvd_conn_open(r->conn, HVD_CHANNEL_STORE, 64 << 20, on_bytes, r);
	hvd_rv_relay_take(w->rv, down);
}

static struct relay *relay(struct world *w, uint32_t relay_id)
{
	struct relay *r = &w->relays[relay_id - 1];
	char addr[32];

	r->relay_id = relay_id;
	r->budget = (struct hvd_rv_budget){.value_max = 64 << 20, .total_max = (size_t)1 << 30};
	connect_relay(w, r);
	snprintf(addr, sizeof(addr), "10.0.0.%u", relay_id);
	begin(r, relay_id, addr);
	return r;
}

static void watch_in(struct relay *r, uint32_t id, struct hvd_store_scope_id scope, const char *key, bool waits)
{
	struct hvd_relay_msg msg = {.type = HVD_RELAY_WATCH, .watch = id, .flag = waits};

	msg.op.scope = scope;
	msg.op.key = S(key);
	send_msg(r, &msg);
}

static void watch_http(struct relay *r, uint32_t id, const char *scope, const char *key)
{
	watch_in(r, id, (struct hvd_store_scope_id){.name = S(scope)}, key, false);
}

static void watch(struct relay *r, uint32_t id, const char *key, bool waits)
{
	watch_in(r, id, (struct hvd_store_scope_id){0}, key, waits);
}

static void call_again(struct relay *r, uint64_t id, uint64_t done, const struct hvd_store_op *op, const char *value)
{
	struct hvd_relay_msg msg = {
		.type = HVD_RELAY_CALL, .relay_id = r->relay_id, .call = id, .done = done, .op = *op};
	enum hvd_rv_stored why;

	if (value)
		msg.op.value = hvd_rv_value_new(&r->budget, value, strlen(value), &why);
	send_msg(r, &msg);
	hvd_rv_value_unref(msg.op.value);
}

static uint64_t call(struct relay *r, const struct hvd_store_op *op, const char *value)
{
	r->calls++;
	call_again(r, r->calls, 1, op, value);
	return r->calls;
}

/* In epoch 0, by client 1. */
static void op(struct relay *r, enum hvd_store_op_kind kind, const char *key, int64_t number, const char *value)
{
	call(r, &(struct hvd_store_op){.kind = kind, .key = S(key), .number = number, .client_number = 1}, value);
}

static void arrive(struct world *w, struct relay *r)
{
	char text[64];

	op(r, HVD_OP_ARRIVE, "", 77, NULL);
	snprintf(text, sizeof(text), "answer %u:%llu done 0; ", r->relay_id, (unsigned long long)r->calls);
	hears(w, r, text);
}

/* --- the root --- */

static void sink(enum hvd_log_level level, const char *text, void *arg)
{
	struct world *w = arg;
	size_t at = strlen(w->said);

	snprintf(w->said + at, sizeof(w->said) - at, "%s\n", text);
}

static int setup(void **state)
{
	struct world *w = calloc(1, sizeof(*w));
	struct hvd_rv_config cfg;

	w->base = event_base_new();
	w->log = hvd_log_make("test", HVD_LOG_VERBOSE);
	w->log.sink = sink;
	w->log.arg = w;
	hvd_rv_config_init(&cfg);
	cfg.tcpstore = true;
	cfg.relay_back = 0.2;
	w->rv = hvd_rv_create(w->base, &cfg, &w->log, NULL);
	*state = w;
	return w->rv ? 0 : -1;
}

TEARDOWN(teardown, struct world, w)
{
	for (int i = 0; i < 3; i++) {
		hvd_conn_free(w->relays[i].conn);
		free(w->relays[i].heard);
	}
	turn(w);
	hvd_rv_destroy(w->rv);
	event_base_free(w->base);
}

/* --- tests --- */

TEST_IN(further_sums_cost_those_who_watch_nothing, struct world *w)
{
	struct relay *a = relay(w, 1), *b = relay(w, 2);

	arrive(w, a);
	arrive(w, b);
	op(b, HVD_OP_ADD, "n", 3, NULL);
	hears(w, b, "answer 2:2 done 3; ");
	watch(a, 1, "n", false);
	hears(w, a, "ask 1 there; ");
	op(b, HVD_OP_ADD, "n", 4, NULL);
	hears(w, b, "answer 2:3 done 7; ");
	hears_nothing(w, a);
}

/* Its relay has asked before it knew of the value. */
TEST_IN(who_waits_for_what_is_there_is_woken, struct world *w)
{
	struct relay *a = relay(w, 1);

	arrive(w, a);
	op(a, HVD_OP_QUEUE_PUSH, "q", 0, "value");
	hears(w, a, "answer 1:2 done 0; ");
	watch(a, 1, "q", true);
	hears(w, a, "ask 1 there; wake 1 one; ");
}

TEST_IN(answers_are_kept_until_they_have_arrived, struct world *w)
{
	const struct hvd_store_op add = {.kind = HVD_OP_ADD, .key = S("n"), .number = 1, .client_number = 1};
	struct relay *a = relay(w, 1);

	arrive(w, a);
	for (int i = 0; i < 2; i++) {
		call_again(a, 2, 2, &add, NULL);
		hears(w, a, "answer 1:2 done 1; ");
	}
	call_again(a, 3, 3, &add, NULL);
	call_again(a, 2, 2, &add, NULL);
	hears(w, a, "answer 1:3 done 2; ");
	/* Another process that is the same relay has none of its clients. */
	call_again(a, 1000, 1000, &add, NULL);
	hears(w, a, "answer 1:1000 no scope 0; ");
}

TEST_IN(barriers_are_cancelled, struct world *w)
{
	struct relay *a = relay(w, 1);

	arrive(w, a);
	op(a, HVD_OP_BARRIER, "b", 2, NULL);
	send_msg(a, &(struct hvd_relay_msg){.type = HVD_RELAY_CANCEL, .relay_id = 1, .call = 2});
	hears(w, a, "answer 1:2 cancelled 0; ");
	/* A client that leaves takes its call along. */
	op(a, HVD_OP_BARRIER, "d", 2, NULL);
	op(a, HVD_OP_LEAVE, "", 0, NULL);
	hears(w, a, "answer 1:3 cancelled 0; answer 1:4 done 0; ");
	op(a, HVD_OP_SET, "x", 0, "late");
	hears(w, a, "answer 1:5 no scope 0; ");
}

/* A number is no right to it: only the connection behind which that relay is speaks for it. */
TEST_IN(a_call_is_cancelled_by_its_own_relay_only, struct world *w)
{
	struct relay *a = relay(w, 1), *b = relay(w, 2);

	arrive(w, a);
	arrive(w, b);
	op(a, HVD_OP_BARRIER, "b", 2, NULL);
	hears_nothing(w, a);
	send_msg(b, &(struct hvd_relay_msg){.type = HVD_RELAY_CANCEL, .relay_id = 1, .call = 2});
	hears_nothing(w, a);
	op(b, HVD_OP_BARRIER, "b", 2, NULL);
	hears(w, b, "answer 2:2 done 2; ");
	hears(w, a, "answer 1:2 done 0; ");
}

TEST_IN(a_relay_that_is_gone_has_left, struct world *w)
{
	struct relay *a = relay(w, 1), *b = relay(w, 2);

	arrive(w, a);
	op(a, HVD_OP_BARRIER, "b", 2, NULL);
	arrive(w, b);
	op(a, HVD_OP_SET, "x", 0, "1");
	hears(w, a, "answer 1:3 done 0; ");
	hvd_rv_tcpstore_ranks(w->rv, 2);
	hvd_conn_free(a->conn);
	a->conn = NULL;
	for (hvd_time until = hvd_deadline_in(0.5); hvd_left(until) > 0;)
		event_base_loop(w->base, EVLOOP_NONBLOCK);
	/* Its number is free, and its first process is as one that has not come before. */
	connect_relay(w, a);
	begin(a, 1, "10.0.0.1");
	call_again(a, 1, 1, &(struct hvd_store_op){.kind = HVD_OP_SET, .key = S("x"), .client_number = 1}, "2");
	hears(w, a, "answer 1:1 no scope 0; ");
	op(b, HVD_OP_GET, "x", 0, NULL);
	hears(w, b, "answer 2:2 done 0 1; ");
}

/* Relays further below, whose calls another one passes on. */
TEST_IN(relays_below_relays, struct world *w)
{
	struct relay *a = relay(w, 1), *b = relay(w, 2);

	arrive(w, a);
	begin(a, 40, "10.0.0.40");
	a->relay_id = 40;
	a->calls = 0;
	op(a, HVD_OP_VISIT, "", 12, NULL);
	op(a, HVD_OP_SET, "x", 0, "1");
	hears(w, a, "answer 40:1 done 0; answer 40:2 done 0; ");
	/* It is connected to the root now: what the other one still says of it is old. */
	begin(b, 40, "10.0.0.40");
	turn(w);
	send_msg(a, &(struct hvd_relay_msg){.type = HVD_RELAY_GONE, .relay_id = 40});
	op(a, HVD_OP_SET, "x", 0, "2");
	turn(w);
	b->relay_id = 40;
	b->calls = 2;
	op(b, HVD_OP_GET, "x", 0, NULL);
	hears(w, b, "answer 40:3 done 0 1; ");
	hears_nothing(w, a);
	/* Who begins for itself with that number takes its place. */
	send_msg(b, &(struct hvd_relay_msg){.type = HVD_RELAY_GONE, .relay_id = 40});
	op(b, HVD_OP_GET, "x", 0, NULL);
	hears(w, b, "closed; ");
	assert_in(w->said, "unregistered relay");
}

TEST_IN(renewing_ends_watches_of_epochs, struct world *w)
{
	struct relay *a = relay(w, 1);

	arrive(w, a);
	watch(a, 1, "x", true);
	watch_http(a, 2, "s", "k");
	hears(w, a, "absent 1; absent 2; ");
	hvd_rv_tcpstore_reset(w->rv);
	hears(w, a, "renew; ");
	arrive(w, a);
	op(a, HVD_OP_SET, "x", 0, "new");
	hears(w, a, "answer 1:3 done 0; ");
	hvd_rv_put(w->rv, "s", "k", "v", 1, NULL);
	hears(w, a, "value 2 v; ");
}

TEST_IN(only_admitted_relays_stay, struct world *w)
{
	static const uint32_t only[] = {2};
	struct relay *a = relay(w, 1), *b = relay(w, 2), *c;

	arrive(w, a);
	arrive(w, b);
	hvd_rv_relay_admit(w->rv, only, 1);
	hears(w, a, "closed; ");
	hears_nothing(w, b);
	c = relay(w, 3);
	hears(w, c, "closed; ");
	assert_in(w->said, "not belong to a host of the job");
	assert_int_equal(relay_count(w->rv), 1);
	hvd_rv_relay_admit(w->rv, NULL, 0);
	a = relay(w, 1);
	a->calls = 0;
	op(a, HVD_OP_VISIT, "", 1, NULL);
	hears(w, a, "answer 1:1 done 0; ");
}

/* A push wakes a relay where nobody waits any longer: whether it says so, or has forgotten the key, the next is woken. */
TEST_IN(a_wake_without_use_passes_to_the_next, struct world *w)
{
	struct relay *a = relay(w, 1), *b = relay(w, 2);

	arrive(w, a);
	arrive(w, b);
	for (int i = 0; i < 2; i++) {
		const char *key = i ? "forgotten" : "unused";
		const uint32_t id = (uint32_t)i + 1;
		char text[64];

		watch(a, id, key, true);
		snprintf(text, sizeof(text), "absent %u; ", id);
		hears(w, a, text);
		watch(b, id, key, true);
		hears(w, b, text);
		op(b, HVD_OP_QUEUE_PUSH, key, 0, "value");
		snprintf(text, sizeof(text), "ask %u there; wake %u one; ", id, id);
		hears(w, a, text);
		snprintf(text, sizeof(text), "ask %u there; answer 2:%u done 0; ", id, id + 1);
		hears(w, b, text);
		send_msg(a, &(struct hvd_relay_msg){.type = i ? HVD_RELAY_UNWATCH : HVD_RELAY_UNUSED, .watch = id});
		snprintf(text, sizeof(text), "wake %u one; ", id);
		hears(w, b, text);
	}
}

TEST_IN(rubbish_ends_the_connection, struct world *w)
{
	static const struct hvd_piece rubbish = {"\xff\xff", 2};
	struct relay *a = relay(w, 1), *b = &w->relays[1], *c = relay(w, 3);

	hvd_conn_send_bytes(a->conn, HVD_CHANNEL_STORE, &rubbish, 1);
	hears(w, a, "closed; ");
	assert_in(w->said, "10.0.0.1");
	assert_in(w->said, "malformed");
	/* Not without having said who it is. */
	connect_relay(w, b);
	watch(b, 1, "x", false);
	hears(w, b, "closed; ");
	/* Two keys with one number. */
	watch_http(c, 1, "s", "k");
	watch_http(c, 1, "s", "kk");
	turn(w);
	hears(w, c, "closed; ");
}

struct waits {
	char *text;
	unsigned n;
};

static void on_waits(char *text, void *arg)
{
	struct waits *w = arg;

	free(w->text);
	w->text = text;
	w->n++;
}

TEST_IN(asks_what_clients_wait_for, struct world *w)
{
	struct hvd_relay_msg msg = {.type = HVD_RELAY_WAITS};
	struct relay *a = relay(w, 1), *b = relay(w, 2);
	struct waits waits = {0};
	hvd_time begun;

	turn(w);
	hvd_rv_tcpstore_ask_waits(w->rv, 2, on_waits, &waits);
	hears(w, a, "ask waits 2; ");
	hears(w, b, "ask waits 2; ");
	msg.text = S("one\ntwo");
	send_msg(a, &msg);
	turn(w);
	assert_int_equal(waits.n, 0);
	msg.text = S("three");
	send_msg(b, &msg);
	turn(w);
	assert_int_equal(waits.n, 1);
	assert_string_equal(waits.text, "one\ntwo");
	/* Who does not answer is not waited for. */
	begun = hvd_now();
	hvd_rv_tcpstore_ask_waits(w->rv, 5, on_waits, &waits);
	turn(w);
	send_msg(b, &msg);
	while (waits.n == 1 && hvd_now() - begun < INT64_C(5000000000))
		event_base_loop(w->base, EVLOOP_ONCE);
	assert_string_equal(waits.text, "three");
	/* The answer that comes too late is not taken for one to the next question. */
	hvd_rv_tcpstore_ask_waits(w->rv, 5, on_waits, &waits);
	msg.text = S("late");
	send_msg(a, &msg);
	msg.text = S("");
	send_msg(a, &msg);
	send_msg(b, &msg);
	turn(w);
	assert_int_equal(waits.n, 3);
	assert_null(waits.text);
	/* Nor is one waited for that goes. */
	hvd_rv_tcpstore_ask_waits(w->rv, 5, on_waits, &waits);
	send_msg(b, &msg);
	hvd_conn_free(a->conn);
	a->conn = NULL;
	turn(w);
	assert_int_equal(waits.n, 4);
}

RUN_TESTS(.no_sigpipe = true, .setup = setup, .teardown = teardown)
