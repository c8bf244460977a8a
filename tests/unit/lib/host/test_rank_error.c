/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/host/rank_error.h"

#include "tests/unit/unit.h"

#include <time.h>

#define SECOND INT64_C(1000000000)
#define START  (1700000000 * SECOND)

static void found(const char *text, size_t piece, struct hvd_rank_end *end)
{
	struct hvd_rank_error *e = hvd_rank_error_create(20);
	size_t n = strlen(text);

	*end = (struct hvd_rank_end){.status = 256, .ended_at = START + SECOND};
	for (size_t at = 0; at < n; at += piece)
		hvd_rank_error_stderr(e, text + at, at + piece < n ? piece : n - at, START);
	hvd_rank_error_fill(e, end);
	hvd_rank_error_destroy(e);
}

/* The same, however the bytes come. */
static void finds(const char *text, const char *error, const char *traceback)
{
	static const size_t pieces[] = {1, 2, 7, 33, 34, 64, 100000};
	struct hvd_rank_end end;

	for (size_t i = 0; i < sizeof(pieces) / sizeof(pieces[0]); i++) {
		found(text, pieces[i], &end);
		if (!error) {
			assert_null(end.error);
			assert_null(end.traceback);
			assert_true(end.failed_at == 0);
		} else {
			assert_non_null(end.error);
			assert_string_equal(end.error, error);
		}
		if (traceback)
			assert_string_equal(end.traceback, traceback);
		if (traceback)
			assert_true(end.failed_at == START);
		hvd_rank_end_clear(&end);
	}
}

#define TB    "Traceback (most recent call last):\n"
#define FRAME "  File \"train.py\", line 41, in step\n    loss.backward()\n    ~~~~~^^\n"

TEST(tracebacks)
{
	finds("hello\n" TB FRAME "RuntimeError: no\n", "RuntimeError: no", TB FRAME "RuntimeError: no\n");
	finds(TB FRAME "torch.cuda.OutOfMemoryError", "torch.cuda.OutOfMemoryError", NULL);
	finds(TB FRAME "ValueError: a\n" TB FRAME "KeyError: 'b'\n", "KeyError: 'b'", TB FRAME "KeyError: 'b'\n");
	finds(" 50%|###   | 5/10 [00:01<00:01]" TB FRAME "E: x\n", "E: x", TB FRAME "E: x\n");
	finds("nothing of the kind\n", NULL, NULL);
	finds("", NULL, NULL);
	finds(TB FRAME, NULL, NULL);
}

/* Then a report need not show the traceback twice. */
TEST(last_lines_have_no_prefix_of_torch)
{
	struct hvd_rank_end end;

	found("step [rank0]: 1\n[rank0]: " TB
	      "[rank0]:   File \"t.py\", line 1, in f\n[rank0]: E: x\n[rank0]:[W11] bye\n",
	      7, &end);
	assert_string_equal(end.traceback, TB "  File \"t.py\", line 1, in f\nE: x\n");
	assert_string_equal(end.tail,
			    "step [rank0]: 1\n" TB "  File \"t.py\", line 1, in f\nE: x\n[rank0]:[W11] bye\n");
	hvd_rank_end_clear(&end);
}

TEST(messages_of_several_lines)
{
	finds(TB FRAME "RuntimeError: CUDA error\nmore of it\n\nafterwards\n", "RuntimeError: CUDA error",
	      TB FRAME "RuntimeError: CUDA error\nmore of it\n");
	finds(TB FRAME "RuntimeError: Caught KeyError in DataLoader worker process 0.\nOriginal " TB FRAME
		       "KeyError: 'b'\n",
	      "RuntimeError: Caught KeyError in DataLoader worker process 0.", NULL);
}

TEST(exceptions_that_led_to_one_another)
{
	static const char chain[] = TB FRAME "KeyError: 'a'\n\nDuring handling of the above exception, another "
					     "exception occurred:\n\n" TB FRAME "ValueError: b\n";

	finds(chain, "ValueError: b", chain);
}

TEST(lines_with_the_rank_before_them)
{
	finds("[rank3]: " TB "[rank3]:   File \"t.py\", line 1, in f\n[rank3]:     g()\nother output\n"
	      "[rank3]: RuntimeError: x\n[rank3]: and y\n",
	      "RuntimeError: x", TB "  File \"t.py\", line 1, in f\n    g()\nRuntimeError: x\nand y\n");
	finds("  + Exception Group " TB "  |   File \"t.py\", line 1, in f\n  | ExceptionGroup: two (2)\n"
	      "  +-+---------------- 1 ----------------\n    | ValueError: 1\n",
	      "ExceptionGroup: two (2)", NULL);
}

TEST(what_python_ignores)
{
	finds(TB FRAME "RuntimeError: x\nException ignored in: <function A.__del__ at 0x7f>\n" TB FRAME
		       "TypeError: y\n",
	      "RuntimeError: x", NULL);
	finds("Exception ignored in: <function A.__del__ at 0x7f>\n" TB FRAME "TypeError: y\n", NULL, NULL);
}

TEST(programs_that_crash)
{
	finds("terminate called after throwing an instance of 'std::runtime_error'\n  what():  no memory\n",
	      "std::runtime_error: no memory", NULL);
	finds("Fatal Python error: Segmentation fault\n\nCurrent thread 0x1 (most recent call first):\n  File \"a\"\n",
	      "Fatal Python error: Segmentation fault",
	      "Fatal Python error: Segmentation fault\n\nCurrent thread 0x1 (most recent call first):\n  File \"a\"\n");
	finds("thread 'main' panicked at src/main.rs:2:5:\nno\n", "thread 'main' panicked at src/main.rs:2:5: no",
	      NULL);
	/* That the program fails once more on its way out does not hide why it ended. */
	finds(TB FRAME "RuntimeError: x\n\nFatal Python error: _enter_buffered_busy\n", "RuntimeError: x", NULL);
}

TEST(what_a_shell_says_of_a_crash)
{
	struct hvd_rank_end end;

	found("a\njob.sh: line 3: 4711 Segmentation fault      (core dumped) ./a.out\nb\n", 100, &end);
	assert_string_equal(end.error, "job.sh: line 3: 4711 Segmentation fault      (core dumped) ./a.out");
	assert_true(end.failed_at == 0);
	hvd_rank_end_clear(&end);
}

TEST(a_survived_traceback_does_not_count)
{
	static const char text[] = TB FRAME "RuntimeError: x\n";
	struct hvd_rank_error *e = hvd_rank_error_create(1);
	struct hvd_rank_end end = {.status = 256, .ended_at = START + 300 * SECOND};

	hvd_rank_error_stderr(e, text, strlen(text), START);
	hvd_rank_error_fill(e, &end);
	assert_true(end.failed_at == START); /* silent since */
	hvd_rank_end_clear(&end);
	end.status = 256;
	end.ended_at = START + 300 * SECOND;
	hvd_rank_error_stderr(e, "step 2\n", 7, START + 100 * SECOND);
	hvd_rank_error_fill(e, &end);
	assert_true(end.failed_at == 0);
	assert_null(end.error);
	assert_string_equal(end.tail, "step 2\n");
	hvd_rank_end_clear(&end);
	hvd_rank_error_fill(e, &end); /* a status of 0 */
	assert_null(end.tail);
	hvd_rank_error_destroy(e);
}

TEST(the_last_lines)
{
	struct hvd_rank_error *e = hvd_rank_error_create(2);
	struct hvd_rank_end end = {.status = 9};

	hvd_rank_error_stderr(e, "a\nb\nc\nd", 7, START);
	hvd_rank_error_fill(e, &end);
	assert_string_equal(end.tail, "c\nd");
	hvd_rank_end_clear(&end);
	end.status = 9;
	hvd_rank_error_stderr(e, "\n", 1, START);
	for (int i = 0; i < 5000; i++)
		hvd_rank_error_stderr(e, "0123456789", 10, START);
	hvd_rank_error_fill(e, &end);
	assert_memory_equal(end.tail, "[...]\n", 6);
	assert_in_range(strlen(end.tail), HVD_RANK_END_TAIL - 32, HVD_RANK_END_TAIL);
	hvd_rank_end_clear(&end);
	hvd_rank_error_destroy(e);
}

TEST(a_long_traceback)
{
	struct hvd_rank_error *e = hvd_rank_error_create(2);
	struct hvd_rank_end end = {.status = 256, .ended_at = START};

	hvd_rank_error_stderr(e, TB, strlen(TB), START);
	for (int i = 0; i < 3000; i++)
		hvd_rank_error_stderr(e, FRAME, strlen(FRAME), START);
	hvd_rank_error_stderr(e, "RecursionError: x\n", 18, START);
	hvd_rank_error_fill(e, &end);
	assert_string_equal(end.error, "RecursionError: x");
	assert_memory_equal(end.traceback, TB FRAME, strlen(TB FRAME));
	assert_non_null(strstr(end.traceback, "\n[...]\n"));
	assert_null(strstr(strstr(end.traceback, "[...]") + 5, "[...]"));
	assert_string_equal(end.traceback + strlen(end.traceback) - 18, "RecursionError: x\n");
	assert_in_range(strlen(end.traceback), HVD_RANK_END_TRACEBACK / 2, HVD_RANK_END_TRACEBACK);
	hvd_rank_end_clear(&end);
	hvd_rank_error_destroy(e);
}

static void in_file(const char *text, const char *error, const char *traceback)
{
	static const char other[] = TB FRAME "OtherError: x\n";
	struct hvd_rank_error *e = hvd_rank_error_create(0);
	struct hvd_rank_end end = {.status = 256, .ended_at = START};

	hvd_rank_error_stderr(e, other, strlen(other), START);
	hvd_rank_error_file(e, text, 5, START + 7);
	hvd_rank_error_file(e, text + 5, strlen(text) - 5, START + 8);
	hvd_rank_error_fill(e, &end);
	assert_string_equal(end.error, error);
	if (traceback)
		assert_string_equal(end.traceback, traceback);
	else
		assert_null(end.traceback);
	assert_null(end.tail);
	assert_true(end.failed_at == (strcmp(error, "OtherError: x") == 0 ? START : START + 7));
	hvd_rank_end_clear(&end);
	hvd_rank_error_destroy(e);
}

TEST(the_error_file)
{
	in_file("{\"message\": {\"message\": \"ValueError: a\\nb\", \"extraInfo\": {\"py_callstack\": "
		"\"Trace\\nV\\n\", "
		"\"timestamp\": \"1\"}}}",
		"ValueError: a", "Trace\nV\n");
	in_file("{\"message\": \"it broke\"}{\"message\": \"and again\"}", "it broke", NULL);
	in_file("{\"message\": \"Traceback (most recent call last):\\n  File\\nKeyError: 1\\n\"}", "KeyError: 1",
		"Traceback (most recent call last):\n  File\nKeyError: 1\n");
	in_file("{\"message\": {\"extraInfo\": {\"py_callstack\": \"Trace\\nV: 1\\n\"}}}", "V: 1", "Trace\nV: 1\n");
	in_file("{\"message\": [1]}", "OtherError: x", TB FRAME "OtherError: x\n");
	in_file("nonsense", "OtherError: x", TB FRAME "OtherError: x\n");
}

TEST(whose_error_file)
{
	assert_false(hvd_rank_error_file_set(NULL));
	assert_false(hvd_rank_error_file_set(""));
	assert_false(hvd_rank_error_file_set("/proc/12/fd/7"));
	assert_true(hvd_rank_error_file_set("/proc/self/fd/7"));
	assert_true(hvd_rank_error_file_set("/tmp/error.json"));
}

RUN_TESTS()
