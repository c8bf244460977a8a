/* SPDX-License-Identifier: Apache-2.0 */
/* What hvdrun --watch shows, without a terminal. */
#include "launcher/watch/view.h"

#include "tests/unit/unit.h"

#include <stdlib.h>
#include <string.h>

static json_t *rank(int number, double cpu, double memory)
{
	return json_pack("{s:i, s:s, s:s, s:f, s:f, s:f}", "rank", number, "host", "hvdn1", "state", "running", "cpu",
			 cpu, "memory", memory, "awaited", (double)number / 100000);
}

static json_t *status_of(json_t *ranks, const char *command)
{
	return json_pack("{s:[{s:i, s:s, s:i, s:s, s:s, s:i, s:[{s:s, s:s, s:i, s:f}, {s:s, s:s, s:i}], s:o, s:[s]}]}",
			 "launches", "job", 123, "host", "hvdlogin", "pid", 4711, "state", "running", "command",
			 command, "generation", 1, "hosts", "host", "hvdn1", "stage", "here", "ranks", 4, "cpu", 3.5,
			 "host", "hvdn2", "stage", "lost", "ranks", 0, "ranks", ranks, "store",
			 "10.0.0.2 (pid 77) waits for key");
}

static struct hvd_view *view_of(json_t *ranks, const char *command)
{
	struct hvd_view *view = hvd_view_create("123");
	json_auto_t *status = status_of(ranks, command);

	assert_non_null(status);
	hvd_view_status(view, status, "12:00:03");
	return view;
}

static size_t characters(const char *text)
{
	size_t n = 0;

	for (; *text; text++)
		n += (*text & 0xc0) != 0x80;
	return n;
}

/* The screen as one text; its lines are as many as asked for, and not too long. */
static char *screen(struct hvd_view *view, size_t width, size_t height, struct hvd_status_lines *kept)
{
	struct hvd_status_lines lines = {0};
	size_t size = 0, len = 0;
	char *text;

	hvd_view_lines(view, width, height, &lines);
	assert_int_equal(lines.n, height);
	for (size_t i = 0; i < lines.n; i++) {
		assert_true(characters(lines.v[i].text) <= width);
		assert_null(strpbrk(lines.v[i].text, "\n\t\x1b"));
		size += strlen(lines.v[i].text) + 1;
	}
	text = calloc(1, size + 1);
	assert_non_null(text);
	for (size_t i = 0; i < lines.n; i++)
		len += (size_t)snprintf(text + len, size + 1 - len, "%s\n", lines.v[i].text);
	if (kept)
		*kept = lines;
	else
		hvd_status_lines_clear(&lines);
	return text;
}

/* After these keys the screen has this text. */
static void shows(struct hvd_view *view, const char *keys, const char *expected)
{
	char *text;

	for (; *keys; keys++)
		hvd_view_key(view, *keys, 24);
	text = screen(view, 80, 24, NULL);
	assert_in(text, expected);
	free(text);
}

static json_t *four(void)
{
	json_t *ranks =
		json_pack("[o, o, o, o]", rank(0, 0.5, 4e9), rank(1, 0.9, 3e9), rank(2, 0.1, 2e9), rank(3, 0.6, 1e9));

	json_object_set_new(json_array_get(ranks, 2), "slow", json_string("its peers wait for it 92 % of the time"));
	return ranks;
}

TEST(test_a_slow_rank_is_on_top)
{
	struct hvd_view *view = view_of(four(), "python train.py");
	struct hvd_status_lines lines;
	char *text = screen(view, 80, 24, &lines);
	size_t odd = 0;

	assert_in(text, "hvdrun --watch 123  12:00:03  ranks odd first\njob 123, process 4711 on hvdlogin: running");
	assert_in(text, "  store: 10.0.0.2 (pid 77) waits for key\n");
	assert_in(text, "  rank 2 on hvdn1 is slow: its peers wait for it 92 % of the time\n");
	assert_in(text, " RANK HOST   CPU AWAIT   MEM\n    2 hvdn1  10% ");
	for (size_t i = 0; i < lines.n; i++)
		odd += lines.v[i].kind == HVD_STATUS_ODD_ROW || lines.v[i].kind == HVD_STATUS_REASON;
	assert_int_equal(odd, 2);
	assert_int_equal(lines.v[0].kind, HVD_STATUS_TITLES);
	hvd_status_lines_clear(&lines);
	free(text);
	hvd_view_destroy(view);
}

TEST(test_keys)
{
	struct hvd_view *view = view_of(four(), "python train.py");

	shows(view, "o", "ranks by rank\n");
	shows(view, "", "MEM\n    0 hvdn1  50% ");
	shows(view, "o", "MEM\n    1 hvdn1  90% "); /* CPU */
	shows(view, "o", "MEM\n    0 hvdn1  50% "); /* memory */
	shows(view, "o", "MEM\n    3 hvdn1  60% "); /* AWAIT */
	shows(view, "o", "ranks odd first\n");
	shows(view, "h", "RANKS HOST   CPU\n    0 hvdn2 lost\n    4 hvdn1 350%\n");
	shows(view, "?", "leave; the job goes on\n");
	shows(view, "?", "RANKS HOST");
	assert_int_equal(hvd_view_key(view, 's', 24), HVD_VIEW_STACKS);
	shows(view, "", "taking the stacks");
	/* They are not taken twice at a time. */
	assert_int_equal(hvd_view_key(view, 's', 24), HVD_VIEW_DRAW);
	assert_int_equal(hvd_view_key(view, 's', 24), HVD_VIEW_DRAW);
	hvd_view_text(view, "4 ranks: 0-3\n  read \x1b[2J\n");
	shows(view, "", "stacks\n4 ranks: 0-3\n  read \\x1b[2J\n");
	hvd_view_message(view, "no answer");
	shows(view, "s", "\nno answer\n");
	/* Of one rank: that which was typed, or that of the first row. */
	shows(view, "12", "\nrank 12: l last lines  s stacks\n");
	assert_int_equal(hvd_view_key(view, 's', 24), HVD_VIEW_STACKS);
	assert_string_equal(hvd_view_rank(view), "12");
	shows(view, "", "  stacks of rank 12\ntaking the stacks");
	hvd_view_text(view, "");
	assert_int_equal(hvd_view_key(view, 'l', 24), HVD_VIEW_LINES);
	assert_string_equal(hvd_view_rank(view), "2");
	shows(view, "", "  last lines of rank 2\nasking for the last lines");
	hvd_view_text(view, "loss 0.5\n");
	shows(view, "", "  last lines of rank 2\nloss 0.5\n");
	shows(view, "l", "RANKS HOST");
	shows(view, "9999999999x", "\nno answer\n");
	assert_int_equal(hvd_view_key(view, 'x', 24), HVD_VIEW_NOTHING);
	assert_int_equal(hvd_view_key(view, 'q', 24), HVD_VIEW_LEAVE);
	hvd_view_destroy(view);
}

TEST(test_scrolling)
{
	json_t *ranks = json_array();
	struct hvd_view *view;

	for (int r = 0; r < 100; r++)
		json_array_append_new(ranks, rank(r, 1, 1e9));
	view = view_of(ranks, "python train.py");
	shows(view, "", "lines 1-22 of 107\n");
	hvd_view_key(view, HVD_KEY_DOWN, 24);
	shows(view, "", "lines 2-23 of 107\n");
	hvd_view_key(view, HVD_KEY_PAGE_DOWN, 24);
	shows(view, "", "lines 23-44 of 107\n");
	hvd_view_key(view, HVD_KEY_END, 24);
	shows(view, "", "lines 86-107 of 107\n");
	shows(view, "", "   99 hvdn1 100%");
	hvd_view_key(view, HVD_KEY_DOWN, 24);
	hvd_view_key(view, HVD_KEY_UP, 24);
	shows(view, "", "lines 86-107 of 107\n"); /* the end was cut before */
	hvd_view_key(view, HVD_KEY_PAGE_UP, 24);
	shows(view, "", "lines 65-86 of 107\n");
	hvd_view_key(view, HVD_KEY_HOME, 24);
	hvd_view_key(view, HVD_KEY_UP, 24);
	shows(view, "", "lines 1-22 of 107\n");
	hvd_view_destroy(view);
}

TEST(test_many_ranks_are_groups)
{
	json_t *ranks = json_array();
	struct hvd_view *view;

	for (int r = 0; r < 10001; r++)
		json_array_append_new(ranks, rank(r, (double)r / 10000, 1e9));
	json_object_set_new(json_array_get(ranks, 5000), "slow", json_string("so"));
	view = view_of(ranks, "python train.py");
	/* All of that is on the first screen. */
	shows(view, "", "\n  rank 5000 on hvdn1 is slow: so\n");
	shows(view, "",
	      "RANKS GROUP    CPU AWAIT   MEM\n    1 slow     50%    5%  954M\n10000 running  50%    5%  954M\n"
	      "least of all    0% ");
	shows(view, "", " half          50% ");
	shows(view, "", " RANK HOST     CPU AWAIT   MEM\n 5000 hvdn1    50% ");
	shows(view, "", "\n10000 ranks are left out; --json shows all\n");
	shows(view, "oo", "MEM\n10000 hvdn1   100% ");
	hvd_view_destroy(view);
}

TEST(test_hostile_texts)
{
	json_t *ranks = four();
	struct hvd_view *view;

	json_object_set_new(json_array_get(ranks, 0), "host", json_string("a\x1b[2J\n    7 b"));
	json_object_set_new(json_array_get(ranks, 1), "slow", json_string("\n  rank 9 has\tfailed\xe2\x80\xae"));
	view = view_of(ranks, "x\x1b]0;y\x07\njob 9, process 1 on z: running");
	shows(view, "", "  command: x\\x1b]0;y\\x07 job 9, process 1 on z: running\n");
	shows(view, "", "rank 1 on hvdn1 is slow: rank 9 has failed\\xe2\\x80\\xae\n");
	hvd_view_destroy(view);
	view = hvd_view_create("\x1b[2J");
	shows(view, "", "hvdrun --watch \\x1b[2J");
	hvd_view_message(view, "\x1b[2J");
	shows(view, "", "\n\\x1b[2J\n");
	hvd_view_destroy(view);
}

TEST(test_small_screens)
{
	struct hvd_view *view = view_of(four(), "python träin.py");

	for (size_t height = 0; height < 8; height++)
		for (size_t width = 1; width < 30; width += 4)
			free(screen(view, width, height, NULL));
	hvd_view_destroy(view);
}

RUN_TESTS()
