/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/protocol/wire.h"

#include "tests/unit/unit.h"
#include "tests/unit/wire_decode.h"

static const struct hvd_key key = {"0123456789abcdef0123456789abcde"};

struct pair {
	struct hvd_wire server, client;
};

static struct pair keyed(void)
{
	struct pair p;

	hvd_wire_init(&p.server, true);
	hvd_wire_init(&p.client, false);
	hvd_wire_set_key(&p.server, &key);
	hvd_wire_set_key(&p.client, &key);
	return p;
}

/* A frame with {"t":text}. Caller frees. */
static unsigned char *frame(struct hvd_wire *wire, const char *text, size_t *len)
{
	json_t *msg = json_pack("{s:s}", "t", text);
	unsigned char *bytes = NULL;

	assert_int_equal(hvd_wire_encode(wire, msg, &bytes, len, NULL), 0);
	json_decref(msg);
	return bytes;
}

static int take(struct hvd_wire *wire, const unsigned char *bytes, size_t len, const char *want, struct hvd_err *err)
{
	size_t used;
	json_t *msg;
	const char *text;
	int rc = wire_decode(wire, bytes, len, &used, &msg, err);

	assert_int_equal(used, rc == 1 ? len : 0);
	if (rc != 1) {
		assert_null(msg);
		return rc;
	}
	if (want) {
		assert_int_equal(hvd_get_str(msg, "t", 1000, &text, NULL), 0);
		assert_string_equal(text, want);
	}
	json_decref(msg);
	return 1;
}

TEST(round_trip)
{
	struct hvd_wire a, b;
	struct pair p;
	unsigned char *bytes;
	size_t len;

	hvd_wire_init(&a, true);
	hvd_wire_init(&b, false);
	bytes = frame(&a, "open", &len);
	assert_memory_equal(bytes, "HV\4\0\0\0\0", 7);
	assert_int_equal(take(&b, bytes, len, "open", NULL), 1);
	free(bytes);
	p = keyed();
	for (int i = 0; i < 5; i++) {
		bytes = frame(&p.server, "to the client", &len);
		assert_int_equal(take(&p.client, bytes, len, "to the client", NULL), 1);
		free(bytes);
		bytes = frame(&p.client, "to the server", &len);
		assert_int_equal(take(&p.server, bytes, len, "to the server", NULL), 1);
		free(bytes);
	}
}

/* Half a frame is waited for, however it was cut, and never read past its end. */
TEST(every_cut_is_waited_for)
{
	struct pair p = keyed();
	size_t len;
	unsigned char *bytes = frame(&p.server, "cut", &len);

	for (size_t n = 0; n < len; n++) {
		unsigned char *part = malloc(n ? n : 1);

		assert_non_null(part);
		memcpy(part, bytes, n);
		assert_int_equal(take(&p.client, part, n, NULL, NULL), 0);
		free(part);
	}
	assert_int_equal(take(&p.client, bytes, len, "cut", NULL), 1);
	free(bytes);
}

TEST(two_frames_in_one_buffer)
{
	struct pair p = keyed();
	size_t one, two, used;
	unsigned char *a = frame(&p.server, "one", &one), *b = frame(&p.server, "two", &two), *both = malloc(one + two);
	json_t *msg;

	assert_non_null(both);
	memcpy(both, a, one);
	memcpy(both + one, b, two);
	assert_int_equal(wire_decode(&p.client, both, one + two, &used, &msg, NULL), 1);
	assert_int_equal(used, one);
	json_decref(msg);
	assert_int_equal(take(&p.client, both + one, two, "two", NULL), 1);
	free(a);
	free(b);
	free(both);
}

static void expect_refused(struct hvd_wire *wire, const unsigned char *bytes, size_t len, enum hvd_errc code)
{
	struct hvd_err err = {0};

	assert_fails_with(take(wire, bytes, len, NULL, &err), err, code, "");
	assert_true(err.msg[0] != '\0');
}

TEST(replayed_reordered_reflected)
{
	struct pair p = keyed();
	struct hvd_wire fresh = p.client, other = p.client;
	struct hvd_key wrong = key;
	size_t l1, l2;
	unsigned char *first = frame(&p.server, "first", &l1), *second = frame(&p.server, "second", &l2);

	expect_refused(&fresh, second, l2, HVD_E_AUTH);   /* reordered, or the first was dropped */
	expect_refused(&p.server, first, l1, HVD_E_AUTH); /* reflected to who sent it */
	assert_int_equal(take(&p.client, first, l1, "first", NULL), 1);
	expect_refused(&p.client, first, l1, HVD_E_AUTH); /* replayed */
	assert_int_equal(take(&p.client, second, l2, "second", NULL), 1);
	wrong.b[31] ^= 1;
	hvd_wire_set_key(&other, &wrong);
	expect_refused(&other, first, l1, HVD_E_AUTH);
	free(first);
	free(second);
}

TEST(setting_a_key_restarts_the_counters)
{
	struct pair p = keyed();
	size_t len;
	unsigned char *bytes = frame(&p.server, "1", &len);

	assert_int_equal(take(&p.client, bytes, len, "1", NULL), 1);
	free(bytes);
	hvd_wire_set_key(&p.server, &key);
	hvd_wire_set_key(&p.client, &key);
	assert_int_equal(p.server.sent, 0);
	bytes = frame(&p.server, "2", &len);
	assert_int_equal(take(&p.client, bytes, len, "2", NULL), 1);
	free(bytes);
}

TEST(signed_and_unsigned_do_not_mix)
{
	struct pair p = keyed();
	struct hvd_wire open_server, open_client;
	size_t len;
	unsigned char *bytes;

	hvd_wire_init(&open_server, true);
	hvd_wire_init(&open_client, false);
	bytes = frame(&open_server, "x", &len);
	expect_refused(&p.client, bytes, len, HVD_E_AUTH);
	free(bytes);
	bytes = frame(&p.server, "x", &len);
	expect_refused(&open_client, bytes, len, HVD_E_AUTH);
	free(bytes);
}

/* A hundred megabytes are refused by their head, not waited for; so is what is no frame at all. */
TEST(heads)
{
	static const struct {
		const char *bytes;
		size_t len;
		enum hvd_errc code;
	} rows[] = {
		{"G", 1, HVD_E_PROTO},
		{"HT", 2, HVD_E_PROTO},
		{"HV\5", 3, HVD_E_PROTO},
		{"HV\0", 3, HVD_E_PROTO},
		{"HV\4\1", 4, HVD_E_AUTH},
		{"HV\4\2", 4, HVD_E_PROTO},
		{"HV\4\0\0\0\x20\1", 8, HVD_E_LIMIT},
		{"HV\4\0\xff\xff\xff\xff", 8, HVD_E_LIMIT},
		{"HV\4\0\0\0\0\0", 8, HVD_E_PROTO}, /* empty */
		{"HV\4\0\0\0\0\2[]", 10, HVD_E_PROTO},
		{"HV\4\0\0\0\0\2{x", 10, HVD_E_PROTO},
		{"HV\4\0\0\0\0\4null", 12, HVD_E_PROTO},
		{"HV\4\0\0\0\0\x0d{\"a\":1,\"a\":2}", 21, HVD_E_PROTO}, /* which of them? */
		{"HV\4\0\0\0\0\7{\"\xff\":1}", 15, HVD_E_PROTO},
		{"HV\4\0\0\0\0\4{}{}", 12, HVD_E_PROTO},
	};
	struct hvd_wire wire;
	struct hvd_err err = {0};

	hvd_wire_init(&wire, false);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		expect_refused(&wire, (const unsigned char *)rows[i].bytes, rows[i].len, rows[i].code);
	assert_int_equal(take(&wire, (const unsigned char *)"HV\4\0\0\0\x20\0", 8, NULL, NULL), 0);
	assert_int_equal(take(&wire, (const unsigned char *)"HV\4\0\0\0\0\2{}", 10, NULL, NULL), 1);
	take(&wire, (const unsigned char *)"HV\5", 3, NULL, &err);
	assert_in(err.hint, "same release");
}

/* A body of exactly `body` bytes. */
static int encode_of(struct hvd_wire *wire, size_t body, struct hvd_err *err)
{
	char *text = malloc(body);
	unsigned char *bytes;
	size_t len;
	json_t *msg;
	int rc;

	assert_non_null(text);
	memset(text, 'a', body);
	msg = json_pack("{s:s#}", "t", text, (int)(body - strlen("{\"t\":\"\"}")));
	rc = hvd_wire_encode(wire, msg, &bytes, &len, err);
	if (rc == 0)
		free(bytes);
	json_decref(msg);
	free(text);
	return rc;
}

TEST(limits_of_what_is_sent)
{
	struct pair p = keyed();
	struct hvd_wire open;
	struct hvd_err err = {0};
	unsigned char *bytes;
	size_t len;

	hvd_wire_init(&open, true);
	assert_int_equal(encode_of(&open, HVD_WIRE_MAX_OPEN, NULL), 0);
	assert_fails_with(encode_of(&open, HVD_WIRE_MAX_OPEN + 1, &err), err, HVD_E_LIMIT, "");
	assert_int_equal(encode_of(&p.server, HVD_WIRE_MAX, NULL), 0);
	assert_int_equal(encode_of(&p.server, HVD_WIRE_MAX + 1, &err), -1);
	assert_int_equal(p.server.sent, 1); /* what was not sent is not counted */
	assert_fails_with(hvd_wire_encode(&open, NULL, &bytes, &len, &err), err, HVD_E_PROTO, "");
}

/* A frame of bytes, which the caller frees. */
#define CHANNEL 0x1f7
static unsigned char *bytes_frame(struct hvd_wire *wire, const char *text, bool more, size_t *len)
{
	unsigned char *bytes = calloc(1, HVD_WIRE_BYTES + strlen(text) + 1);

	assert_non_null(bytes);
	memcpy(bytes + HVD_WIRE_BYTES, text, strlen(text));
	*len = HVD_WIRE_BYTES + strlen(text);
	assert_int_equal(hvd_wire_seal_bytes(wire, bytes, CHANNEL, strlen(text), more, NULL), 0);
	return bytes;
}

TEST(bytes_round_trip)
{
	struct pair p = keyed();
	struct hvd_frame got;
	size_t len;

	p.client.bytes = true;
	for (int i = 0; i < 6; i++) {
		const char *text = i % 3 == 2 ? "" : "{\"t\":\"no JSON\"}";
		unsigned char *bytes = bytes_frame(&p.server, text, i % 3 == 1, &len);

		for (size_t n = 0; n < len; n++) {
			assert_int_equal(hvd_wire_read(&p.client, bytes, n, &got, NULL), 0);
			assert_int_equal(got.used, n < HVD_WIRE_HEAD ? HVD_WIRE_HEAD : len);
		}
		assert_int_equal(hvd_wire_read(&p.client, bytes, len, &got, NULL), 1);
		assert_null(got.msg);
		assert_int_equal(got.used, len);
		assert_int_equal(got.len, strlen(text));
		assert_memory_equal(got.bytes, text, got.len);
		assert_int_equal(got.channel, CHANNEL);
		assert_int_equal(got.more, i % 3 == 1);
		free(bytes);
	}
}

/* Each bit of each byte, also of the flags, of frames of bytes, of pieces, and of JSON: the frame is refused, or (where
 * the length grew) still waited for. */
TEST(no_bit_may_change)
{
	struct pair p = keyed();
	struct hvd_frame got;
	size_t len;

	p.client.bytes = true;
	for (int kind = 0; kind < 3; kind++) {
		struct hvd_wire sender = p.server;
		unsigned char *bytes = kind == 2 ? frame(&sender, "{}", &len) : bytes_frame(&sender, "{}", kind, &len);

		for (size_t i = 0; i < 8 * len; i++) {
			struct hvd_wire fresh = p.client;
			int rc;

			bytes[i / 8] ^= (unsigned char)(1 << i % 8);
			rc = hvd_wire_read(&fresh, bytes, len, &got, NULL);
			assert_true(rc == -1 || (rc == 0 && i / 8 >= 4 && i / 8 < 8));
			bytes[i / 8] ^= (unsigned char)(1 << i % 8);
		}
		free(bytes);
	}
}

TEST(where_bytes_are_taken)
{
	static const unsigned char long_one[] = "HV\4\3\0\4\0\3", empty[] = "HV\4\7\0\0\0\2",
				   no_channel[] = "HV\4\3\0\0\0\1", json_more[] = "HV\4\5";
	struct pair p = keyed();
	struct hvd_wire open;
	struct hvd_frame got;
	struct hvd_err err = {0};
	size_t len;
	unsigned char *bytes = bytes_frame(&p.server, "abc", false, &len),
		      *big = calloc(1, HVD_WIRE_BYTES + HVD_WIRE_PIECE);

	assert_non_null(big);
	expect_refused(&p.client, bytes, len, HVD_E_PROTO); /* nobody has said that they are */
	hvd_wire_init(&open, false);
	open.bytes = true;
	expect_refused(&open, bytes, len, HVD_E_AUTH);
	expect_refused(&open, (const unsigned char *)"HV\4\2", 4, HVD_E_PROTO);
	p.client.bytes = true;
	assert_fails_with(hvd_wire_read(&p.client, long_one, 8, &got, &err), err, HVD_E_LIMIT, "");
	assert_fails_with(hvd_wire_read(&p.client, empty, 8, &got, &err), err, HVD_E_PROTO, "");
	assert_fails_with(hvd_wire_read(&p.client, no_channel, 8, &got, &err), err, HVD_E_PROTO, "");
	assert_fails_with(hvd_wire_read(&p.client, json_more, 4, &got, &err), err, HVD_E_PROTO, "");
	assert_fails_with(hvd_wire_seal_bytes(&open, big, CHANNEL, 1, false, &err), err, HVD_E_AUTH, "");
	assert_int_equal(hvd_wire_seal_bytes(&p.server, big, CHANNEL, 0, true, &err), -1);
	assert_fails_with(hvd_wire_seal_bytes(&p.server, big, CHANNEL, HVD_WIRE_PIECE + 1, true, &err), err,
			  HVD_E_LIMIT, "");
	assert_int_equal(p.server.sent, 1);
	assert_int_equal(hvd_wire_seal_bytes(&p.server, big, CHANNEL, HVD_WIRE_PIECE, true, &err), 0);
	free(bytes);
	free(big);
}

TEST(typed_access)
{
	json_t *msg = json_pack("{s:i, s:s, s:[i,i], s:{}, s:f, s:n}", "int", 5, "str", "four", "arr", 1, 2, "obj",
				"real", 1.5, "null");
	json_t *out;
	struct hvd_err err = {0};
	const char *text;
	int64_t n;

	assert_int_equal(hvd_get_int(msg, "int", 5, 5, &n, &err), 0);
	assert_int_equal(n, 5);
	assert_fails(hvd_get_int(msg, "int", 6, 9, &n, &err), err, "\"int\"");
	assert_int_equal(hvd_get_int(msg, "int", 0, 4, &n, &err), -1);
	assert_int_equal(n, 0);
	assert_int_equal(hvd_get_int(msg, "real", 0, 4, &n, &err), -1);
	assert_fails_with(hvd_get_int(msg, "none", 0, 4, &n, &err), err, HVD_E_PROTO, "none");
	assert_int_equal(hvd_get_str(msg, "str", 4, &text, &err), 0);
	assert_string_equal(text, "four");
	assert_fails_with(hvd_get_str(msg, "str", 3, &text, &err), err, HVD_E_LIMIT, "");
	assert_string_equal(text, "");
	assert_int_equal(hvd_get_str(msg, "null", 3, &text, &err), -1);
	assert_int_equal(hvd_get_array(msg, "arr", 2, &out, &err), 0);
	assert_int_equal(json_array_size(out), 2);
	assert_int_equal(hvd_get_array(msg, "arr", 1, &out, &err), -1);
	assert_null(out);
	assert_int_equal(hvd_get_array(msg, "obj", 1, &out, &err), -1);
	assert_int_equal(hvd_get_object(msg, "obj", &out, &err), 0);
	assert_int_equal(hvd_get_object(msg, "arr", &out, &err), -1);
	assert_null(out);
	json_decref(msg);
}

RUN_TESTS()
