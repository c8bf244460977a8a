/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/protocol/func_key.h"

#include "tests/unit/unit.h"

static struct hvd_key key_of(unsigned char first)
{
	struct hvd_key session = {.b = {first}};

	return hvd_func_key(&session);
}

/* The value "data" as this key signs it, in `value`. Returns its length. */
static size_t sign(const struct hvd_key *key, const char *kind, const char *number, const char *data, char *value)
{
	size_t n = strlen(data);

	hvd_func_sign(key, kind, number, data, n, value);
	memcpy(value + HVD_FUNC_MAC_LEN, data, n);
	return HVD_FUNC_MAC_LEN + n;
}

/*
 * By another implementation, Python's, with key = hmac(32 bytes of 0, pack("run-func"), pack("")):
 *   hmac.new(key, b''.join(struct.pack('>Q', len(p)) + p for p in (b'result', b'3', b'data')), hashlib.sha256)
 */
TEST(known_mac)
{
	struct hvd_key key = key_of(0);
	char value[256];

	sign(&key, "result", "3", "data", value);
	assert_memory_equal(value, "21e2758e6ac3f6918cbd519e208aac5f03bfea615e126695d1ed57fce58e62c9",
			    HVD_FUNC_MAC_LEN);
}

TEST(binds_kind_rank_launch_and_data)
{
	struct hvd_key key = key_of(1), other = key_of(2);
	char value[256];
	size_t n;

	n = sign(&key, "result", "3", "data", value);
	assert_true(hvd_func_signed(&key, "result", "3", value, n));
	assert_false(hvd_func_signed(&other, "result", "3", value, n));
	assert_false(hvd_func_signed(&key, "error", "3", value, n));
	assert_false(hvd_func_signed(&key, "result", "4", value, n));
	assert_false(hvd_func_signed(&key, "result", "", value, n));
	assert_false(hvd_func_signed(&key, "result", "3", value, n - 1));
	assert_false(hvd_func_signed(&key, "result", "3", value + 1, n - 1));
	for (size_t i = 0; i < n; i++) {
		value[i] ^= 1;
		assert_false(hvd_func_signed(&key, "result", "3", value, n));
		value[i] ^= 1;
	}
	/* A border between kind and rank cannot be moved. */
	assert_false(hvd_func_signed(&key, "result3", "", value, n));
}

TEST(short_and_empty_values)
{
	struct hvd_key key = key_of(1);
	char value[256];
	size_t n;

	n = sign(&key, "func", "", "", value);
	assert_int_equal(n, HVD_FUNC_MAC_LEN);
	assert_true(hvd_func_signed(&key, "func", "", value, n));
	for (size_t i = 0; i < n; i++)
		assert_false(hvd_func_signed(&key, "func", "", value, i));
	memset(value, 0, sizeof(value));
	assert_false(hvd_func_signed(&key, "func", "", value, sizeof(value)));
}

RUN_TESTS()
