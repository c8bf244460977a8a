/* SPDX-License-Identifier: Apache-2.0 */
/* What elastic workers send, captured from real ones (Horovod 0.28, Python 3.11), and what nobody should send. */
#include "lib/base/digits.h"
#include "lib/frameworks/pickle.h"
#include "lib/frameworks/worker_addrs.h"
#include "lib/frameworks/worker_message.h"
#include "tests/unit/unit.h"
#include "tests/unit/worker_addrs_text.h"

#include <nettle/base64.h>
#include <nettle/hmac.h>

static const char put_value[] = "80059544000000000000007d948c0465746830945d948c0931302e37372e302e32944dbffd86946173"
				"4320ab7173fc1d9d012c76a593511962ca43727e2eae92e06c33ac0e3fc86d7050779486942e";
static const char ping_request[] =
	"80059539000000000000008c22686f726f766f642e72756e6e65722e636f6d6d6f6e2e7574696c2e6e65"
	"74776f726b948c0b50696e67526571756573749493942981942e";
static const char ack_response[] =
	"80059539000000000000008c22686f726f766f642e72756e6e65722e636f6d6d6f6e2e7574696c2e6e65"
	"74776f726b948c0b41636b526573706f6e73659493942981942e";
static const char ping_response[] =
	"80059589000000000000008c22686f726f766f642e72756e6e65722e636f6d6d6f6e2e7574696c2e6e6574776f726b948c0c5069"
	"6e67526573706f6e73659493942981947d94288c0c736572766963655f6e616d65948c1b776f726b6572206e6f74696669636174"
	"696f6e2073657276696365948c0e736f757263655f61646472657373948c0931302e37372e302e319475622e";
/* What a real worker has taken: the timestamp, then the result, go in between. */
static const char hosts_updated_head[] =
	"80048c1d686f726f766f642e72756e6e65722e656c61737469632e776f726b65728c13486f73747355706461746564526571756573"
	"749329817d288c0974696d657374616d704a";

static size_t bytes_of(const char *hex, unsigned char *out)
{
	size_t n = strlen(hex) / 2;

	assert_int_equal(hvd_unhex(hex, out, n), 0);
	return n;
}

/* A pickle as a worker would PUT it. */
static int parse_put(const unsigned char *pickle, size_t n, struct hvd_worker_addrs *out, struct hvd_err *err)
{
	char *text = calloc(BASE64_ENCODE_RAW_LENGTH(n) + 1, 1);
	int rc;

	base64_encode_raw(text, n, pickle);
	rc = hvd_worker_addrs_parse(text, BASE64_ENCODE_RAW_LENGTH(n), out, err);
	free(text);
	return rc;
}

static const struct hvd_key key = {"0123456789abcdef0123456789abcde"};

/* A body as a frame, signed here and not by what is tested. */
static size_t frame_of(const unsigned char *body, size_t n, unsigned char *frame)
{
	struct hmac_sha256_ctx ctx;

	memcpy(frame + HVD_MESSAGE_HEAD, body, n);
	for (size_t i = 0; i < 4; i++)
		frame[HVD_MAC_LEN + i] = (unsigned char)(n >> (8 * i));
	hmac_sha256_set_key(&ctx, HVD_KEY_LEN, key.b);
	hmac_sha256_update(&ctx, n, body);
	hmac_sha256_digest(&ctx, HVD_MAC_LEN, frame);
	return HVD_MESSAGE_HEAD + n;
}

static int read_hex(const char *hex, struct hvd_message *msg, struct hvd_err *err)
{
	unsigned char body[1024], frame[1024 + HVD_MESSAGE_HEAD];
	size_t n = frame_of(body, bytes_of(hex, body), frame);

	return hvd_message_read(&key, frame, n, msg, err);
}

TEST(reads_a_workers_put)
{
	unsigned char bytes[256];
	struct hvd_worker_addrs a;
	struct hvd_err err = {0};
	char text[HVD_ADDR_TEXT], hex[2 * HVD_KEY_LEN + 1];

	assert_int_equal(parse_put(bytes, bytes_of(put_value, bytes), &a, &err), 0);
	assert_int_equal(a.n, 1);
	assert_string_equal(a.v[0].iface, "eth0");
	assert_string_equal(hvd_addr_text(&a.v[0].addr, text), "10.77.0.2");
	assert_int_equal(a.v[0].port, 64959);
	hvd_hex(a.key.b, HVD_KEY_LEN, hex);
	assert_string_equal(hex, "ab7173fc1d9d012c76a593511962ca43727e2eae92e06c33ac0e3fc86d705077");
	hvd_worker_addrs_clear(&a);
	assert_int_equal(a.n, 0);
}

/* Two interfaces, one of them with two addresses; loopback first, as Python's dict has it. */
static const char put_several[] =
	"8005956b000000000000007d94288c026c6f945d948c093132372e302e302e31944b058694618c0465746830945d94288c083130"
	"2e302e302e31944b0586948c0831302e302e302e32944b058694657543206b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b"
	"6b6b6b6b6b6b6b6b6b6b9486942e";

TEST(reads_several_addresses)
{
	static const char *const want[] = {"10.0.0.1", "10.0.0.2", "127.0.0.1"};
	unsigned char bytes[256];
	struct hvd_worker_addrs a, back;
	struct hvd_err err = {0};
	char text[HVD_ADDR_TEXT], *put;

	assert_int_equal(parse_put(bytes, bytes_of(put_several, bytes), &a, &err), 0);
	assert_int_equal(a.n, 3);
	for (size_t i = 0; i < a.n; i++)
		assert_string_equal(hvd_addr_text(&a.v[i].addr, text), want[i]);
	assert_string_equal(a.v[1].iface, "eth0");
	assert_string_equal(a.v[2].iface, "lo");

	put = worker_addrs_text(&a);
	assert_int_equal(hvd_worker_addrs_parse(put, strlen(put), &back, &err), 0);
	assert_int_equal(back.n, a.n);
	assert_memory_equal(&back.key, &a.key, sizeof(a.key));
	for (size_t i = 0; i < a.n; i++) {
		assert_true(hvd_addr_equal(&back.v[i].addr, &a.v[i].addr));
		assert_string_equal(back.v[i].iface, a.v[i].iface);
	}
	free(put);
	hvd_worker_addrs_clear(&a);
	hvd_worker_addrs_clear(&back);
}

TEST(reads_messages)
{
	struct hvd_message msg;

	assert_int_equal(read_hex(ping_request, &msg, NULL), 0);
	assert_int_equal(msg.kind, HVD_MESSAGE_PING);
	assert_int_equal(read_hex(ack_response, &msg, NULL), 0);
	assert_int_equal(msg.kind, HVD_MESSAGE_ACK);
	assert_int_equal(read_hex(ping_response, &msg, NULL), 0);
	assert_int_equal(msg.kind, HVD_MESSAGE_PONG);
}

/* As Horovod's own driver sends them, on Python 3.11. */
TEST(reads_requests_of_horovods_driver)
{
	static const char added[] = "80059592000000000000008c1d686f726f766f642e72756e6e65722e656c61737469632e776f726b65"
				    "72948c13486f737473557064"
				    "617465645265717565737494939429819"
				    "47d94288c0974696d657374616d70944a00f153658c03726573948c086275696c74696e73948c07676"
				    "5746174747294939468008c"
				    "10486f7374557064617465526573756c749493948c056164646564948694529475622e";
	static const char mixed[] = "800595bc000000000000008c1d686f726f766f642e72756e6e65722e656c61737469632e776f726b65"
				    "72948c13486f737473557064"
				    "61746564526571756573749493942981947d94288c0974696d657374616d70944a00f153658c037265"
				    "73948c095f6f70657261746f"
				    "72948c036f725f9493948c086275696c74696e73948c076765746174747294939468008c10486f7374"
				    "557064617465526573756c74"
				    "9493948c0561646465649486945294680c680e8c0772656d6f76656494869452948694529475622e";
	struct hvd_message msg;
	struct hvd_err err = {0};

	assert_int_equal(read_hex(added, &msg, &err), 0);
	assert_int_equal(msg.kind, HVD_MESSAGE_HOSTS_UPDATED);
	assert_int_equal(msg.timestamp, 1700000000);
	assert_int_equal(msg.change, HVD_HOSTS_ADDED);
	assert_int_equal(read_hex(mixed, &msg, &err), 0);
	assert_int_equal(msg.change, HVD_HOSTS_MIXED);
}

TEST(writes_requests)
{
	const struct hvd_message big = {HVD_MESSAGE_HOSTS_UPDATED, INT64_C(1) << 40, HVD_HOSTS_ADDED, NULL};
	const struct hvd_message msg = {HVD_MESSAGE_HOSTS_UPDATED, 1700000000, HVD_HOSTS_MIXED, NULL};
	unsigned char frame[HVD_MESSAGE_MAX_FRAME], want[128], signed_frame[192];
	struct hvd_message back;
	size_t n, len = hvd_message_frame(&key, &msg, frame);
	char hex[256];

	snprintf(hex, sizeof(hex), "%s00f153658c037265734b0375622e", hosts_updated_head);
	n = bytes_of(hex, want);
	assert_int_equal(n, 85);
	assert_int_equal(len, frame_of(want, n, signed_frame));
	assert_memory_equal(frame, signed_frame, len);

	len = hvd_message_frame(&key, &big, frame);
	assert_int_equal(hvd_message_read(&key, frame, len, &back, NULL), 0);
	assert_true(back.timestamp == big.timestamp && back.change == HVD_HOSTS_ADDED);
}

TEST(refuses_what_is_not_signed)
{
	const struct hvd_message ack = {.kind = HVD_MESSAGE_ACK};
	unsigned char frame[HVD_MESSAGE_MAX_FRAME];
	size_t len = hvd_message_frame(&key, &ack, frame);
	struct hvd_err err = {0};
	struct hvd_message msg;
	struct hvd_key other = key;

	assert_int_equal(hvd_message_read(&key, frame, len, &msg, &err), 0);
	other.b[31] ^= 1;
	assert_fails_with(hvd_message_read(&other, frame, len, &msg, &err), err, HVD_E_AUTH, "");
	for (size_t i = 0; i < len; i++) {
		frame[i] ^= 1;
		assert_int_equal(hvd_message_read(&key, frame, len, &msg, &err), -1);
		frame[i] ^= 1;
		assert_int_equal(hvd_message_read(&key, frame, i, &msg, &err), -1);
	}
	memset(frame + HVD_MAC_LEN, 0xff, 4);
	assert_fails_with(hvd_message_length(frame, &len, &err), err, HVD_E_LIMIT, "");
}

static void refused_hex(const char *hex, const char *part)
{
	unsigned char bytes[512];
	size_t n = bytes_of(hex, bytes);
	struct hvd_err err = {0};

	assert_null(hvd_pickle_read(bytes, n, &err));
	assert_true(err.code == HVD_E_PROTO || err.code == HVD_E_LIMIT);
	assert_in(err.msg, part);
}

TEST(refuses_what_no_worker_sends)
{
	/* cposix\nsystem\n(S'id'\ntR. and the same with REDUCE of STACK_GLOBAL within protocol 4's opcodes. */
	refused_hex("63706f7369780a73797374656d0a2853276964270a74522e", "protocol");
	refused_hex("800463706f7369780a73797374656d0a2e", "opcode 0x63"); /* GLOBAL */
	refused_hex("80048c026f738c0673797374656d932e2e", "more than one value");
	refused_hex("8004820a2e", "opcode 0x82"); /* EXT1 */
	refused_hex("800451", "opcode 0x51");     /* BINPERSID */
	refused_hex("80044e4e2e", "more than one");
	refused_hex("80042e", "missing");
	refused_hex("8004282e", "missing");
	refused_hex("80044e", "truncated");
	refused_hex("800468002e", "missing memo entry");
	refused_hex("80046a000000802e", "missing memo entry");
	refused_hex("80048cff41", "truncated");
	refused_hex("80044e4e61", "not a container"); /* APPEND to None */
	refused_hex("80045d4e75", "a mark is missing");
	refused_hex("80047d284e75", "without a value");
	refused_hex("80044e4e93", "no name");
	refused_hex("80048a09000000000000000000", "eight bytes");
	refused_hex("80037d2e", "protocol");
}

/* A pickle of that many opcodes in a row. */
static void refused_many(unsigned char op, size_t n, enum hvd_errc code)
{
	unsigned char *bytes = malloc(n + 8);
	struct hvd_err err = {0};

	assert_non_null(bytes);
	memcpy(bytes, "\x80\x04]", 3);
	memset(bytes + 3, op, n);
	bytes[n + 3] = '.';
	assert_null(hvd_pickle_read(bytes, n + 4, &err));
	assert_int_equal(err.code, code);
	free(bytes);
}

TEST(refuses_too_much)
{
	refused_many('(', HVD_PICKLE_MAX - 8, HVD_E_LIMIT);
	refused_many(']', HVD_PICKLE_MAX - 8, HVD_E_LIMIT);
	refused_many(HVD_OP_MEMOIZE, HVD_PICKLE_MAX - 8, HVD_E_LIMIT);
	refused_many('N', HVD_PICKLE_MAX + 1, HVD_E_LIMIT);
}

/* A list within itself is read, and taken for nothing. */
TEST(survives_a_circle)
{
	static const unsigned char circle[] = {0x80, 4, ']', HVD_OP_MEMOIZE, 'h', 0, 'a', '.'};
	struct hvd_pickle *p = hvd_pickle_read(circle, sizeof(circle), NULL);
	struct hvd_worker_addrs a;
	struct hvd_err err = {0};

	assert_non_null(p);
	assert_ptr_equal(hvd_pickle_root(p), hvd_pickle_root(p)->items[0]);
	hvd_pickle_free(p);
	assert_fails_with(parse_put(circle, sizeof(circle), &a, &err), err, HVD_E_PROTO, "");
}

/* Every byte of a PUT changed in turn: taken or refused, never more. The sanitizers watch. */
TEST(survives_damage)
{
	unsigned char bytes[256];
	size_t n = bytes_of(put_several, bytes);
	struct hvd_worker_addrs a;
	int taken = 0, refused = 0;

	for (size_t i = 0; i < n; i++)
		for (int v = 0; v < 256; v += 5) {
			unsigned char was = bytes[i];

			bytes[i] = (unsigned char)v;
			if (parse_put(bytes, n, &a, NULL) == 0) {
				taken++;
				hvd_worker_addrs_clear(&a);
			} else {
				refused++;
			}
			bytes[i] = was;
		}
	assert_true(taken > 0 && refused > taken);
	for (size_t i = 0; i < n; i++)
		assert_int_equal(parse_put(bytes, i, &a, NULL), -1);
}

static void put_refused(const char *hex, const char *part)
{
	unsigned char bytes[512];
	struct hvd_worker_addrs a;
	struct hvd_err err = {0};

	assert_fails(parse_put(bytes, bytes_of(hex, bytes), &a, &err), err, part);
	assert_null(a.v);
}

TEST(refuses_bad_addresses)
{
	struct hvd_worker_addrs a;
	struct hvd_err err = {0};

	put_refused("80044e2e", "not a pair");
	put_refused("80044e4e862e", "not a dict");
	put_refused("80047d4e862e", "not a key");
	put_refused("80047d43026b6b862e", "not a key of 32 bytes");
	put_refused("80047d43206b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b862e", "there are none");
	/* ({'e': [('h', 1)]}, key), then with port 0, then with a short pair */
	put_refused("80047d8c01655d8c01684b01866173"
		    "43206b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b862e",
		    "invalid address");
	put_refused("80047d8c01655d8c07312e322e332e344b00866173"
		    "43206b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b862e",
		    "no valid port");
	put_refused("80047d8c01655d8c07312e322e332e34856173"
		    "43206b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b862e",
		    "(address, port)");
	assert_fails(hvd_worker_addrs_parse("!!!!", 4, &a, &err), err, "base64");
	assert_int_equal(hvd_worker_addrs_parse("", 0, &a, &err), -1);
}

RUN_TESTS()
