/* SPDX-License-Identifier: Apache-2.0 */
/* Messages of bytes over a connection: whole and in pieces, their limits, and the length of the queue. */
#include "tests/unit/conn_pair.h"

static const struct hvd_key key = {"0123456789abcdef0123456789abcde"};
#define CHANNEL 300

struct end {
	struct hvd_conn *conn;
	int messages, bytes, drained, closed;
	size_t last;      /* the length of the last message of bytes */
	unsigned channel; /* its channel */
	bool as_sent;
	int wanted;              /* leave the loop after so many of both kinds */
	bool free_at, finish_at; /* let go of the connection within the callback */
	struct hvd_err why;
};

/* What the byte at this place of each message of bytes is. */
static unsigned char pattern(size_t i)
{
	return (unsigned char)(i * 7 + (i >> 13));
}

static unsigned char *filled(size_t len)
{
	unsigned char *p = malloc(len ? len : 1);

	assert_non_null(p);
	for (size_t i = 0; i < len; i++)
		p[i] = pattern(i);
	return p;
}

static void count(struct end *end)
{
	if (end->messages + end->bytes == end->wanted)
		event_base_loopbreak(base);
	if (end->free_at)
		hvd_conn_free(end->conn);
	else if (end->finish_at)
		hvd_conn_finish(end->conn, hvd_deadline_in(5));
	if (end->free_at || end->finish_at)
		end->conn = NULL;
}

static void on_message(struct hvd_conn *conn, json_t *msg, void *arg)
{
	struct end *end = arg;

	assert_ptr_equal(conn, end->conn);
	end->messages++;
	count(end);
}

static void on_bytes(unsigned channel, const void *data, size_t len, void *arg)
{
	const unsigned char *p = data;
	struct end *end = arg;

	end->channel = channel;
	end->as_sent = true;
	for (size_t i = 0; i < len; i++)
		end->as_sent = end->as_sent && p[i] == pattern(i);
	end->last = len;
	end->bytes++;
	count(end);
}

static void on_drained(struct hvd_conn *conn, void *arg)
{
	struct end *end = arg;

	assert_ptr_equal(conn, end->conn);
	end->drained++;
	event_base_loopbreak(base);
	if (end->free_at) {
		hvd_conn_free(conn);
		end->conn = NULL;
	}
}

static void on_closed(struct hvd_conn *conn, const struct hvd_err *why, void *arg)
{
	struct end *end = arg;

	assert_ptr_equal(conn, end->conn);
	end->closed++;
	end->why = *why;
	event_base_loopbreak(base);
}

static const struct hvd_conn_ops ops = {.message = on_message, .drained = on_drained, .closed = on_closed};

static void make(struct end *a, struct end *b, size_t max)
{
	memset(a, 0, sizeof(*a));
	memset(b, 0, sizeof(*b));
	a->conn = hvd_conn_new(base, fds[0], true, &ops, a);
	b->conn = hvd_conn_new(base, fds[1], false, &ops, b);
	hvd_conn_set_key(a->conn, &key);
	hvd_conn_set_key(b->conn, &key);
	hvd_conn_open(b->conn, CHANNEL, max, on_bytes, b);
}

static void send_in(struct hvd_conn *conn, unsigned channel, size_t len)
{
	unsigned char *data = filled(len);
	struct hvd_piece piece = {data, len};

	hvd_conn_send_bytes(conn, channel, &piece, 1);
	free(data);
}

static void send_filled(struct hvd_conn *conn, size_t len)
{
	send_in(conn, CHANNEL, len);
}

static void expect_end(struct end *a, struct end *b, enum hvd_errc code, const char *text)
{
	while (!b->closed)
		run();
	assert_int_equal(b->why.code, code);
	assert_in(b->why.msg, text);
	hvd_conn_free(a->conn);
	hvd_conn_free(b->conn);
}

TEST(lengths)
{
	static const size_t len[] = {0,
				     1,
				     5000,
				     HVD_CONN_PIECE - 1,
				     HVD_CONN_PIECE,
				     HVD_CONN_PIECE + 1,
				     2 * HVD_CONN_PIECE,
				     11 * HVD_CONN_PIECE + 77,
				     3};
	struct end a, b;

	make(&a, &b, 12 * HVD_CONN_PIECE);
	for (size_t i = 0; i < sizeof(len) / sizeof(len[0]); i++) {
		send_filled(a.conn, len[i]);
		hvd_conn_send(a.conn, number(1)); /* between two of them is fine */
		b.wanted += 2;
		run();
		assert_int_equal(b.bytes, i + 1);
		assert_int_equal(b.messages, i + 1);
		assert_int_equal(b.last, len[i]);
		assert_true(b.as_sent);
	}
	hvd_conn_free(a.conn);
	hvd_conn_free(b.conn);
}

/* The message is the same however the sender has it in pieces. */
TEST(pieces)
{
	unsigned char *data = filled(HVD_CONN_PIECE + 1000);
	struct hvd_piece list[] = {{data, 0},
				   {data, 1},
				   {NULL, 0},
				   {data + 1, HVD_CONN_PIECE - 2},
				   {data + HVD_CONN_PIECE - 1, 900},
				   {data + HVD_CONN_PIECE + 899, 101},
				   {NULL, 0}};
	struct end a, b;

	make(&a, &b, HVD_CONN_PIECE + 1000);
	b.wanted = 1;
	hvd_conn_send_bytes(a.conn, CHANNEL, list, sizeof(list) / sizeof(list[0]));
	run();
	assert_int_equal(b.last, HVD_CONN_PIECE + 1000);
	assert_true(b.as_sent);
	b.wanted = 2;
	hvd_conn_send_bytes(a.conn, CHANNEL, NULL, 0);
	run();
	assert_int_equal(b.last, 0);
	hvd_conn_free(a.conn);
	hvd_conn_free(b.conn);
	free(data);
}

TEST(many_small_ones)
{
	struct end a, b;

	make(&a, &b, 100);
	for (int i = 0; i < 20000; i++)
		send_filled(a.conn, 3);
	b.wanted = 20000;
	run();
	assert_int_equal(b.bytes, 20000);
	hvd_conn_free(a.conn);
	hvd_conn_free(b.conn);
}

TEST(one_byte_too_many)
{
	struct end a, b;

	make(&a, &b, 3 * HVD_CONN_PIECE);
	send_filled(a.conn, 3 * HVD_CONN_PIECE);
	send_filled(a.conn, 3 * HVD_CONN_PIECE + 1);
	expect_end(&a, &b, HVD_E_LIMIT, "more than 786432 bytes");
	assert_int_equal(b.bytes, 1);
}

TEST(bytes_where_none_are_taken)
{
	struct end a, b;

	make(&a, &b, 10);
	send_filled(b.conn, 1);
	expect_end(&b, &a, HVD_E_PROTO, "of an unexpected kind");
	assert_int_equal(a.bytes, 0);
}

/* Each has its own maximum, and its own function. */
TEST(several_channels)
{
	struct end a, b, other = {.wanted = 2};

	make(&a, &b, 10);
	hvd_conn_open(b.conn, 0, 1000, on_bytes, &other);
	send_in(a.conn, 0, 1000);
	send_filled(a.conn, 10);
	send_in(a.conn, 0, 3);
	run();
	assert_int_equal(other.bytes, 2);
	assert_int_equal(other.last, 3);
	assert_int_equal(other.channel, 0);
	assert_int_equal(b.bytes, 1);
	assert_int_equal(b.channel, CHANNEL);
	send_filled(a.conn, 11);
	expect_end(&a, &b, HVD_E_LIMIT, "more than 10 bytes");
}

TEST(a_channel_that_is_not_open)
{
	struct end a, b;

	make(&a, &b, 1000);
	send_filled(a.conn, 1);
	send_in(a.conn, CHANNEL + 1, 1);
	send_filled(a.conn, 1);
	expect_end(&a, &b, HVD_E_PROTO, "channel 301, which is not open");
	assert_int_equal(b.bytes, 1);
}

TEST(what_arrives_in_a_mute_channel_is_thrown_away)
{
	struct end a, b;

	make(&a, &b, 1000);
	hvd_conn_mute(b.conn, CHANNEL);
	hvd_conn_mute(b.conn, CHANNEL + 1); /* never opened */
	send_filled(a.conn, 1000);
	hvd_conn_send(a.conn, number(1));
	b.wanted = 1;
	run();
	assert_int_equal(b.messages, 1);
	assert_int_equal(b.bytes, 0);
	hvd_conn_open(b.conn, CHANNEL, 1000, on_bytes, &b);
	send_filled(a.conn, 7);
	b.wanted = 2;
	run();
	assert_int_equal(b.last, 7);
	hvd_conn_mute(b.conn, CHANNEL);
	send_filled(a.conn, 1001);
	expect_end(&a, &b, HVD_E_LIMIT, "more than 1000 bytes");
}

TEST(bytes_before_there_is_a_key)
{
	struct end a, b;

	memset(&a, 0, sizeof(a));
	memset(&b, 0, sizeof(b));
	b.conn = hvd_conn_new(base, fds[0], true, &ops, &b);
	send_filled(b.conn, 1);
	assert_int_equal(b.closed, 0); /* not within the call */
	a.conn = hvd_conn_new(base, fds[1], false, &ops, &a);
	expect_end(&a, &b, HVD_E_AUTH, "cannot be sent");
	assert_int_equal(a.bytes, 0);
}

/* Write frames to the socket as a peer could who holds the key. */
struct forger {
	struct hvd_wire wire;
};

static void forge_bytes(struct forger *f, int fd, unsigned channel, size_t len, bool more)
{
	unsigned char *frame = calloc(1, HVD_WIRE_BYTES + len);

	assert_non_null(frame);
	assert_int_equal(hvd_wire_seal_bytes(&f->wire, frame, channel, len, more, NULL), 0);
	assert_int_equal(write(fd, frame, HVD_WIRE_BYTES + len), HVD_WIRE_BYTES + len);
	free(frame);
}

static void forge(struct forger *f, struct end *b, size_t max)
{
	memset(b, 0, sizeof(*b));
	hvd_wire_init(&f->wire, true);
	hvd_wire_set_key(&f->wire, &key);
	b->conn = hvd_conn_new(base, fds[1], false, &ops, b);
	hvd_conn_set_key(b->conn, &key);
	hvd_conn_open(b->conn, CHANNEL, max, on_bytes, b);
}

TEST(json_within_a_message_of_bytes)
{
	json_t *msg = number(1);
	unsigned char *json;
	struct forger f;
	struct end b;
	size_t len;

	forge(&f, &b, 1000);
	forge_bytes(&f, fds[0], CHANNEL, 10, true);
	assert_int_equal(hvd_wire_encode(&f.wire, msg, &json, &len, NULL), 0);
	assert_int_equal(write(fds[0], json, len), len);
	run();
	assert_int_equal(b.closed, 1);
	assert_int_equal(b.why.code, HVD_E_PROTO);
	assert_int_equal(b.messages, 0);
	hvd_conn_free(b.conn);
	close(fds[0]);
	free(json);
	json_decref(msg);
}

TEST(another_channel_within_a_message_of_bytes)
{
	struct forger f;
	struct end b;

	forge(&f, &b, 1000);
	hvd_conn_open(b.conn, 0, 1000, on_bytes, &b);
	forge_bytes(&f, fds[0], CHANNEL, 10, true);
	forge_bytes(&f, fds[0], 0, 10, false);
	run();
	assert_int_equal(b.why.code, HVD_E_PROTO);
	assert_in(b.why.msg, "within a message");
	assert_int_equal(b.bytes, 0);
	hvd_conn_free(b.conn);
	close(fds[0]);
}

TEST(closed_between_two_pieces)
{
	struct forger f;
	struct end b;

	forge(&f, &b, 1000);
	forge_bytes(&f, fds[0], CHANNEL, 10, true);
	close(fds[0]);
	run();
	assert_int_equal(b.why.code, HVD_E_PROTO);
	assert_in(b.why.msg, "within a message");
	hvd_conn_free(b.conn);
}

/* Small pieces that never end take no more than the maximum. */
TEST(pieces_that_never_end)
{
	struct forger f;
	struct end b;

	forge(&f, &b, 1000);
	for (int i = 0; i < 100; i++)
		forge_bytes(&f, fds[0], CHANNEL, 11, true);
	run();
	assert_int_equal(b.why.code, HVD_E_LIMIT);
	assert_int_equal(b.bytes, 0);
	hvd_conn_free(b.conn);
	close(fds[0]);
}

TEST(freed_within_bytes)
{
	struct end a, b;

	for (int i = 0; i < 4; i++) {
		size_t len = i & 1 ? 2 * HVD_CONN_PIECE : 10;

		if (i > 0)
			assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
		make(&a, &b, len);
		b.free_at = i < 2;
		b.finish_at = i >= 2;
		if (b.finish_at)
			send_filled(b.conn, 100000);
		hvd_conn_open(a.conn, CHANNEL, 100000, on_bytes, &a);
		send_filled(a.conn, len);
		send_filled(a.conn, len);
		while (!a.closed)
			run();
		assert_int_equal(b.bytes, 1);
		assert_int_equal(b.closed, 0);
		assert_int_equal(a.bytes, i >= 2);
		hvd_conn_free(a.conn);
	}
}

/* Once for each time that the queue becomes shorter than the limit, and not when it never was longer. */
TEST(drained)
{
	struct end a, b;

	make(&a, &b, 1 << 20);
	hvd_conn_set_low(a.conn, 100000);
	b.wanted = 1;
	send_filled(a.conn, 99000);
	assert_in_range(hvd_conn_queued(a.conn), 99000, 99999);
	run();
	assert_int_equal(a.drained, 0);
	for (int i = 1; i <= 3; i++) {
		send_filled(a.conn, 1 << 20);
		assert_true(hvd_conn_queued(a.conn) > 1 << 20);
		while (a.drained < i)
			run();
		assert_true(hvd_conn_queued(a.conn) < 100000);
	}
	b.wanted = 4;
	while (b.bytes < 4)
		run();
	assert_int_equal(a.drained, 3);
	/* Where the queue is longer when the limit is set. */
	hvd_conn_set_low(a.conn, 0);
	send_filled(a.conn, 1 << 20);
	hvd_conn_set_low(a.conn, 1);
	a.free_at = true;
	while (a.drained < 4)
		run();
	assert_null(a.conn);
	while (!b.closed)
		run();
	assert_int_equal(b.bytes, 5);
	assert_int_equal(b.why.code, HVD_OK);
	hvd_conn_free(b.conn);
}

/* A peer that reads nothing: the queue has all of it, and ends with the connection. */
TEST(queued_for_a_peer_that_does_not_read)
{
	struct end a, b;

	make(&a, &b, 8 << 20);
	hvd_conn_free(b.conn);
	b.conn = NULL;
	assert_int_equal(a.closed, 0);
	send_filled(a.conn, 8 << 20);
	assert_true(hvd_conn_queued(a.conn) >= 8 << 20);
	while (!a.closed)
		run();
	send_filled(a.conn, 10); /* harmless */
	hvd_conn_free(a.conn);
}

RUN_TESTS(.no_sigpipe = true, .setup = open_pair, .teardown = close_pair)
