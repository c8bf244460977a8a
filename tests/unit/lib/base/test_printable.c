/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/base/printable.h"

#include "lib/base/err.h"
#include "lib/base/log.h"
#include "tests/unit/unit.h"

#include <errno.h>

static void shows(const char *text, const char *want)
{
	char out[256], twice[256];

	assert_int_equal(hvd_printable(text, out, sizeof(out)), strlen(want));
	assert_string_equal(out, want);
	hvd_printable(out, twice, sizeof(twice));
	assert_string_equal(twice, want);
}

TEST(what_a_terminal_obeys)
{
	shows("\x1b[2J\x1b]0;title\x07", "\\x1b[2J\\x1b]0;title\\x07");
	shows("a\rb\x08\x7f", "a\\x0db\\x08\\x7f");
	shows("\xc2\x9b"
	      "31m",
	      "\\xc2\\x9b31m"); /* CSI in one character */
	shows("\x9b"
	      "31m",
	      "\\x9b31m"); /* and in one byte */
	shows("\xe2\x80\xae"
	      "evil",
	      "\\xe2\\x80\\xaeevil"); /* from right to left */
	shows("line\u2028paragraph\u2029", "line\\xe2\\x80\\xa8paragraph\\xe2\\x80\\xa9");
}

TEST(what_is_text)
{
	shows("", "");
	shows("a table\n\twith \"quotes\" and \\ \\x1b", "a table\n\twith \"quotes\" and \\ \\x1b");
	shows("Größe, 日本, 😀", "Größe, 日本, 😀");
}

TEST(a_line)
{
	char out[64];

	assert_int_equal(hvd_printable_line("a\n\tb\x1b c\n", out, sizeof(out)), 11);
	assert_string_equal(out, "a  b\\x1b c ");
}

TEST(bytes_that_are_no_text)
{
	shows("\xff\xfe", "\\xff\\xfe");
	shows("\xc3", "\\xc3");                            /* half a character */
	shows("\xe2\x82", "\\xe2\\x82");                   /* two thirds */
	shows("\xc0\x9b", "\\xc0\\x9b");                   /* longer than it need be */
	shows("\xe0\x82\x9b", "\\xe0\\x82\\x9b");          /* the same, in three */
	shows("\xed\xa0\x80", "\\xed\\xa0\\x80");          /* a surrogate */
	shows("\xf4\x90\x80\x80", "\\xf4\\x90\\x80\\x80"); /* beyond Unicode */
	shows("\xa2", "\\xa2");
}

TEST(every_byte)
{
	for (int c = 1; c < 256; c++) {
		char text[] = {(char)c, 'x', '\0'}, out[8];

		hvd_printable(text, out, sizeof(out));
		for (const char *s = out; *s; s++)
			assert_true((*s >= 0x20 && *s < 0x7f) || *s == '\n' || *s == '\t');
	}
}

TEST(a_quotation)
{
	char out[256];

	hvd_printable_quote("no\" hvd: run \\this\n\x1b[A\ttoo\xa2", out, sizeof(out));
	assert_string_equal(out, "\"no\\\" hvd: run \\\\this\\n\\x1b[A\\ttoo\\xa2\"");
	hvd_printable_quote("", out, sizeof(out));
	assert_string_equal(out, "\"\"");
}

/* Nothing is written past the end, and nothing is cut within a character or an escape. */
TEST(little_room)
{
	char out[64];

	for (size_t size = 1; size < 20; size++) {
		memset(out, '#', sizeof(out));
		assert_true(hvd_printable("a\x1b\x1b"
					  "ü\x1b",
					  out, size) < size);
		assert_int_equal(out[size], '#');
		assert_true(strstr("a\\x1b\\x1bü\\x1b", out) != NULL);
		assert_true(strlen(out) == 0 || strlen(out) == 1 || strlen(out) == 5 || strlen(out) == 9 ||
			    strlen(out) == 11 || strlen(out) == 15);
		if (size < 3)
			continue;
		memset(out, '#', sizeof(out));
		assert_true(hvd_printable_quote("\"\"\"\"\"\"\"\"\"\"", out, size) < size);
		assert_int_equal(out[size], '#');
		assert_int_equal(strlen(out) % 2, 0);
		assert_int_equal(out[strlen(out) - 1], '"');
	}
}

/* ---- where it is used ---- */

static void clean(const char *text)
{
	assert_null(strpbrk(text, "\x1b\r\x07\x08"));
}

TEST(errors)
{
	struct hvd_err err = {0};

	hvd_err_set(&err, HVD_E_PROTO, "he says %s", "\x1b[A\r");
	hvd_err_host(&err, "\x1b]0;h\x07");
	hvd_err_hint(&err, "%s", "\x1b[2J");
	assert_string_equal(err.msg, "he says \\x1b[A\\x0d");
	assert_string_equal(err.host, "\\x1b]0;h\\x07");
	assert_string_equal(err.hint, "\\x1b[2J");
	hvd_err_prefix(&err, "%s", "\x08");
	assert_string_equal(err.msg, "\\x08: he says \\x1b[A\\x0d");
	errno = ENOENT;
	hvd_err_sys(&err, "cannot open %s", "\x1b[c");
	assert_string_equal(err.msg, "cannot open \\x1b[c: No such file or directory");
}

TEST(messages)
{
	struct hvd_log log = hvd_log_make("prog", HVD_LOG_INFO);
	char text[8192];
	int fds[2];
	ssize_t n;

	assert_int_equal(pipe(fds), 0);
	log.fd = fds[1];
	hvd_warn(&log, "he says %s", "\x1b[2J\rprog: error: all is lost\nprog: error: run this\n  a table");
	n = read(fds[0], text, sizeof(text) - 1);
	assert_true(n > 0);
	text[n] = '\0';
	clean(text);
	assert_string_equal(text, "prog: warning: he says \\x1b[2J\\x0dprog: error: all is lost\n"
				  "  prog: error: run this\n"
				  "  a table\n");
	memset(text, '\n', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	hvd_warn(&log, "%s", text);
	n = read(fds[0], text, sizeof(text));
	assert_true(n > 4000 && n <= 4096);
	assert_int_equal(text[n - 1], '\n');
	close(fds[0]);
	close(fds[1]);
}

RUN_TESTS()
