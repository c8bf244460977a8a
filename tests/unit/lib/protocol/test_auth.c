/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/base/digits.h"
#include "lib/base/key.h"
#include "lib/base/random.h"
#include "lib/protocol/auth.h"

#include "tests/unit/unit.h"

#include <fcntl.h>

static struct hvd_key counting(void)
{
	struct hvd_key key;

	for (int i = 0; i < HVD_KEY_LEN; i++)
		key.b[i] = (unsigned char)i;
	return key;
}

static void mac_is(const struct hvd_key *key, const struct hvd_piece *pieces, size_t n, const char *want)
{
	unsigned char mac[HVD_MAC_LEN];
	char hex[2 * HVD_MAC_LEN + 1];

	hvd_hmac(key, pieces, n, mac);
	hvd_hex(mac, sizeof(mac), hex);
	assert_string_equal(hex, want);
}

/*
 * By another implementation, Python's:
 *   hmac.new(key, b''.join(struct.pack('>Q', len(p)) + p for p in pieces), hashlib.sha256).hexdigest()
 */
TEST(known_macs)
{
	static char xs[2000];
	struct hvd_key key = counting(), aa;

	memset(xs, 'x', sizeof(xs));
	memset(aa.b, 0xaa, sizeof(aa.b));
	mac_is(&key, NULL, 0, "d38b42096d80f45f826b44a9d5607de72496a415d3f4a1a8c88e3bb9da8dc1cb");
	mac_is(&key, (struct hvd_piece[]){{"abc", 3}, {"", 0}}, 2,
	       "fd66d406aad299f0e6d7646985c9ad35583059b77e1b80ef7b29d53279a98065");
	mac_is(&key, (struct hvd_piece[]){{"abc", 3}, {NULL, 99}}, 2,
	       "fd66d406aad299f0e6d7646985c9ad35583059b77e1b80ef7b29d53279a98065");
	mac_is(&aa, (struct hvd_piece[]){{xs, sizeof(xs)}, {"\0y", 2}}, 2,
	       "da23ba89a0dde1e3ada07fad5f1c23505f2ce9fd095e76161d6bb0b5a27e03bd");
}

TEST(borders_count)
{
	struct hvd_key key = counting();
	unsigned char a[HVD_MAC_LEN], b[HVD_MAC_LEN];

	hvd_hmac(&key, (struct hvd_piece[]){{"ab", 2}, {"c", 1}}, 2, a);
	hvd_hmac(&key, (struct hvd_piece[]){{"a", 1}, {"bc", 2}}, 2, b);
	assert_false(hvd_mac_equal(a, b));
	hvd_hmac(&key, (struct hvd_piece[]){{"ab", 2}, {"c", 1}}, 2, b);
	assert_true(hvd_mac_equal(a, b));
	for (int i = 0; i < HVD_MAC_LEN; i++) {
		b[i] ^= 1;
		assert_false(hvd_mac_equal(a, b));
		b[i] ^= 1;
	}
}

TEST(derived_keys)
{
	struct hvd_key key = counting(), out = hvd_key_derive(&key, "purpose", "salt", 4);
	char hex[2 * HVD_KEY_LEN + 1];

	hvd_hex(out.b, HVD_KEY_LEN, hex);
	assert_string_equal(hex, "17079ee21b417f1843460e88fdce027b73c3e29f5e47f874536d8f8f59928e37");
	out = hvd_key_derive(&key, "purpose", "Salt", 4);
	hvd_hex(out.b, HVD_KEY_LEN, hex);
	assert_string_not_equal(hex, "17079ee21b417f1843460e88fdce027b73c3e29f5e47f874536d8f8f59928e37");
}

TEST(hexadecimal)
{
	static const char *const bad[] = {"", "00f", "00f", "00ff0", "00fg", "0x00", " 0ff", "00f-", "00 f"};
	unsigned char bytes[2];
	char text[5];

	hvd_hex("\x00\xff", 2, text);
	assert_string_equal(text, "00ff");
	assert_int_equal(hvd_unhex("aBcD", bytes, 2), 0);
	assert_memory_equal(bytes, "\xab\xcd", 2);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_int_equal(hvd_unhex(bad[i], bytes, 2), -1);
	assert_int_equal(hvd_unhex(NULL, bytes, 2), -1);
}

TEST(random_bytes_differ)
{
	unsigned char a[1000] = {0}, b[1000] = {0};

	assert_int_equal(hvd_random(a, sizeof(a), NULL), 0);
	assert_int_equal(hvd_random(b, sizeof(b), NULL), 0);
	assert_memory_not_equal(a, b, sizeof(a));
	assert_memory_not_equal(a + 968, b + 968, 32);
	assert_int_equal(hvd_random(a, 0, NULL), 0);
}

/* ---- the shared secret ---- */

static struct hvd_context context_of(unsigned char server, unsigned char client, const char *session)
{
	unsigned char s[HVD_NONCE_LEN], c[HVD_NONCE_LEN];

	for (int i = 0; i < HVD_NONCE_LEN; i++) {
		s[i] = (unsigned char)(server + i);
		c[i] = (unsigned char)(client + i);
	}
	return hvd_context_of(session, s, c);
}

TEST(known_proofs)
{
	struct hvd_identity id = {.kind = HVD_ID_KEY, .key = counting()};
	struct hvd_context to = context_of(0, 16, "session");
	char hex[2 * HVD_MAC_LEN + 1], *proof, *grant;

	hvd_hex(to.b, sizeof(to.b), hex);
	assert_string_equal(hex, "35903849f0de6a08ebffff2111e979c73a3e788eab112fd503ef9103bec5219c");
	proof = hvd_id_prove(&id, &to, NULL);
	assert_string_equal(proof, "9817be304aed44324f7929d73c8bd95a099f16e97fa001529f3a6b54dcb8b11b");
	grant = hvd_id_grant(&id, &to, &id.key, NULL);
	assert_string_equal(grant, "1a2360fe71523e6b78e219d528282fd0a02d715c0155876e1c5923c3167403d0");
	free(proof);
	free(grant);
}

static void refused(int rc, const struct hvd_err *err)
{
	assert_int_equal(rc, -1);
	assert_int_equal(err->code, HVD_E_AUTH);
	assert_true(err->msg[0] != '\0');
}

TEST(shared_secret)
{
	struct hvd_identity id = {.kind = HVD_ID_KEY, .key = counting()}, other = id;
	struct hvd_context to = context_of(1, 2, "s"), elsewhere[] = {context_of(2, 2, "s"), context_of(1, 1, "s"),
								      context_of(2, 1, "s"), context_of(1, 2, "t")};
	char *proof = hvd_id_prove(&id, &to, NULL), *grant = hvd_id_grant(&id, &to, &id.key, NULL), *longer;
	struct hvd_key key;
	struct hvd_err err = {0};

	assert_int_equal(hvd_id_check(&id, &to, proof, &err), 0);
	assert_int_equal(hvd_id_accept(&id, &to, grant, &key, &err), 0);
	assert_memory_equal(key.b, id.key.b, HVD_KEY_LEN);
	/* Neither side's proof does for the other. */
	refused(hvd_id_check(&id, &to, grant, &err), &err);
	refused(hvd_id_accept(&id, &to, proof, &key, &err), &err);
	for (int i = 0; i < 4; i++)
		refused(hvd_id_check(&id, &elsewhere[i], proof, &err), &err);
	other.key.b[0] ^= 1;
	refused(hvd_id_check(&other, &to, proof, &err), &err);
	refused(hvd_id_accept(&other, &to, grant, &key, &err), &err);
	refused(hvd_id_check(&id, &to, "", &err), &err);
	proof[10] = proof[10] == '0' ? '1' : '0';
	refused(hvd_id_check(&id, &to, proof, &err), &err);
	longer = calloc(1, HVD_CRED_MAX + 2);
	assert_non_null(longer);
	memset(longer, 'a', HVD_CRED_MAX + 1);
	refused(hvd_id_check(&id, &to, longer, &err), &err);
	assert_in(err.msg, "too long");
	refused(hvd_id_accept(&id, &to, longer, &key, &err), &err);
	assert_in(err.msg, "too long");
	free(longer);
	free(proof);
	free(grant);
}

/* ---- key files ---- */

static char dir[] = "/tmp/hvd-test-auth-XXXXXX";
static char path[sizeof(dir) + 16];

static int make_dir(void **state)
{
	if (!mkdtemp(dir))
		return -1;
	snprintf(path, sizeof(path), "%s/key", dir);
	return 0;
}

static int remove_dir(void **state)
{
	unlink(path);
	return rmdir(dir);
}

static void put(const void *bytes, size_t len, mode_t mode)
{
	int fd;

	unlink(path);
	fd = open(path, O_WRONLY | O_CREAT | O_EXCL, 0600);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, bytes, len), len);
	assert_int_equal(fchmod(fd, mode), 0);
	close(fd);
}

#define HEX "000102030405060708090a0b0c0d0e0f101112131415161718191A1B1C1D1E1F"

TEST(key_file_formats)
{
	static const char *const good[] = {HEX, HEX "\n", HEX "\r\n"};
	static const char *const bad[] = {"",       "\n",    "0" HEX,  HEX "0",
					  "0x" HEX, HEX HEX, "no key", "0123456789abcdef0123456789abcde"};
	struct hvd_key key, want = counting();
	struct hvd_err err = {0};

	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		memset(&key, 0, sizeof(key));
		put(good[i], strlen(good[i]), 0600);
		assert_int_equal(hvd_key_read_file(path, &key, &err), 0);
		assert_memory_equal(key.b, want.b, HVD_KEY_LEN);
	}
	put(want.b, HVD_KEY_LEN, 0400);
	assert_int_equal(hvd_key_read_file(path, &key, &err), 0);
	assert_memory_equal(key.b, want.b, HVD_KEY_LEN);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		put(bad[i], strlen(bad[i]), 0600);
		assert_fails_with(hvd_key_read_file(path, &key, &err), err, HVD_E_USAGE, path);
		assert_in(err.hint, "openssl rand");
	}
}

TEST(key_file_open_to_others)
{
	static const mode_t modes[] = {0640, 0604, 0660, 0644, 0610, 0601, 0620, 0602, 0777};
	struct hvd_key key;
	struct hvd_err err;

	for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++) {
		put(HEX, 64, modes[i]);
		assert_fails_with(hvd_key_read_file(path, &key, &err), err, HVD_E_AUTH, "");
		assert_in(err.hint, "chmod 600");
	}
}

TEST(key_file_of_another_user)
{
	struct hvd_key key;
	struct hvd_err err;

	if (geteuid() != 0)
		skip_because("only root can give a file away");
	put(HEX, 64, 0600);
	assert_int_equal(chown(path, 65534, (gid_t)-1), 0);
	assert_fails_with(hvd_key_read_file(path, &key, &err), err, HVD_E_AUTH, "");
}

TEST(key_file_that_is_none)
{
	char link[sizeof(path) + 8];
	struct hvd_key key;
	struct hvd_err err;

	unlink(path);
	assert_fails_with(hvd_key_read_file(path, &key, &err), err, HVD_E_SYS, "No such file");
	assert_int_equal(hvd_key_read_file(dir, &key, &err), -1);
	put(HEX, 64, 0600);
	snprintf(link, sizeof(link), "%s-link", path);
	assert_int_equal(symlink(path, link), 0);
	assert_int_equal(hvd_key_read_file(link, &key, &err), -1);
	unlink(link);
}

TEST(key_from_a_descriptor)
{
	struct hvd_key key, want = counting();
	struct hvd_err err;
	int fds[2], before = open_fds();

	assert_int_equal(pipe(fds), 0);
	assert_int_equal(write(fds[1], want.b, HVD_KEY_LEN), HVD_KEY_LEN);
	assert_int_equal(hvd_key_read_fd(fds[0], &key, &err), 0);
	assert_memory_equal(key.b, want.b, HVD_KEY_LEN);
	assert_int_equal(write(fds[1], want.b, HVD_KEY_LEN - 1), HVD_KEY_LEN - 1);
	close(fds[1]);
	assert_fails_with(hvd_key_read_fd(fds[0], &key, &err), err, HVD_E_AUTH, "");
	close(fds[0]);
	assert_fails_with(hvd_key_read_fd(fds[0], &key, &err), err, HVD_E_SYS, "");
	assert_int_equal(open_fds(), before);
}

RUN_TESTS(.group_setup = make_dir, .group_teardown = remove_dir)
