/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/rendezvous/wait_line.h"
#include "tests/unit/unit.h"

static void is(struct hvd_slice slice, const char *expected)
{
	assert_int_equal(slice.n, strlen(expected));
	assert_memory_equal(slice.p, expected, slice.n);
}

TEST(what_was_written_is_read)
{
	char key[300], *text = NULL;
	struct hvd_wait_line line;
	struct hvd_addr addr;
	const char *p;

	memset(key, 'k', sizeof(key));
	assert_int_equal(hvd_addr_parse("10.0.0.2", &addr), 0);
	hvd_wait_line_add(&text, &addr, 77, (struct hvd_slice){"a waits for b", 13}, 0);
	hvd_wait_line_add(&text, &addr, 0, (struct hvd_slice){"a", 1}, 2);
	assert_int_equal(hvd_addr_parse("fd00::7", &addr), 0);
	hvd_wait_line_add(&text, &addr, UINT32_MAX, (struct hvd_slice){key, sizeof(key)}, 0);
	p = text;
	assert_true(hvd_wait_line_next(&p, &line));
	is(line.line, "10.0.0.2 (pid 77) waits for a waits for b");
	is(line.who, "10.0.0.2 (pid 77)");
	is(line.key, "a waits for b");
	assert_int_equal(line.pid, 77);
	assert_true(hvd_wait_line_next(&p, &line));
	is(line.who, "10.0.0.2");
	is(line.key, "a and 2 more");
	assert_int_equal(line.pid, 0);
	assert_true(hvd_wait_line_next(&p, &line));
	assert_int_equal(line.key.n, 200);
	assert_int_equal(line.pid, UINT32_MAX);
	assert_int_equal(hvd_addr_compare(&line.addr, &addr), 0);
	assert_false(hvd_wait_line_next(&p, &line));
	free(text);
}

/* Text from elsewhere, or a line that was cut. */
TEST(other_lines_have_no_process)
{
	const char *p = "\n\nnonsense\nx (pid 7) waits for k\n10.0.0.2 waits for (pid 8)\n10.0.0.2 (pid 9) waits",
		   *none = NULL;
	struct hvd_wait_line line;

	assert_true(hvd_wait_line_next(&p, &line));
	is(line.line, "nonsense");
	assert_int_equal(line.who.n, 0);
	for (int i = 0; i < 2; i++) {
		assert_true(hvd_wait_line_next(&p, &line));
		assert_true(line.who.n > 0);
		assert_int_equal(line.pid, 0);
	}
	assert_true(hvd_wait_line_next(&p, &line));
	is(line.line, "10.0.0.2 (pid 9) waits");
	assert_int_equal(line.who.n, 0);
	assert_false(hvd_wait_line_next(&p, &line));
	assert_false(hvd_wait_line_next(&none, &line));
}

RUN_TESTS()
