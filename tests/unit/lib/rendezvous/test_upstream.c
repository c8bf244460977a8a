/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A relay, and its parent made by hand: the test reads each message of the relay, and answers it.
 */
#include "lib/rendezvous/relay_wire.h"
#include "tcpstore_world.h"

#define ORIGIN 5

struct seen {
	enum hvd_relay_type type;
	uint32_t watch;
	uint64_t call;
	bool flag;
	unsigned level;
	char text[256];
	struct hvd_store_op op; /* without what it points to: */
	char scope[32], key[64];
};

static struct parent {
	struct hvd_conn *conn;
	struct seen seen[512];
	size_t n, read;
	struct hvd_rv_budget budget;
	unsigned lost; /* times that the relay has lost its parent */
	struct world *w;
} parent;

/* --- the parent's end --- */

static void copy(char *to, size_t room, struct hvd_slice from)
{
	snprintf(to, room, "%.*s", (int)from.n, from.p ? from.p : "");
}

static void on_bytes(unsigned channel, const void *data, size_t len, void *arg)
{
	struct seen *s = &parent.seen[parent.n++ % 512];
	struct hvd_relay_msg msg;
	struct hvd_err err;

	assert_int_equal(hvd_relay_parse(data, len, true, &parent.budget, &msg, &err), 0);
	*s = (struct seen){.type = msg.type,
			   .watch = msg.watch,
			   .call = msg.call,
			   .flag = msg.flag,
			   .level = msg.level,
			   .op = msg.op};
	copy(s->text, sizeof(s->text), msg.text);
	copy(s->scope, sizeof(s->scope), msg.op.scope.name);
	copy(s->key, sizeof(s->key), msg.op.key);
	hvd_relay_msg_clear(&msg);
}

static void on_message(struct hvd_conn *conn, json_t *msg, void *arg)
{
	fail();
}

static void on_closed(struct hvd_conn *conn, const struct hvd_err *why, void *arg)
{
	hvd_conn_free(conn);
	parent.conn = NULL;
}

static void on_lost(void *arg)
{
	parent.lost++;
}

/* The relay gets a parent, another one if it has one. */
static void adopt(struct world *w)
{
	static const struct hvd_conn_ops ops = {.message = on_message, .closed = on_closed};
	struct hvd_conn *up;

	hvd_conn_free(parent.conn);
	relay_conns(w->base, &up, &parent.conn);
	hvd_conn_set_ops(parent.conn, &ops, NULL);
	hvd_conn_open(parent.conn, HVD_CHANNEL_STORE, 64 << 20, on_bytes, NULL);
	hvd_rv_relay_up(w->rv, up);
}

static void no_more(struct world *w)
{
	turn(w, 0.02);
	assert_int_equal(parent.read, parent.n);
}

/* The next message, which must be of this type. */
static const struct seen *next(struct world *w, enum hvd_relay_type type)
{
	hvd_time until = hvd_deadline_in(5);

	while (parent.read == parent.n) {
		assert_true(hvd_left(until) > 0);
		turn(w, 0);
	}
	assert_int_equal(parent.seen[parent.read % 512].type, type);
	return &parent.seen[parent.read++ % 512];
}

static const struct seen *next_call(struct world *w, enum hvd_store_op_kind kind)
{
	const struct seen *s = next(w, HVD_RELAY_CALL);

	assert_int_equal(s->op.kind, kind);
	return s;
}

static uint32_t next_watch(struct world *w, const char *key, bool waits)
{
	const struct seen *s = next(w, HVD_RELAY_WATCH);

	assert_string_equal(s->key, key);
	assert_int_equal(s->flag, waits);
	return s->watch;
}

static void send_value(struct hvd_relay_msg *msg, const void *data, size_t len)
{
	enum hvd_rv_stored why;

	msg->result.value = data ? hvd_rv_value_new(&parent.budget, data, len, &why) : NULL;
	hvd_relay_send(parent.conn, HVD_CHANNEL_STORE, msg);
	hvd_relay_msg_clear(msg);
}

static void tell_value(uint32_t watch, const char *value)
{
	struct hvd_relay_msg msg = {.type = HVD_RELAY_VALUE, .watch = watch};

	send_value(&msg, value, strlen(value));
}

static void tell(enum hvd_relay_type type, uint32_t watch, bool flag)
{
	struct hvd_relay_msg msg = {.type = type, .watch = watch, .flag = flag};

	hvd_relay_send(parent.conn, HVD_CHANNEL_STORE, &msg);
}

static void answer(const struct seen *call, enum hvd_store_status status, int64_t number, const char *value)
{
	struct hvd_relay_msg msg = {.type = HVD_RELAY_ANSWER, .relay_id = ORIGIN, .call = call->call};

	msg.result.status = status;
	msg.result.number = number;
	send_value(&msg, value, value ? strlen(value) : 0);
}

/* --- the world --- */

static int set_up(void **state)
{
	struct world *w;

	setup(state);
	w = *state;
	memset(&parent, 0, sizeof(parent));
	parent.budget = (struct hvd_rv_budget){.value_max = 64 << 20, .total_max = 256 << 20};
	w->cfg.relay = true;
	w->cfg.relay_id = ORIGIN;
	hvd_addr_parse("10.0.0.7", &w->cfg.relay_addr);
	w->cfg.parent_lost = on_lost;
	w->cfg.parent_lost_arg = w;
	return 0;
}

static int tear_down(void **state)
{
	hvd_conn_free(parent.conn);
	return teardown(state);
}

static void begin_relay(struct world *w)
{
	const struct seen *s;

	begin(w);
	adopt(w);
	s = next(w, HVD_RELAY_BEGIN);
	assert_int_equal(s->level, HVD_RELAY_VERSION);
}

/* A client that has arrived in an epoch. */
static int arrive(struct world *w, uint32_t pid, int64_t epoch)
{
	int fd = meet(w, pid);
	const struct seen *s;

	add_count(&w->out, HVD_TCPSTORE_ADD, "init/", 1);
	say(w, fd);
	s = next_call(w, HVD_OP_ARRIVE);
	assert_int_equal(s->op.number, pid);
	answer(s, HVD_OP_DONE, epoch, NULL);
	s = next_call(w, HVD_OP_ADD);
	assert_string_equal(s->key, "init/");
	assert_int_equal(s->op.scope.epoch, epoch);
	answer(s, HVD_OP_DONE, 1, NULL);
	expect_number(w, fd, 1);
	return fd;
}

/* The client closes its connection. */
static void depart(struct world *w, int fd)
{
	close(fd);
	next_call(w, HVD_OP_LEAVE);
	/* It uses its epoch until the next event of any. */
	close(dial(w));
	turn(w, 0.02);
}

static void check(struct world *w, int fd, const char *key, int expected)
{
	add_keys(&w->out, HVD_TCPSTORE_CHECK, &key, 1);
	expect_byte(w, fd, expected);
}

static void ask(struct world *w, int fd, enum hvd_tcpstore_query query, const char *key)
{
	if (query == HVD_TCPSTORE_WAIT || query == HVD_TCPSTORE_CHECK)
		add_keys(&w->out, query, &key, 1);
	else
		add_key(&w->out, query, key);
	say(w, fd);
}

/* --- reading --- */

/* However many read it, and however often. The keys of a list cost one round trip. */
TEST_IN(each_key_costs_one_watch, struct world *w)
{
	static const char *const keys[] = {"a", "b", "c"};
	uint32_t ids[3];
	int fd[8];

	begin_relay(w);
	for (uint32_t i = 0; i < 8; i++)
		fd[i] = arrive(w, 700 + i, 3);
	for (int i = 0; i < 8; i++) {
		add_keys(&w->out, HVD_TCPSTORE_MULTI_GET, keys, 3);
		say(w, fd[i]);
	}
	for (int i = 0; i < 3; i++)
		ids[i] = next_watch(w, keys[i], false);
	no_more(w);
	for (int i = 0; i < 2; i++)
		tell_value(ids[i], keys[i]);
	tell(HVD_RELAY_ABSENT, ids[2], false);
	for (int i = 0; i < 8; i++) {
		expect_text(w, fd[i], "a");
		expect_text(w, fd[i], "b");
		expect_text(w, fd[i], "");
		for (int n = 0; n < 20; n++)
			check(w, fd[i], n % 2 ? "a" : "c", n % 2 ? 0 : 1);
		depart(w, fd[i]);
	}
	no_more(w);
}

/* --- operations --- */

TEST_IN(a_refused_operation_ends_the_connection, struct world *w)
{
	int fd;

	begin_relay(w);
	fd = arrive(w, 700, 3);
	add_pair(&w->out, HVD_TCPSTORE_APPEND, "k", "x");
	say(w, fd);
	answer(next_call(w, HVD_OP_APPEND), HVD_OP_TOO_LONG, 0, NULL);
	expect_end(w, fd);
	assert_in(said(w), "longer than the store allows");
}

/* --- waiting --- */

TEST_IN(a_barrier_can_be_cancelled, struct world *w)
{
	const struct seen *s;
	uint64_t id;
	int fd;

	begin_relay(w);
	fd = arrive(w, 700, 3);
	add_count(&w->out, HVD_TCPSTORE_BARRIER, "/b", 2);
	say(w, fd);
	s = next_call(w, HVD_OP_BARRIER);
	assert_int_equal(s->op.number, 2);
	id = s->call;
	answer(next_call(w, HVD_OP_QUEUE_LEN), HVD_OP_DONE, 0, NULL);
	assert_text(hvd_rv_tcpstore_waits(w->rv, 5), "10.0.0.7 (pid 700) waits for b");
	add_query(&w->out, HVD_TCPSTORE_CANCEL_WAIT);
	expect_byte(w, fd, 1);
	s = next(w, HVD_RELAY_CANCEL);
	assert_int_equal(s->call, id);
	assert_null(hvd_rv_tcpstore_waits(w->rv, 5));
	add_count(&w->out, HVD_TCPSTORE_BARRIER, "/b", 2);
	say(w, fd);
	answer(next_call(w, HVD_OP_BARRIER), HVD_OP_DONE, 2, NULL);
	expect_byte(w, fd, 0);
	add_query(&w->out, HVD_TCPSTORE_CANCEL_WAIT); /* it is not handled before it is known whether all have come */
	expect_nothing(w, fd);
	answer(next_call(w, HVD_OP_QUEUE_LEN), HVD_OP_DONE, 0, NULL);
	expect_byte(w, fd, 1);
	close(fd);
}

TEST_IN(says_what_its_clients_wait_for, struct world *w)
{
	struct hvd_relay_msg msg = {.type = HVD_RELAY_ASK_WAITS, .level = 10};
	int fd, other;

	begin_relay(w);
	fd = arrive(w, 700, 3);
	hvd_relay_send(parent.conn, HVD_CHANNEL_STORE, &msg);
	assert_string_equal(next(w, HVD_RELAY_WAITS)->text, "");
	ask(w, fd, HVD_TCPSTORE_WAIT, "/k");
	tell(HVD_RELAY_ABSENT, next_watch(w, "/k", true), false);
	turn(w, 0.02);
	hvd_relay_send(parent.conn, HVD_CHANNEL_STORE, &msg);
	assert_string_equal(next(w, HVD_RELAY_WAITS)->text, "10.0.0.7 (pid 700) waits for k");
	/* The parent counts the answers, so each of two questions that come together gets its own. */
	other = arrive(w, 701, 3);
	ask(w, other, HVD_TCPSTORE_WAIT, "/k");
	turn(w, 0.02);
	msg.level = 1;
	hvd_relay_send(parent.conn, HVD_CHANNEL_STORE, &msg);
	msg.level = 10;
	hvd_relay_send(parent.conn, HVD_CHANNEL_STORE, &msg);
	assert_null(strchr(next(w, HVD_RELAY_WAITS)->text, '\n'));
	assert_non_null(strchr(next(w, HVD_RELAY_WAITS)->text, '\n'));
	close(other);
	close(fd);
}

/* --- epochs --- */

TEST_IN(connections_say_where_they_belong_to, struct world *w)
{
	uint32_t first, second, client;
	const struct seen *s;
	int fd, other, tool;

	begin_relay(w);
	fd = arrive(w, 700, 3);
	other = arrive(w, 701, 4);
	ask(w, fd, HVD_TCPSTORE_GET, "k");
	first = next_watch(w, "k", false);
	tell_value(first, "of 3");
	expect_text(w, fd, "of 3");
	ask(w, other, HVD_TCPSTORE_GET, "k");
	second = next_watch(w, "k", false);
	assert_int_not_equal(first, second);
	tell_value(second, "of 4");
	expect_text(w, other, "of 4");
	tool = meet(w, 700);
	ask(w, tool, HVD_TCPSTORE_GET, "k");
	s = next_call(w, HVD_OP_VISIT);
	assert_int_equal(s->op.number, 700);
	client = s->op.client_number;
	answer(s, HVD_OP_DONE, 3, NULL);
	expect_text(w, tool, "of 3");
	close(tool);
	assert_int_equal(next_call(w, HVD_OP_LEAVE)->op.client_number, client);
	no_more(w);
	/* An old epoch ends with its last connection, the newest does not. */
	depart(w, fd);
	assert_int_equal(next(w, HVD_RELAY_UNWATCH)->watch, first);
	depart(w, other);
	no_more(w);
}

/* --- the parent --- */

TEST_IN(rubbish_ends_the_connection, struct world *w)
{
	static const char *const rubbish[] = {"", "x", "\x20\x00\x00", "\x01\x01"};
	int fd;

	begin_relay(w);
	fd = arrive(w, 700, 3);
	ask(w, fd, HVD_TCPSTORE_GET, "known");
	tell_value(next_watch(w, "known", false), "x");
	expect_text(w, fd, "x");
	for (size_t i = 0; i < sizeof(rubbish) / sizeof(rubbish[0]); i++) {
		struct hvd_piece piece = {rubbish[i], strlen(rubbish[i])};

		hvd_conn_send_bytes(parent.conn, HVD_CHANNEL_STORE, &piece, 1);
		turn(w, 0.02);
		assert_null(parent.conn);
		assert_int_equal(parent.lost, i + 1);
		adopt(w);
		next(w, HVD_RELAY_BEGIN);
		no_more(w); /* a key that nobody needs is not known any longer */
	}
	hvd_conn_send(parent.conn, json_pack("{s:s}", "t", "waits"));
	turn(w, 0.02);
	assert_null(parent.conn);
	assert_in(said(w), "not a rendezvous message");
	close(fd);
}

TEST_IN(a_silent_parent_is_lost, struct world *w)
{
	int fd;

	w->cfg.parent_wait = 0.1;
	begin_relay(w);
	fd = arrive(w, 700, 3);
	turn(w, 0.3); /* it owes nothing */
	assert_int_equal(parent.lost, 0);
	add_count(&w->out, HVD_TCPSTORE_BARRIER, "b", 2); /* others have to come */
	say(w, fd);
	next_call(w, HVD_OP_BARRIER);
	answer(next_call(w, HVD_OP_QUEUE_LEN), HVD_OP_DONE, 0, NULL);
	turn(w, 0.3);
	assert_int_equal(parent.lost, 0);
	ask(w, fd, HVD_TCPSTORE_GET, "k");
	turn(w, 0.3);
	assert_int_equal(parent.lost, 1);
	assert_in(said(w), "it has not answered for 0.1 seconds");
	close(fd);
}

TEST_IN(without_a_parent_clients_are_closed, struct world *w)
{
	static const char *const key[] = {"k"};
	uint32_t id;
	int fd[3];

	begin_relay(w);
	for (uint32_t i = 0; i < 3; i++)
		fd[i] = arrive(w, 700 + i, 3);
	add_keys(&w->out, HVD_TCPSTORE_WAIT, key, 1);
	say(w, fd[0]);
	id = next_watch(w, "k", true);
	tell(HVD_RELAY_ABSENT, id, false);
	turn(w, 0.02);
	ask(w, fd[1], HVD_TCPSTORE_GET, "other");
	turn(w, 0.02);
	hvd_rv_relay_up(w->rv, NULL);
	for (int i = 0; i < 3; i++)
		expect_end(w, fd[i]);
	fd[0] = dial(w);
	add_validate(&w->out);
	expect_end(w, fd[0]);
}

/* --- memory --- */

TEST_IN(what_cannot_be_known_is_not_told, struct world *w)
{
	char name[8000];
	int fd[2];

	w->cfg.store.total_max = 7000;
	begin_relay(w);
	for (uint32_t i = 0; i < 2; i++)
		fd[i] = arrive(w, 700 + i, 3);
	memset(name, 'k', 7500);
	name[7500] = '\0';
	ask(w, fd[0], HVD_TCPSTORE_CHECK, name);
	expect_end(w, fd[0]);
	assert_in(said(w), "process 700 at 10.0.0.7: the store has no room left");
	close(fd[1]);
}

TEST_IN(what_has_no_room_is_asked_for, struct world *w)
{
	struct hvd_relay_msg msg = {.type = HVD_RELAY_VALUE};
	static char large[200000];
	int fd;

	w->cfg.store.total_max = 150000;
	begin_relay(w);
	fd = arrive(w, 700, 3);
	ask(w, fd, HVD_TCPSTORE_GET, "small");
	tell_value(next_watch(w, "small", false), "s");
	expect_text(w, fd, "s");
	ask(w, fd, HVD_TCPSTORE_GET, "k");
	msg.watch = next_watch(w, "k", false);
	for (size_t i = 0; i < sizeof(large); i++)
		large[i] = (char)(i * i >> 3);
	send_value(&msg, large, sizeof(large));
	next(w, HVD_RELAY_UNWATCH); /* of "small" */
	answer(next_call(w, HVD_OP_GET), HVD_OP_DONE, 0, "short by now");
	expect_text(w, fd, "short by now");
	close(fd);
}

/* --- HTTP --- */

static int http(struct world *w, const char *method, const char *path, const char *body)
{
	int fd = dial(w);
	char text[512];
	int n = snprintf(text, sizeof(text), "%s %s HTTP/1.1\r\nContent-Length: %zu\r\n\r\n%s", method, path,
			 strlen(body), body);

	add_raw(&w->out, text, (size_t)n);
	say(w, fd);
	return fd;
}

/* The whole answer begins with `head` and ends with `tail`. */
static void expect_http(struct world *w, int fd, const char *head, const char *tail)
{
	char text[1024] = "";
	size_t n = 0;

	while (n < sizeof(text) - 1 && hear(w, fd, text + n, 1))
		n++;
	assert_in(text, head);
	assert_true(strlen(text) >= strlen(tail));
	assert_string_equal(text + strlen(text) - strlen(tail), tail);
	close(fd);
}

TEST_IN(a_hook_is_asked_through_the_relay, struct world *w)
{
	const struct seen *s;
	int fd[2];

	begin_relay(w);
	fd[0] = http(w, "GET", "/rank_and_size/h.0", "");
	tell(HVD_RELAY_ASK, next(w, HVD_RELAY_WATCH)->watch, false);
	s = next_call(w, HVD_OP_HTTP_GET);
	assert_string_equal(s->scope, "rank_and_size");
	assert_string_equal(s->key, "h.0");
	fd[1] = http(w, "GET", "/rank_and_size/h.0", "");
	answer(next_call(w, HVD_OP_HTTP_GET), HVD_OP_DONE, 404, NULL);
	expect_http(w, fd[1], "HTTP/1.1 404", "\r\n\r\n");
	answer(s, HVD_OP_DONE, 200, "0,1,0");
	expect_http(w, fd[0], "HTTP/1.1 200", "\r\n\r\n0,1,0");
	fd[0] = http(w, "GET", "/rank_and_size/h.0", "");
	s = next_call(w, HVD_OP_HTTP_GET);
	close(fd[0]);
	assert_int_equal(next(w, HVD_RELAY_CANCEL)->call, s->call);
	fd[0] = http(w, "GET", "/rank_and_size/h.0", "");
	next_call(w, HVD_OP_HTTP_GET);
	fd[1] = http(w, "GET", "/s/unknown", "");
	next(w, HVD_RELAY_WATCH);
	hvd_rv_relay_up(w->rv, NULL);
	expect_http(w, fd[0], "HTTP/1.1 503", "\r\n\r\n");
	expect_http(w, fd[1], "HTTP/1.1 503", "\r\n\r\n");
	fd[0] = http(w, "PUT", "/s/k", "x");
	expect_http(w, fd[0], "HTTP/1.1 503", "\r\n\r\n");
	fd[0] = http(w, "GET", "/s/k", "");
	expect_http(w, fd[0], "HTTP/1.1 503", "\r\n\r\n");
}

/* What a relay below has received last. */
struct below {
	enum hvd_relay_type heard;
	bool present, closed;
};

static void on_bytes_below(unsigned channel, const void *data, size_t len, void *arg)
{
	struct below *b = arg;
	struct hvd_relay_msg msg;

	assert_int_equal(hvd_relay_parse(data, len, false, &parent.budget, &msg, NULL), 0);
	b->heard = msg.type;
	b->present = msg.flag;
	hvd_relay_msg_clear(&msg);
}

static void hears_below(struct world *w, const struct below *b, enum hvd_relay_type type)
{
	hvd_time until = hvd_deadline_in(5);

	while (b->heard != type && hvd_left(until) > 0)
		turn(w, 0);
	assert_int_equal(b->heard, type);
}

static void closed_below(struct hvd_conn *conn, const struct hvd_err *why, void *arg)
{
	((struct below *)arg)->closed = true;
}

/* A relay connects to this one. */
static struct hvd_conn *begin_below(struct world *w, struct below *below)
{
	static const struct hvd_conn_ops ops = {.message = on_message, .closed = closed_below};
	struct hvd_relay_msg msg = {.type = HVD_RELAY_BEGIN, .level = HVD_RELAY_VERSION, .relay_id = 9};
	struct hvd_conn *child, *down;

	*below = (struct below){.heard = HVD_RELAY_BEGIN};
	begin_relay(w);
	relay_conns(w->base, &child, &down);
	hvd_conn_set_ops(child, &ops, below);
	hvd_conn_open(child, HVD_CHANNEL_STORE, 64 << 20, on_bytes_below, below);
	hvd_rv_relay_take(w->rv, down);
	hvd_addr_parse("10.0.0.9", &msg.addr);
	hvd_relay_send(child, HVD_CHANNEL_STORE, &msg);
	assert_true(next(w, HVD_RELAY_BEGIN) != NULL); /* the root is told of it */
	return child;
}

/* An inner relay has no room to know a key for which somebody waits below: nobody would end the wait. */
TEST_IN(those_below_do_not_wait_for_what_cannot_be_known, struct world *w)
{
	struct hvd_relay_msg msg = {.type = HVD_RELAY_WATCH, .watch = 1};
	static char name[7500];
	struct below below;
	struct hvd_conn *child;
	hvd_time until;

	w->cfg.store.total_max = 3 * sizeof(name);
	child = begin_below(w, &below);
	memset(name, 'k', sizeof(name));
	msg.op.scope.epoch = 3;
	msg.op.key = (struct hvd_slice){name, sizeof(name)};
	hvd_relay_send(child, HVD_CHANNEL_STORE, &msg);
	hears_below(w, &below, HVD_RELAY_ASK);
	assert_false(below.present);
	msg.flag = true; /* waits */
	hvd_relay_send(child, HVD_CHANNEL_STORE, &msg);
	for (until = hvd_deadline_in(5); !below.closed && hvd_left(until) > 0;)
		turn(w, 0);
	assert_true(below.closed);
	assert_in(said(w), "the store has no room left for the keys that it watches");
	hvd_conn_free(child);
}

/* A relay below forgets a key to which a WAKE is under way: the parent learns of it, or is asked again for those who wait
 * here. */
TEST_IN(a_wake_for_a_key_that_is_forgotten_below, struct world *w)
{
	struct hvd_relay_msg msg = {.op.scope.epoch = 3, .op.key = {"q", 1}, .flag = true};
	struct below below;
	struct hvd_conn *child = begin_below(w, &below);
	int fd = arrive(w, 700, 3);

	for (int waits_here = 0; waits_here < 2; waits_here++) {
		uint32_t id;

		msg.type = HVD_RELAY_WATCH;
		msg.watch++;
		hvd_relay_send(child, HVD_CHANNEL_STORE, &msg);
		if (!waits_here)
			next_watch(w, "q", false);
		id = next_watch(w, "q", true);
		tell(HVD_RELAY_ASK, id, false);
		hears_below(w, &below, HVD_RELAY_ASK);
		tell(HVD_RELAY_ASK, id, true);
		tell(HVD_RELAY_WAKE, id, false);
		hears_below(w, &below, HVD_RELAY_WAKE);
		tell(HVD_RELAY_ASK, id, false);
		hears_below(w, &below, HVD_RELAY_ASK);
		if (waits_here)
			ask(w, fd, HVD_TCPSTORE_WAIT, "q");
		turn(w, 0.02);
		msg.type = HVD_RELAY_UNWATCH;
		hvd_relay_send(child, HVD_CHANNEL_STORE, &msg);
		if (waits_here)
			assert_int_equal(next_watch(w, "q", true), id);
		else
			assert_int_equal(next(w, HVD_RELAY_UNUSED)->watch, id);
	}
	close(fd);
	hvd_conn_free(child);
}

RUN_TESTS(.setup = set_up, .teardown = tear_down)
