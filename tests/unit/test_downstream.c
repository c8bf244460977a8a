/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A root, and relays made by hand: the test sends each message of a relay, and reads what the root says to it.
 */
#include "lib/base/xalloc.h"
#include "lib/rendezvous/relay_wire.h"
#include "relay_conns.h"

#include <fcntl.h>

#define LONG_VALUE (300 << 10)

struct relay {
	struct hvd_conn *conn; /* NULL: closed by the root */
	uint32_t relay_id;
	char *heard; /* as one says it to people, "; " behind each */
	struct hvd_rv_budget budget;
	uint64_t calls;
	unsigned char last; /* the last byte of the last value */
};

struct place {
	struct event_base *base, *slow; /* `slow` has relays that do not read */
	struct hvd_rv *rv;
	struct hvd_log log;
	char said[512]; /* by the root's log */
	char joined[256];
	struct relay relays[3];
};

static struct hvd_slice S(const char *s) {
	return (struct hvd_slice){s, strlen(s)};
}

/* --- the relay's end --- */

static void
hear_value(struct relay *r, const struct hvd_rv_value *v)
{
	if (!v)
		return;
	r->last = v->len > 0 ? v->data[v->len - 1] : 0;
	if (v->len > 20)
		hvd_xappendf(&r->heard, " (%zu bytes)", v->len);
	else
		hvd_xappendf(&r->heard, " %.*s", (int)v->len, (const char *)v->data);
}

static void on_bytes(struct hvd_conn *conn, const void *data, size_t len, void *arg)
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
	hear_value(r, msg.result.value);
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

static void turn(struct place *p)
{
	for (int i = 0; i < 8; i++)
		event_base_loop(p->base, EVLOOP_NONBLOCK);
}

/* Until the root has said something to this relay, and nothing more. */
static void hears(struct place *p, struct relay *r, const char *text)
{
	hvd_time until = hvd_deadline_in(5);

	while (!r->heard || (strlen(r->heard) < strlen(text) && hvd_left(until) > 0))
		if (event_base_loop(p->base, EVLOOP_NONBLOCK) != 0 || hvd_left(until) <= 0)
			break;
	turn(p);
	assert_string_equal(r->heard ? r->heard : "", text);
	free(r->heard);
	r->heard = NULL;
}

static void hears_nothing(struct place *p, struct relay *r)
{
	turn(p);
	assert_string_equal(r->heard ? r->heard : "", "");
}

static void send_msg(struct relay *r, const struct hvd_relay_msg *msg)
{
	hvd_relay_send(r->conn, msg);
}

static void begin(struct relay *r, uint32_t relay_id, const char *addr)
{
	struct hvd_relay_msg msg = {.type = HVD_RELAY_BEGIN, .level = HVD_RELAY_VERSION, .relay_id = relay_id};

	hvd_addr_parse(addr, &msg.addr);
	send_msg(r, &msg);
}

static void connect_relay(struct place *p, struct relay *r, bool slow)
{
	static const struct hvd_conn_ops ops = {.message = no_message, .closed = on_closed, .bytes = on_bytes};
	struct hvd_conn *down;
	const struct hvd_key key = {{1, 2, 3}};

	hvd_conn_free(r->conn);
	relay_conns(p->base, &r->conn, &down);
	if (slow) {
		int fd = fcntl(hvd_conn_fd(r->conn), F_DUPFD_CLOEXEC, 0);

		hvd_conn_free(r->conn);
		r->conn = hvd_conn_new(p->slow, fd, false, &ops, r);
		hvd_conn_set_key(r->conn, &key);
	}
	hvd_conn_set_ops(r->conn, &ops, r);
	hvd_conn_set_bytes_max(r->conn, 64 << 20);
	hvd_rv_relay_take(p->rv, down);
}

static struct relay *relay_on(struct place *p, uint32_t relay_id, bool slow)
{
	struct relay *r = &p->relays[relay_id - 1];
	char addr[32];

	r->relay_id = relay_id;
	r->budget = (struct hvd_rv_budget){.value_max = 64 << 20, .total_max = (size_t)1 << 30};
	connect_relay(p, r, slow);
	snprintf(addr, sizeof(addr), "10.0.0.%u", relay_id);
	begin(r, relay_id, addr);
	return r;
}

static struct relay *relay(struct place *p, uint32_t relay_id)
{
	return relay_on(p, relay_id, false);
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

static void about(struct relay *r, enum hvd_relay_type type, uint32_t id)
{
	send_msg(r, &(struct hvd_relay_msg){.type = type, .watch = id});
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

/* In epoch 0, by the client at place 1. */
static void op(struct relay *r, enum hvd_store_op_kind kind, const char *key, int64_t number, const char *value)
{
	call(r, &(struct hvd_store_op){.kind = kind, .key = S(key), .number = number, .client_number = 1}, value);
}

static void arrive(struct place *p, struct relay *r)
{
	char text[64];

	op(r, HVD_OP_ARRIVE, "", 77, NULL);
	snprintf(text, sizeof(text), "answer %u:%llu done 0; ", r->relay_id, (unsigned long long)r->calls);
	hears(p, r, text);
}

/* --- the root --- */

static void sink(enum hvd_log_level level, const char *text, void *arg)
{
	struct place *p = arg;
	size_t at = strlen(p->said);

	snprintf(p->said + at, sizeof(p->said) - at, "%s\n", text);
}

static void on_joined(void *arg, const struct hvd_rv_init_event *join)
{
	struct place *p = arg;
	char addr[HVD_ADDR_TEXT];
	size_t at = strlen(p->joined);

	snprintf(p->joined + at, sizeof(p->joined) - at, "%s %u %u; ", hvd_addr_text(&join->from, addr), join->pid,
		 join->epoch);
}

static int open_place(void **state)
{
	struct place *p = calloc(1, sizeof(*p));
	struct hvd_rv_config cfg;

	p->base = event_base_new();
	p->slow = event_base_new();
	p->log = hvd_log_make("test", HVD_LOG_VERBOSE);
	p->log.sink = sink;
	p->log.arg = p;
	hvd_rv_config_init(&cfg);
	cfg.tcpstore = true;
	cfg.joined = on_joined;
	cfg.joined_arg = p;
	cfg.relay_back = 0.2;
	p->rv = hvd_rv_create(p->base, &cfg, &p->log, NULL);
	*state = p;
	return p->rv ? 0 : -1;
}

TEARDOWN(close_place, struct place, p)
{
	for (int i = 0; i < 3; i++) {
		hvd_conn_free(p->relays[i].conn);
		free(p->relays[i].heard);
	}
	turn(p);
	hvd_rv_destroy(p->rv);
	event_base_free(p->base);
	event_base_free(p->slow);
}

static size_t stored(struct place *p)
{
	struct hvd_rv_stats stats;

	hvd_rv_stats(p->rv, &stats);
	return stats.store.bytes;
}

/* --- tests --- */

TEST_IN(watches_are_told_of_each_change, struct place *p)
{
	struct relay *a = relay(p, 1), *b = relay(p, 2);

	watch_http(a, 1, "global", "rank_0");
	hears(p, a, "absent 1; ");
	assert_int_equal(hvd_rv_relay_count(p->rv), 2);
	hvd_rv_put(p->rv, "global", "rank_0", "here", 4, NULL);
	hears(p, a, "value 1 here; ");
	watch_http(b, 9, "global", "rank_0");
	hears(p, b, "value 9 here; ");
	call(b, &(struct hvd_store_op){.kind = HVD_OP_HTTP_PUT, .scope.name = S("global"), .key = S("rank_0")},
	     "there");
	hears(p, b, "value 9 there; answer 2:1 done 200; ");
	hears(p, a, "value 1 there; ");
	/* What is not watched any longer is not told. */
	about(a, HVD_RELAY_UNWATCH, 1);
	turn(p);
	hvd_rv_clear(p->rv, NULL);
	hears(p, b, "absent 9; ");
	hears_nothing(p, a);
}

TEST_IN(counters_are_asked_for, struct place *p)
{
	struct relay *a = relay(p, 1), *b = relay(p, 2);

	arrive(p, a);
	arrive(p, b);
	assert_string_equal(p->joined, "10.0.0.1 77 0; 10.0.0.2 77 0; ");
	watch(a, 1, "n", true);
	hears(p, a, "absent 1; ");
	op(b, HVD_OP_ADD, "n", 3, NULL);
	hears(p, b, "answer 2:2 done 3; ");
	/* It may be told twice that it is there, but it is told that it is so before those who wait go on. */
	turn(p);
	assert_in(a->heard, "ask 1 there; ");
	assert_in(a->heard, "wake 1 all; ");
	assert_true(strstr(a->heard, "ask") < strstr(a->heard, "wake"));
	free(a->heard);
	a->heard = NULL;
	/* Further sums are no news. */
	op(b, HVD_OP_ADD, "n", 4, NULL);
	hears(p, b, "answer 2:3 done 7; ");
	hears_nothing(p, a);
	op(a, HVD_OP_GET, "n", 0, NULL);
	hears(p, a, "answer 1:2 done 0 7; ");
	op(a, HVD_OP_DELETE, "n", 0, NULL);
	hears(p, a, "ask 1 not there; answer 1:3 done 1; ");
	op(a, HVD_OP_SET, "text", 0, "x");
	op(a, HVD_OP_ADD, "text", 1, NULL);
	hears(p, a, "answer 1:4 done 0; answer 1:5 no number 0; ");
}

TEST_IN(calls_are_carried_out_once, struct place *p)
{
	const struct hvd_store_op add = {.kind = HVD_OP_ADD, .key = S("n"), .number = 1, .client_number = 1},
				  get = {.kind = HVD_OP_GET, .key = S("n"), .client_number = 1};
	struct relay *a = relay(p, 1);

	arrive(p, a);
	call_again(a, 2, 2, &add, NULL);
	hears(p, a, "answer 1:2 done 1; ");
	call_again(a, 2, 2, &add, NULL);
	hears(p, a, "answer 1:2 done 1; ");
	/* Also when it has another connection. */
	connect_relay(p, a, false);
	begin(a, 1, "10.0.0.1");
	call_again(a, 2, 2, &add, NULL);
	call_again(a, 3, 2, &add, NULL);
	hears(p, a, "answer 1:2 done 1; answer 1:3 done 2; ");
	/* An answer that it has is not kept. */
	call_again(a, 4, 4, &get, NULL);
	call_again(a, 2, 2, &add, NULL);
	hears(p, a, "answer 1:4 done 0 2; ");
	/* What only reads may be carried out again. */
	call_again(a, 4, 4, &get, NULL);
	hears(p, a, "answer 1:4 done 0 2; ");
	/* A new process of the same number does not get answers of the old one, and is at none of its places. */
	call_again(a, 1000, 1000, &add, NULL);
	hears(p, a, "answer 1:1000 no scope 0; ");
}

TEST_IN(a_push_wakes_one, struct place *p)
{
	struct relay *a = relay(p, 1), *b = relay(p, 2);

	arrive(p, a);
	arrive(p, b);
	watch(a, 1, "q", true);
	hears(p, a, "absent 1; ");
	watch(b, 5, "q", true);
	hears(p, b, "absent 5; ");
	op(b, HVD_OP_QUEUE_PUSH, "q", 0, "first");
	hears(p, a, "ask 1 there; wake 1 one; ");
	hears(p, b, "ask 5 there; answer 2:2 done 0; ");
	/* It was of no use there. */
	about(a, HVD_RELAY_UNUSED, 1);
	hears(p, b, "wake 5 one; ");
	op(b, HVD_OP_QUEUE_POP, "q", 0, NULL);
	hears(p, b, "absent 5; answer 2:3 done 1 first; ");
	hears(p, a, "absent 1; ");
	/* b stays in the line, a does not. */
	op(a, HVD_OP_QUEUE_PUSH, "q", 0, "second");
	op(a, HVD_OP_QUEUE_PUSH, "q", 0, "third");
	hears(p, b, "ask 5 there; wake 5 one; wake 5 one; ");
	hears(p, a, "ask 1 there; answer 1:2 done 0; answer 1:3 done 0; ");
	op(a, HVD_OP_QUEUE_LEN, "q", 0, NULL);
	hears(p, a, "answer 1:4 done 2; ");
	/* Who begins to wait when something is there need not. */
	watch(a, 1, "q", true);
	hears(p, a, "wake 1 one; ");
}

TEST_IN(barriers, struct place *p)
{
	struct relay *a = relay(p, 1), *b = relay(p, 2);

	arrive(p, a);
	arrive(p, b);
	op(a, HVD_OP_BARRIER, "b", 2, NULL);
	hears_nothing(p, a);
	op(b, HVD_OP_BARRIER, "b", 2, NULL);
	hears(p, b, "answer 2:2 done 2; ");
	hears(p, a, "answer 1:2 done 0; ");
	op(a, HVD_OP_BARRIER, "c", 2, NULL);
	send_msg(a, &(struct hvd_relay_msg){.type = HVD_RELAY_CANCEL, .relay_id = 1, .call = 3});
	hears(p, a, "answer 1:3 cancelled 0; ");
	/* A client that leaves takes its call along. */
	op(a, HVD_OP_BARRIER, "d", 2, NULL);
	op(a, HVD_OP_LEAVE, "", 0, NULL);
	hears(p, a, "answer 1:4 cancelled 0; answer 1:5 done 0; ");
	op(a, HVD_OP_SET, "x", 0, "late");
	hears(p, a, "answer 1:6 no scope 0; ");
}

/* A number is no right to it: only the connection behind which that relay is speaks for it. */
TEST_IN(a_call_is_cancelled_by_its_own_relay_only, struct place *p)
{
	struct relay *a = relay(p, 1), *b = relay(p, 2);

	arrive(p, a);
	arrive(p, b);
	op(a, HVD_OP_BARRIER, "b", 2, NULL);
	hears_nothing(p, a);
	send_msg(b, &(struct hvd_relay_msg){.type = HVD_RELAY_CANCEL, .relay_id = 1, .call = 2});
	hears_nothing(p, a);
	op(b, HVD_OP_BARRIER, "b", 2, NULL);
	hears(p, b, "answer 2:2 done 2; ");
	hears(p, a, "answer 1:2 done 0; ");
}

/* What waits for a relay that does not read is a list of keys, without their values; it gets the last ones. */
TEST_IN(who_does_not_read_costs_little, struct place *p)
{
	struct relay *slow = relay_on(p, 1, true), *quick = relay(p, 2);
	char *value = hvd_xcalloc(1, LONG_VALUE);
	unsigned random = 1, n = 0;
	size_t before;

	watch_http(slow, 1, "s", "k");
	watch_http(quick, 1, "s", "k");
	hears(p, quick, "absent 1; ");
	event_base_loop(p->slow, EVLOOP_NONBLOCK);
	for (size_t i = 0; i < LONG_VALUE; i++) { /* that cannot be compressed */
		random = random * 1103515245 + 12345;
		value[i] = (char)(random >> 16);
	}
	hvd_rv_put(p->rv, "s", "k", value, LONG_VALUE, NULL);
	before = stored(p);
	for (unsigned i = 0; i < 200; i++) {
		value[LONG_VALUE - 1] = (char)i;
		hvd_rv_put(p->rv, "s", "k", value, LONG_VALUE, NULL);
		turn(p);
		assert_int_equal(quick->last, i);
	}
	assert_int_in_range(stored(p), 0, before + LONG_VALUE);
	for (hvd_time until = hvd_deadline_in(5); slow->last != 199 && hvd_left(until) > 0;) {
		event_base_loop(p->slow, EVLOOP_NONBLOCK);
		turn(p);
	}
	assert_int_equal(slow->last, 199);
	for (const char *at = slow->heard; (at = strstr(at, "value")); at++)
		n++;
	assert_int_in_range(n, 2, 20);
	free(value);
}

TEST_IN(a_relay_that_is_gone_has_left, struct place *p)
{
	struct relay *a = relay(p, 1), *b = relay(p, 2);

	arrive(p, a);
	op(a, HVD_OP_BARRIER, "b", 2, NULL);
	arrive(p, b);
	op(a, HVD_OP_SET, "x", 0, "1");
	hears(p, a, "answer 1:3 done 0; ");
	hvd_rv_tcpstore_ranks(p->rv, 2);
	hvd_conn_free(a->conn);
	a->conn = NULL;
	for (hvd_time until = hvd_deadline_in(0.5); hvd_left(until) > 0;)
		event_base_loop(p->base, EVLOOP_NONBLOCK);
	/* Its number is free, and its first process is as one that has not come before. */
	connect_relay(p, a, false);
	begin(a, 1, "10.0.0.1");
	call_again(a, 1, 1, &(struct hvd_store_op){.kind = HVD_OP_SET, .key = S("x"), .client_number = 1}, "2");
	hears(p, a, "answer 1:1 no scope 0; ");
	op(b, HVD_OP_GET, "x", 0, NULL);
	hears(p, b, "answer 2:2 done 0 1; ");
}

/* Relays further below, whose calls another one passes on. */
TEST_IN(relays_below_relays, struct place *p)
{
	struct relay *a = relay(p, 1), *b = relay(p, 2);

	arrive(p, a);
	begin(a, 40, "10.0.0.40");
	a->relay_id = 40;
	a->calls = 0;
	op(a, HVD_OP_VISIT, "", 12, NULL);
	op(a, HVD_OP_SET, "x", 0, "1");
	hears(p, a, "answer 40:1 done 0; answer 40:2 done 0; ");
	/* It is connected to the root now: what the other one still says of it is old. */
	begin(b, 40, "10.0.0.40");
	turn(p);
	send_msg(a, &(struct hvd_relay_msg){.type = HVD_RELAY_GONE, .relay_id = 40});
	op(a, HVD_OP_SET, "x", 0, "2");
	turn(p);
	b->relay_id = 40;
	b->calls = 2;
	op(b, HVD_OP_GET, "x", 0, NULL);
	hears(p, b, "answer 40:3 done 0 1; ");
	hears_nothing(p, a);
	/* Who begins for itself with that number takes its place. */
	send_msg(b, &(struct hvd_relay_msg){.type = HVD_RELAY_GONE, .relay_id = 40});
	op(b, HVD_OP_GET, "x", 0, NULL);
	hears(p, b, "closed; ");
	assert_in(p->said, "unregistered relay");
}

TEST_IN(renewing_ends_all_of_the_tcpstore, struct place *p)
{
	struct relay *a = relay(p, 1);

	arrive(p, a);
	watch(a, 1, "x", true);
	watch_http(a, 2, "s", "k");
	hears(p, a, "absent 1; absent 2; ");
	op(a, HVD_OP_BARRIER, "b", 2, NULL);
	turn(p);
	hvd_rv_tcpstore_reset(p->rv);
	turn(p);
	assert_in(a->heard, "renew; ");
	assert_in(a->heard, "answer 1:2 cancelled 0; ");
	free(a->heard);
	a->heard = NULL;
	/* What was under way is of the old processes. */
	op(a, HVD_OP_SET, "x", 0, "old");
	hears(p, a, "answer 1:3 no scope 0; ");
	watch(a, 3, "x", true);
	hears(p, a, "absent 3; ");
	hvd_rv_put(p->rv, "s", "k", "v", 1, NULL);
	hears(p, a, "value 2 v; ");
	/* An epoch that begins is watched by those who did so before. */
	op(a, HVD_OP_ARRIVE, "", 77, NULL);
	op(a, HVD_OP_SET, "x", 0, "new");
	hears(p, a, "answer 1:4 done 0; value 3 new; answer 1:5 done 0; ");
}

TEST_IN(only_admitted_relays_stay, struct place *p)
{
	static const uint32_t only[] = {2};
	struct relay *a = relay(p, 1), *b = relay(p, 2), *c;

	arrive(p, a);
	arrive(p, b);
	hvd_rv_relay_admit(p->rv, only, 1);
	hears(p, a, "closed; ");
	hears_nothing(p, b);
	c = relay(p, 3);
	hears(p, c, "closed; ");
	assert_in(p->said, "not belong to a host of the job");
	assert_int_equal(hvd_rv_relay_count(p->rv), 1);
	hvd_rv_relay_admit(p->rv, NULL, 0);
	a = relay(p, 1);
	a->calls = 0;
	op(a, HVD_OP_VISIT, "", 1, NULL);
	hears(p, a, "answer 1:1 done 0; ");
}

TEST_IN(rubbish_ends_the_connection, struct place *p)
{
	static const struct hvd_piece rubbish = {"\xff\xff", 2};
	struct relay *a = relay(p, 1), *b = &p->relays[1], *c = relay(p, 3);

	hvd_conn_send_bytes(a->conn, &rubbish, 1);
	hears(p, a, "closed; ");
	assert_in(p->said, "10.0.0.1");
	assert_in(p->said, "malformed");
	/* Not without having said who it is. */
	connect_relay(p, b, false);
	watch(b, 1, "x", false);
	hears(p, b, "closed; ");
	/* Two keys with one number. */
	watch_http(c, 1, "s", "k");
	watch_http(c, 1, "s", "kk");
	turn(p);
	hears(p, c, "closed; ");
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

TEST_IN(asks_what_clients_wait_for, struct place *p)
{
	struct hvd_relay_msg msg = {.type = HVD_RELAY_WAITS};
	struct relay *a = relay(p, 1), *b = relay(p, 2);
	struct waits w = {0};
	hvd_time begun;

	turn(p);
	hvd_rv_tcpstore_ask_waits(p->rv, 2, on_waits, &w);
	hears(p, a, "ask waits 2; ");
	hears(p, b, "ask waits 2; ");
	msg.text = S("one\ntwo");
	send_msg(a, &msg);
	turn(p);
	assert_int_equal(w.n, 0);
	msg.text = S("three");
	send_msg(b, &msg);
	turn(p);
	assert_int_equal(w.n, 1);
	assert_string_equal(w.text, "one\ntwo");
	/* Who does not answer is not waited for. */
	begun = hvd_now();
	hvd_rv_tcpstore_ask_waits(p->rv, 5, on_waits, &w);
	turn(p);
	send_msg(b, &msg);
	while (w.n == 1 && hvd_now() - begun < INT64_C(5000000000))
		event_base_loop(p->base, EVLOOP_ONCE);
	assert_string_equal(w.text, "three");
	/* The answer that comes too late is not taken for one to the next question. */
	hvd_rv_tcpstore_ask_waits(p->rv, 5, on_waits, &w);
	msg.text = S("late");
	send_msg(a, &msg);
	msg.text = S("");
	send_msg(a, &msg);
	send_msg(b, &msg);
	turn(p);
	assert_int_equal(w.n, 3);
	assert_null(w.text);
	/* Nor is one waited for that goes. */
	hvd_rv_tcpstore_ask_waits(p->rv, 5, on_waits, &w);
	send_msg(b, &msg);
	hvd_conn_free(a->conn);
	a->conn = NULL;
	turn(p);
	assert_int_equal(w.n, 4);
}

RUN_TESTS(.no_sigpipe = true, .setup = open_place, .teardown = close_place)
