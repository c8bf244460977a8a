/* SPDX-License-Identifier: Apache-2.0 */
/* The file of srun --multi-prog, as slurmstepd and srun read it. */
#include "lib/process/multi_prog.h"

#include "tests/unit/unit.h"

static struct hvd_multi_prog *parse(const char *text, char *const *more)
{
	struct hvd_err err = {0};
	struct hvd_multi_prog *mp = hvd_multi_prog_parse(text, strlen(text), "f.conf", more, &err);

	if (!mp)
		fail_msg("%s", err.msg);
	return mp;
}

/* The command of a rank, with its words in brackets. */
static void runs(const struct hvd_multi_prog *mp, int rank, const char *want)
{
	struct hvd_strv argv = {0};
	char shown[512] = "";

	assert_int_equal(hvd_multi_prog_command(mp, rank, &argv), want ? 0 : -1);
	for (size_t i = 0; i < argv.n; i++)
		snprintf(shown + strlen(shown), sizeof(shown) - strlen(shown), "[%s]", argv.v[i]);
	assert_string_equal(shown, want ? want : "");
	hvd_strv_free(&argv);
}

static void one(const char *text, int rank, const char *want)
{
	struct hvd_multi_prog *mp = parse(text, NULL);

	runs(mp, rank, want);
	hvd_multi_prog_destroy(mp);
}

static void refused(const char *text, const char *want)
{
	struct hvd_err err = {0};

	assert_null(hvd_multi_prog_parse(text, strlen(text), "f.conf", NULL, &err));
	assert_int_equal(err.code, HVD_E_USAGE);
	assert_string_equal(err.msg, want);
	assert_true(*err.hint || strncmp(want, "line", 4) != 0);
}

TEST(each_rank_has_its_command)
{
	struct hvd_multi_prog *mp = parse("# the example of srun(1)\n"
					  "\n"
					  "4-6       hostname\n"
					  "  1,7\techo  task:%t\n"
					  "  # 9 nothing\n"
					  "0,2-3     echo  offset:%o",
					  NULL);

	runs(mp, 0, "[echo][offset:0]");
	runs(mp, 1, "[echo][task:1]");
	runs(mp, 2, "[echo][offset:1]");
	runs(mp, 3, "[echo][offset:2]");
	runs(mp, 4, "[hostname]");
	runs(mp, 6, "[hostname]");
	runs(mp, 7, "[echo][task:7]");
	runs(mp, 8, NULL);
	assert_int_equal(hvd_multi_prog_ranks(mp), 8);
	assert_false(hvd_multi_prog_open(mp));
	hvd_multi_prog_destroy(mp);
}

TEST(all_others)
{
	struct hvd_multi_prog *mp = parse("2 a %o %t\n* b %o %t\n", NULL);

	runs(mp, 2, "[a][0][2]");
	runs(mp, 0, "[b][0][0]");
	runs(mp, 1000000, "[b][1000000][1000000]"); /* the place of such a rank is its number, as for srun */
	assert_int_equal(hvd_multi_prog_ranks(mp), 3);
	assert_true(hvd_multi_prog_open(mp));
	assert_int_equal(hvd_multi_prog_check(mp, 5, NULL), 0);
	assert_int_equal(hvd_multi_prog_check(mp, 2, NULL), -1);
	hvd_multi_prog_destroy(mp);
}

TEST(quotes_and_backslashes)
{
	one("0 sh -c 'echo %t \\ \"x\"' ''", 0, "[sh][-c][echo %t \\ \"x\"][]");
	one("0 a b\\ c \\%t \\\\ d\\'e x'y z'%t%o", 0, "[a][b c][%t][\\][d'e][xy z00]");
	one("0 'my program' \"two words\"\r\n", 0, "[my program][\"two][words\"]");
	one("0\ta\v\f b", 0, "[a][b]");
}

TEST(lines_that_go_on)
{
	struct hvd_multi_prog *mp = parse("0 a b\\\nc d \\\n   e 'f\\\ng'\n# a comment \\\n1 none\n1 x\\\n", NULL);
	struct hvd_strv argv = {0};

	runs(mp, 0, "[a][bc][d][e][fg]");
	runs(mp, 1, "[x]");
	assert_int_equal(hvd_multi_prog_line(mp, 0, &argv), 1);
	assert_int_equal(hvd_multi_prog_line(mp, 1, &argv), 7);
	assert_string_equal(argv.v[5], "x");
	assert_int_equal(hvd_multi_prog_line(mp, 2, &argv), 0);
	hvd_strv_free(&argv);
	hvd_multi_prog_destroy(mp);
}

TEST(words_of_the_command_line_come_last)
{
	char *more[] = {(char *)"--epochs", (char *)"%t 3", NULL};
	struct hvd_multi_prog *mp = parse("0 a b\n1 c\n", more);

	runs(mp, 0, "[a][b][--epochs][%t 3]");
	runs(mp, 1, "[c][--epochs][%t 3]");
	hvd_multi_prog_destroy(mp);
}

TEST(wrong_files)
{
	refused("", "f.conf has no line with ranks and a program");
	refused("# 0 a\n", "f.conf has no line with ranks and a program");
	refused("\n0\n", "line 2 of f.conf: there is no program behind the ranks");
	refused("0 '' a", "line 1 of f.conf: there is no program behind the ranks");
	refused("python train.py", "line 1 of f.conf: these are no ranks: \"python\"");
	refused("3-1 a", "line 1 of f.conf: these are no ranks: \"3-1\"");
	refused("0,-3 a", "line 1 of f.conf: these are no ranks: \"-3\"");
	refused("3- a", "line 1 of f.conf: these are no ranks: \"3-\"");
	refused("1048576 a", "line 1 of f.conf: these are no ranks: \"1048576\"");
	refused("99999999999999999999 a", "line 1 of f.conf: these are no ranks: \"99999999999999999999\"");
	refused("0,* a", "line 1 of f.conf: these are no ranks: \"*\"");
	refused(", a", "line 1 of f.conf: no rank is named");
	refused("0-3 a\n2,4 b", "line 2 of f.conf: another line, or this one, has named one of these ranks: \"2\"");
	refused("* a\n0 b", "line 2 of f.conf: the line for all other ranks (*) is not the last one");
	refused("0 a 'b", "line 1 of f.conf: a quote is not closed");
	refused("0 date +%s", "line 1 of f.conf: % is followed by neither t nor o");
	refused("0 a %", "line 1 of f.conf: % is followed by neither t nor o");
}

TEST(limits)
{
	char *line = calloc(1, 40000);
	struct hvd_err err = {0};

	assert_non_null(line);
	memset(line, 'x', 16382);
	memcpy(line, "0 ", 2);
	hvd_multi_prog_destroy(parse(line, NULL));
	line[16381] = '\n';
	hvd_multi_prog_destroy(parse(line, NULL));
	line[16381] = 'x';
	line[16382] = '\n';
	refused(line, "line 1 of f.conf: it is too long");
	strcpy(line, "0");
	for (int i = 0; i < 127; i++)
		strcat(line, " a");
	hvd_multi_prog_destroy(parse(line, NULL));
	strcat(line, " b");
	refused(line, "line 1 of f.conf: the command has more than 127 words");
	assert_null(hvd_multi_prog_parse("0 a\0b", 5, "f.conf", NULL, &err));
	assert_string_equal(err.msg, "f.conf is no text");
	free(line);
}

TEST(every_rank_and_no_other)
{
	struct hvd_multi_prog *mp = parse("0,2 a\n", NULL);
	struct hvd_err err = {0};

	assert_int_equal(hvd_multi_prog_check(mp, 3, &err), -1);
	assert_string_equal(err.msg, "f.conf: no executable program specified for rank 1 of 3");
	assert_int_equal(hvd_multi_prog_check(mp, 2, &err), -1);
	assert_string_equal(err.msg, "line 1 of f.conf: there is no rank 2 in a job of 2");
	assert_int_equal(err.code, HVD_E_USAGE);
	hvd_multi_prog_destroy(mp);
	mp = parse("0 a\n1 b", NULL);
	assert_int_equal(hvd_multi_prog_check(mp, 2, &err), 0);
	hvd_multi_prog_destroy(mp);
}

TEST(files)
{
	struct hvd_err err = {0};

	assert_null(hvd_multi_prog_read("/nonexistent/f.conf", NULL, &err));
	assert_int_equal(err.code, HVD_E_USAGE);
	in_text(err.msg, "/nonexistent/f.conf", __FILE__, __LINE__);
	assert_null(hvd_multi_prog_read("/", NULL, &err));
	assert_int_equal(err.code, HVD_E_USAGE);
}

RUN_TESTS()
