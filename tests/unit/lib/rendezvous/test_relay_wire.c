/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/rendezvous/relay_wire.h"
#include "tests/unit/unit.h"

#include <zstd.h>

static struct hvd_slice S(const char *s) {
	return (struct hvd_slice){s, strlen(s)};
}

static struct hvd_rv_budget
budget(size_t value_max, size_t total_max)
{
	return (struct hvd_rv_budget){.value_max = value_max, .total_max = total_max};
}

static struct hvd_rv_value *value_of(struct hvd_rv_budget *b, const void *data, size_t len)
{
	enum hvd_rv_stored why;
	struct hvd_rv_value *v = hvd_rv_value_new(b, data, len, &why);

	assert_non_null(v);
	return v;
}

/* A value that shrinks a lot. */
static struct hvd_rv_value *zeros(struct hvd_rv_budget *b, size_t len)
{
	void *data = calloc(1, len);
	struct hvd_rv_value *v = value_of(b, data, len);

	free(data);
	return v;
}

static size_t flat(const struct hvd_relay_msg *msg, unsigned char *out, size_t room)
{
	struct hvd_relay_bytes bytes;
	size_t n = 0;

	hvd_relay_encode(msg, &bytes);
	for (size_t i = 0; i < bytes.n; i++) {
		assert_true(n + bytes.pieces[i].n <= room);
		memcpy(out + n, bytes.pieces[i].p, bytes.pieces[i].n);
		n += bytes.pieces[i].n;
	}
	return n;
}

static void assert_slice(struct hvd_slice s, const char *text)
{
	assert_int_equal(s.n, strlen(text));
	assert_memory_equal(s.p, text, s.n);
}

TEST(messages_come_back_as_they_were_sent)
{
	struct hvd_rv_budget b = budget(1 << 20, 1 << 24);
	struct hvd_rv_value *v = value_of(&b, "17", 2);
	struct hvd_relay_msg sent = {.type = HVD_RELAY_CALL, .relay_id = 7, .call = 1ull << 40, .done = 5}, got;
	unsigned char out[1000];
	size_t n;

	sent.op = (struct hvd_store_op){.kind = HVD_OP_COMPARE_SET,
					.scope.epoch = 3,
					.key = S("key"),
					.expected = S("16"),
					.value = v,
					.number = -9,
					.client_number = 12};
	n = flat(&sent, out, sizeof(out));
	assert_int_equal(hvd_relay_parse(out, n, true, &b, &got, NULL), 0);
	assert_int_equal(got.type, HVD_RELAY_CALL);
	assert_int_equal(got.relay_id, 7);
	assert_true(got.call == 1ull << 40 && got.done == 5);
	assert_int_equal(got.op.kind, HVD_OP_COMPARE_SET);
	assert_null(got.op.scope.name.p);
	assert_int_equal(got.op.scope.epoch, 3);
	assert_slice(got.op.key, "key");
	assert_slice(got.op.expected, "16");
	assert_int_equal(got.op.number, -9);
	assert_int_equal(got.op.client_number, 12);
	assert_int_equal(got.op.value->len, 2);
	assert_memory_equal(got.op.value->data, "17", 2);
	hvd_relay_msg_clear(&got);

	sent = (struct hvd_relay_msg){.type = HVD_RELAY_BEGIN, .level = HVD_RELAY_VERSION, .relay_id = 4000000000u};
	hvd_addr_parse("fe80::1", &sent.addr);
	n = flat(&sent, out, sizeof(out));
	assert_int_equal(hvd_relay_parse(out, n, true, &b, &got, NULL), 0);
	assert_int_equal(got.relay_id, 4000000000u);
	assert_true(hvd_addr_equal(&got.addr, &sent.addr));

	sent = (struct hvd_relay_msg){.type = HVD_RELAY_ANSWER, .relay_id = 1, .call = 2};
	sent.result = (struct hvd_store_result){HVD_OP_NO_NUMBER, INT64_MIN, v};
	n = flat(&sent, out, sizeof(out));
	assert_int_equal(hvd_relay_parse(out, n, false, &b, &got, NULL), 0);
	assert_int_equal(got.result.status, HVD_OP_NO_NUMBER);
	assert_true(got.result.number == INT64_MIN);
	assert_int_equal(got.result.value->len, 2);
	hvd_relay_msg_clear(&got);

	hvd_rv_value_unref(v);
	assert_int_equal(b.used, 0);
}

TEST(each_end_takes_what_the_other_one_sends_only)
{
	static const enum hvd_relay_type relays[] = {HVD_RELAY_UNWATCH, HVD_RELAY_UNUSED, HVD_RELAY_GONE},
					 parents[] = {HVD_RELAY_ABSENT, HVD_RELAY_WAKE, HVD_RELAY_RENEW,
						      HVD_RELAY_ASK_WAITS};
	struct hvd_rv_budget b = budget(100, 1000);
	struct hvd_relay_msg msg = {0};
	unsigned char out[100];
	struct hvd_err err;

	for (size_t i = 0; i < 7; i++) {
		bool relay = i < 3;
		size_t n;

		msg = (struct hvd_relay_msg){.type = relay ? relays[i] : parents[i - 3]};
		n = flat(&msg, out, sizeof(out));
		assert_int_equal(hvd_relay_parse(out, n, relay, &b, &msg, NULL), 0);
		assert_fails_with(hvd_relay_parse(out, n, !relay, &b, &msg, &err), err, HVD_E_PROTO, "");
	}
}

TEST(values_are_compressed_where_it_pays)
{
	struct hvd_rv_budget b = budget(1 << 20, 1 << 24);
	struct hvd_rv_value *big = zeros(&b, 100000), *small = zeros(&b, HVD_RV_PACK_MIN - 1), *noise;
	struct hvd_relay_msg msg = {.type = HVD_RELAY_VALUE, .watch = 1}, got;
	unsigned char out[20000], random[10000];
	const void *packed, *again;
	size_t n, len, used;

	for (size_t i = 0, x = 1; i < sizeof(random); i++) {
		x = x * 6364136223846793005u + 1442695040888963407u;
		random[i] = (unsigned char)(x >> 56);
	}
	noise = value_of(&b, random, sizeof(random));
	msg.result.value = big;
	n = flat(&msg, out, sizeof(out));
	assert_true(n < 200);
	assert_int_equal(hvd_relay_parse(out, n, false, &b, &got, NULL), 0);
	assert_int_equal(got.result.value->len, 100000);
	assert_memory_equal(got.result.value->data, big->data, 100000);
	/* It keeps the compressed form, as the value that was sent does. */
	used = b.used;
	assert_true(hvd_rv_value_packed(got.result.value, &packed, &len));
	assert_true(hvd_rv_value_packed(big, &packed, &len));
	assert_true(hvd_rv_value_packed(big, &again, &len));
	assert_ptr_equal(packed, again);
	assert_int_equal(b.used, used);
	/* But not when its bytes change. */
	hvd_rv_value_edit(big);
	big->data[7] = 1;
	msg.result.value = big;
	n = flat(&msg, out, sizeof(out));
	hvd_relay_msg_clear(&got);
	assert_int_equal(hvd_relay_parse(out, n, false, &b, &got, NULL), 0);
	assert_int_equal(got.result.value->data[7], 1);
	hvd_relay_msg_clear(&got);

	msg.result.value = small;
	assert_true(flat(&msg, out, sizeof(out)) >= HVD_RV_PACK_MIN);
	msg.result.value = noise;
	assert_true(flat(&msg, out, sizeof(out)) >= sizeof(random));
	assert_false(hvd_rv_value_packed(noise, &packed, &len));
	hvd_rv_value_unref(big);
	hvd_rv_value_unref(small);
	hvd_rv_value_unref(noise);
	assert_int_equal(b.used, 0);
}

/* VALUE of watch 1, compressed, that says to be of `len` bytes. */
static size_t packed_message(const void *data, size_t data_len, size_t len, unsigned char *out)
{
	unsigned char head[] = {HVD_RELAY_VALUE, 0, 0, 0, 1, 2, 0, 0, 0, 0, 0, 0, 0, 0};

	for (int i = 0; i < 4; i++) {
		head[6 + i] = (unsigned char)(len >> (24 - 8 * i));
		head[10 + i] = (unsigned char)(data_len >> (24 - 8 * i));
	}
	memcpy(out, head, sizeof(head));
	memcpy(out + sizeof(head), data, data_len);
	return sizeof(head) + data_len;
}

TEST(a_value_that_is_longer_than_it_says_is_refused)
{
	struct hvd_rv_budget b = budget(1 << 24, 1 << 25);
	size_t len = 8 << 20;
	void *data = calloc(1, len);
	unsigned char bomb[10000], out[10100];
	size_t packed = ZSTD_compress(bomb, sizeof(bomb), data, len, 1), n;
	struct hvd_relay_msg got;
	struct hvd_err err;

	assert_false(ZSTD_isError(packed));
	free(data);
	n = packed_message(bomb, packed, 1000, out);
	assert_fails_with(hvd_relay_parse(out, n, false, &b, &got, &err), err, HVD_E_PROTO, "");
	assert_true(b.peak < 2000);
	n = packed_message(bomb, packed, len + 1, out);
	assert_int_equal(hvd_relay_parse(out, n, false, &b, &got, &err), -1);
	n = packed_message("rubbish", 7, 100, out);
	assert_int_equal(hvd_relay_parse(out, n, false, &b, &got, &err), -1);
	n = packed_message(bomb, packed, len, out);
	assert_int_equal(hvd_relay_parse(out, n, false, &b, &got, &err), 0);
	hvd_relay_msg_clear(&got);
	assert_int_equal(b.used, 0);

	/* Where there is no room for what it says no memory is taken, and the message is told from others. */
	b = budget(1 << 20, 1 << 25);
	assert_int_equal(hvd_relay_parse(out, n, false, &b, &got, &err), 0);
	assert_int_equal(got.stored, HVD_RV_TOO_LONG);
	assert_null(got.result.value);
	b = budget(1 << 24, 1 << 20);
	assert_int_equal(hvd_relay_parse(out, n, false, &b, &got, &err), 0);
	assert_int_equal(got.stored, HVD_RV_NO_ROOM);
	assert_int_equal(b.peak, 0);
}

TEST(what_is_cut_or_longer_is_refused)
{
	struct hvd_rv_budget b = budget(1 << 20, 1 << 24);
	struct hvd_rv_value *v = value_of(&b, "value", 5);
	struct hvd_relay_msg msg = {.type = HVD_RELAY_CALL, .relay_id = 1, .call = 1}, got;
	unsigned char out[200];
	struct hvd_err err;
	size_t n, used = b.used;

	msg.op = (struct hvd_store_op){
		.kind = HVD_OP_HTTP_PUT, .scope.name = S("scope"), .key = S("key"), .value = v, .client_number = 1};
	n = flat(&msg, out, sizeof(out));
	for (size_t cut = 0; cut < n; cut++) {
		unsigned char *copy = malloc(cut ? cut : 1);

		memcpy(copy, out, cut);
		assert_fails_with(hvd_relay_parse(copy, cut, true, &b, &got, &err), err, HVD_E_PROTO, "");
		assert_int_equal(b.used, used);
		free(copy);
	}
	out[n] = 0;
	assert_fails(hvd_relay_parse(out, n + 1, true, &b, &got, &err), err, "after its end");
	assert_int_equal(hvd_relay_parse(out, n, true, &b, &got, &err), 0);
	hvd_relay_msg_clear(&got);
	/* An operation without the value that it needs, or in a scope of the other kind. */
	msg.op.value = NULL;
	n = flat(&msg, out, sizeof(out));
	assert_int_equal(hvd_relay_parse(out, n, true, &b, &got, &err), -1);
	msg.op.value = v;
	msg.op.scope = (struct hvd_store_scope_id){.epoch = 1};
	n = flat(&msg, out, sizeof(out));
	assert_int_equal(hvd_relay_parse(out, n, true, &b, &got, &err), -1);
	hvd_rv_value_unref(v);
	assert_int_equal(b.used, 0);
}

RUN_TESTS()
