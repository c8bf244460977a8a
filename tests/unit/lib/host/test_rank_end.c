/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/host/rank_end.h"

#include "tests/unit/unit.h"

static struct hvd_rank_end again(const struct hvd_rank_end *end)
{
	struct hvd_rank_end got = {.rank = end->rank};
	json_t *msg = hvd_rank_end_json(end);

	assert_int_equal(hvd_rank_end_parse(msg, &got, NULL), 0);
	json_decref(msg);
	return got;
}

TEST(all_fields_arrive)
{
	struct hvd_rank_end end = {.rank = 7,
				   .local_rank = 3,
				   .pid = 4711,
				   .status = 1 << 8,
				   .ended_at = 1700000000123456789,
				   .failed_at = 1700000000000000001,
				   .cause = HVD_END_OOM,
				   .error = (char *)"RuntimeError: x",
				   .traceback = (char *)"a\nb\n",
				   .tail = (char *)"c\xff\x1b[2J\n"};
	struct hvd_rank_end got = again(&end);

	assert_int_equal(got.rank, 7);
	assert_int_equal(got.local_rank, 3);
	assert_int_equal(got.pid, 4711);
	assert_int_equal(got.status, 256);
	assert_true(got.ended_at == end.ended_at && got.failed_at == end.failed_at);
	assert_int_equal(got.cause, HVD_END_OOM);
	assert_string_equal(got.error, "RuntimeError: x");
	assert_string_equal(got.traceback, "a\nb\n");
	assert_string_equal(got.tail, "c\\xff\\x1b[2J\n");
	hvd_rank_end_clear(&got);
	assert_null(got.tail);
}

TEST(nothing_but_a_status)
{
	json_t *msg = json_pack("{s:i, s:s, s:i, s:i}", "status", 9, "cause", "?", "pid", -1, "tail", 3);
	struct hvd_rank_end got = {.rank = 5};
	struct hvd_err err = {0};

	assert_int_equal(hvd_rank_end_parse(msg, &got, &err), 0);
	assert_int_equal(got.rank, 5);
	assert_int_equal(got.status, 9);
	assert_int_equal(got.cause, HVD_END_NONE);
	assert_true(!got.pid && !got.error && !got.traceback && !got.tail && !got.ended_at);
	json_object_del(msg, "status");
	assert_int_equal(hvd_rank_end_parse(msg, &got, &err), -1);
	json_decref(msg);
}

static char *error_of(const char *error)
{
	json_t *msg = json_pack("{s:i, s:s}", "status", 256, "error", error);
	struct hvd_rank_end got = {0};

	assert_int_equal(hvd_rank_end_parse(msg, &got, NULL), 0);
	json_decref(msg);
	return got.error;
}

TEST(the_error_is_one_line)
{
	char *second = error_of("\n\nKeyError: 3\nmore"), *none = error_of("\n\n");

	assert_string_equal(second, "KeyError: 3");
	assert_null(none);
	free(second);
}

TEST(long_texts_are_cut)
{
	struct hvd_rank_end end = {.status = 9}, got;
	char *text = malloc(100000);

	memset(text, 'x', 99999);
	text[99999] = '\0';
	end.error = end.traceback = end.tail = text;
	got = again(&end);
	free(text);
	assert_int_equal(strlen(got.error), HVD_RANK_END_ERROR);
	assert_int_equal(strlen(got.traceback), HVD_RANK_END_TRACEBACK);
	assert_int_equal(strlen(got.tail), HVD_RANK_END_TAIL);
	assert_string_equal(got.tail + HVD_RANK_END_TAIL - 6, " [...]");
	hvd_rank_end_clear(&got);
}

RUN_TESTS()
