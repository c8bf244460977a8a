/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/protocol/preamble.h"

#include "lib/base/base64.h"
#include "lib/base/xalloc.h"
#include "tests/unit/unit.h"

static struct hvd_preamble sample(void)
{
	struct hvd_preamble p = {.boot = "1;session=x", .directory = hvd_xstrdup("/home/a b")};

	memset(p.key.b, 0xa5, sizeof(p.key.b));
	hvd_strv_add(&p.env, "A=1");
	hvd_strv_add(&p.env, "QUOTES='\"$(x)`\n\ttwo lines\\");
	hvd_strv_add(&p.env, "EMPTY=");
	hvd_strv_add(&p.env, "EQUALS==a=b=");
	hvd_strv_add(&p.env, "BYTES=\xff\x01\xc3\xa9");
	hvd_strv_add(&p.args, "host");
	hvd_strv_add(&p.args, "");
	hvd_strv_add(&p.args, "a\\\\b\n'!");
	return p;
}

static void same(const struct hvd_preamble *a, const struct hvd_preamble *b)
{
	assert_memory_equal(a->key.b, b->key.b, HVD_KEY_LEN);
	assert_string_equal(a->boot, b->boot);
	assert_string_equal(a->directory, b->directory);
	assert_int_equal(a->env.n, b->env.n);
	for (size_t i = 0; i < a->env.n; i++)
		assert_string_equal(a->env.v[i], b->env.v[i]);
	assert_int_equal(a->args.n, b->args.n);
	for (size_t i = 0; i < a->args.n; i++)
		assert_string_equal(a->args.v[i], b->args.v[i]);
}

TEST(arrives_as_it_was)
{
	struct hvd_preamble p = sample(), back;
	unsigned char *bytes;
	size_t n, length;

	assert_int_equal(hvd_preamble_format(&p, &bytes, &n, NULL), 0);
	assert_int_equal(hvd_preamble_length(bytes, &length, NULL), 0);
	assert_int_equal(length, n - HVD_PREAMBLE_HEAD);
	assert_int_equal(hvd_preamble_parse(bytes + HVD_PREAMBLE_HEAD, length, &back, NULL), 0);
	same(&p, &back);
	hvd_preamble_clear(&back);
	hvd_preamble_clear(&p);
	free(bytes);
}

TEST(any_cut_is_refused)
{
	struct hvd_preamble p = sample(), back;
	struct hvd_err err;
	unsigned char *bytes;
	size_t n;

	assert_int_equal(hvd_preamble_format(&p, &bytes, &n, NULL), 0);
	for (size_t cut = 0; cut < n - HVD_PREAMBLE_HEAD; cut++) {
		assert_int_equal(hvd_preamble_parse(bytes + HVD_PREAMBLE_HEAD, cut, &back, &err), -1);
		assert_null(back.directory);
		assert_null(back.env.v);
	}
	hvd_preamble_clear(&p);
	free(bytes);
}

/* Whole base64, of which only the numbers in it show that something is missing. */
TEST(any_cut_of_the_data_is_refused)
{
	struct hvd_preamble p = sample(), back;
	unsigned char *bytes, *plain, *text;
	size_t n, len, cut_n;

	assert_int_equal(hvd_preamble_format(&p, &bytes, &n, NULL), 0);
	plain = hvd_base64_decode(bytes + HVD_PREAMBLE_HEAD, n - HVD_PREAMBLE_HEAD - 1, &len);
	assert_non_null(plain);
	for (size_t cut = 0; cut < len; cut++) {
		cut_n = HVD_BASE64_LENGTH(cut);
		text = hvd_xcalloc(cut_n + 1, 1);
		hvd_base64_encode(plain, cut, text);
		text[cut_n] = '\n';
		assert_int_equal(hvd_preamble_parse(text, cut_n + 1, &back, NULL), -1);
		assert_null(back.directory);
		assert_null(back.args.v);
		free(text);
	}
	free(plain);
	free(bytes);
	hvd_preamble_clear(&p);
}

/* Whatever the key and the environment are, a shell that reads a preamble sees an order to end and a comment. */
TEST(a_shell_sees_an_exit_and_a_comment)
{
	struct hvd_preamble p = sample();
	unsigned char *bytes;
	char *comment;
	size_t n;

	assert_int_equal(hvd_preamble_format(&p, &bytes, &n, NULL), 0);
	assert_memory_equal(bytes, "exit 122\n#", 10);
	comment = hvd_xstrndup((char *)bytes + 10, n - 10);
	assert_int_equal(strlen(comment), n - 10);
	assert_int_equal(strspn(comment, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/= "), n - 11);
	assert_int_equal(comment[n - 11], '\n');
	free(comment);
	free(bytes);
	hvd_preamble_clear(&p);
}

TEST(what_is_not_one_is_refused)
{
	unsigned char head[HVD_PREAMBLE_HEAD + 1] = "exit 122\n#HVDP 2 00000012 ";
	struct hvd_preamble p = sample(), back;
	unsigned char *bytes;
	struct hvd_err err;
	size_t n;

	assert_int_equal(hvd_preamble_length(head, &n, NULL), 0);
	assert_int_equal(n, 12);
	head[17] = '9';
	assert_fails_with(hvd_preamble_length(head, &n, &err), err, HVD_E_LIMIT, "");
	head[17] = '-';
	assert_fails_with(hvd_preamble_length(head, &n, &err), err, HVD_E_LIMIT, "");
	head[15] = '1';
	assert_fails(hvd_preamble_length(head, &n, &err), err, "another release");
	head[0] = 'E';
	assert_fails(hvd_preamble_length(head, &n, &err), err, "not from hvdrun");

	/* One byte too many; a variable without a name; a directory that depends on another. */
	assert_int_equal(hvd_preamble_format(&p, &bytes, &n, NULL), 0);
	bytes = hvd_xrealloc(bytes, n + 1, 1);
	bytes[n] = 'x';
	assert_int_equal(hvd_preamble_parse(bytes + HVD_PREAMBLE_HEAD, n + 1 - HVD_PREAMBLE_HEAD, &back, NULL), -1);
	for (size_t len = 0; len <= n + 1; len++)
		if (len != n)
			assert_fails_with(hvd_preamble_parse_whole(bytes, len, &back, &err), err, HVD_E_PROTO, "");
	assert_int_equal(hvd_preamble_parse_whole(bytes, n, &back, NULL), 0);
	assert_string_equal(back.directory, p.directory);
	hvd_preamble_clear(&back);
	free(bytes);
	hvd_strv_add(&p.env, "=x");
	assert_int_equal(hvd_preamble_format(&p, &bytes, &n, NULL), 0);
	assert_int_equal(hvd_preamble_parse(bytes + HVD_PREAMBLE_HEAD, n - HVD_PREAMBLE_HEAD, &back, NULL), -1);
	free(bytes);
	hvd_env_unset(&p.env, "");
	/* Where srun has brought it, there is none. */
	p.directory[0] = '\0';
	assert_int_equal(hvd_preamble_format(&p, &bytes, &n, NULL), 0);
	assert_int_equal(hvd_preamble_parse(bytes + HVD_PREAMBLE_HEAD, n - HVD_PREAMBLE_HEAD, &back, NULL), 0);
	assert_string_equal(back.directory, "");
	hvd_preamble_clear(&back);
	free(bytes);
	p.directory[0] = 'x';
	assert_int_equal(hvd_preamble_format(&p, &bytes, &n, NULL), 0);
	assert_int_equal(hvd_preamble_parse(bytes + HVD_PREAMBLE_HEAD, n - HVD_PREAMBLE_HEAD, &back, NULL), -1);
	free(bytes);
	hvd_preamble_clear(&p);
}

TEST(too_large_is_not_written)
{
	struct hvd_preamble p = sample();
	unsigned char *bytes;
	struct hvd_err err;
	char *large;
	size_t n;

	large = hvd_xcalloc(HVD_PREAMBLE_MAX + 1, 1);
	memset(large, 'x', HVD_PREAMBLE_MAX);
	large[1] = '=';
	hvd_strv_add(&p.env, large);
	assert_fails_with(hvd_preamble_format(&p, &bytes, &n, &err), err, HVD_E_LIMIT, "");
	free(large);
	hvd_preamble_clear(&p);
}

TEST(the_reader_takes_no_more_than_it)
{
	struct hvd_preamble p = sample(), back;
	unsigned char *bytes;
	char rest[8] = "";
	size_t n;
	int fds[2];

	assert_int_equal(hvd_preamble_format(&p, &bytes, &n, NULL), 0);
	assert_int_equal(pipe(fds), 0);
	assert_int_equal(write(fds[1], bytes, n), n);
	assert_int_equal(write(fds[1], "rest", 4), 4);
	assert_int_equal(hvd_preamble_read(fds[0], hvd_deadline_in(5), &back, NULL), 0);
	same(&p, &back);
	assert_int_equal(read(fds[0], rest, sizeof(rest)), 4);
	assert_string_equal(rest, "rest");
	hvd_preamble_clear(&back);
	hvd_preamble_clear(&p);
	free(bytes);
	close(fds[0]);
	close(fds[1]);
}

TEST(the_reader_does_not_wait_for_ever)
{
	struct hvd_preamble back;
	struct hvd_err err;
	int fds[2];

	assert_int_equal(pipe(fds), 0);
	assert_int_equal(write(fds[1], "HVDP", 4), 4);
	assert_fails_with(hvd_preamble_read(fds[0], hvd_deadline_in(0.05), &back, &err), err, HVD_E_TIMEOUT, "");
	close(fds[1]);
	assert_fails_with(hvd_preamble_read(fds[0], hvd_deadline_in(5), &back, &err), err, HVD_E_PROTO, "");
	close(fds[0]);
}

RUN_TESTS()
