/* SPDX-License-Identifier: Apache-2.0 */
/* The options of a subcommand of hvd-agent: what is read, what is refused, and the usage. */
#include "agent/subcommand.h"

#include "lib/base/xalloc.h"
#include "tests/unit/unit.h"

struct values {
	bool flag;
	const char *text, *maybe, *old;
	int number;
};

#define AT(field) offsetof(struct values, field)

static const struct hvd_option_row own[] = {
	{"flag", NULL, "a flag", hvd_option_flag, AT(flag)},
	{"text", "TEXT", "a text", hvd_option_text, AT(text)},
	{"maybe", "[=TEXT]", "an optional text", hvd_option_text, AT(maybe)},
	{"old", "TEXT", NULL, hvd_option_text, AT(old)},
	{NULL, NULL, NULL, NULL, 0},
};
static const struct hvd_option_row common[] = {
	{"number", "N", "a number", hvd_option_number, AT(number)},
	{NULL, NULL, NULL, NULL, 0},
};

static const struct hvd_subcommand runs = {.name = "runs",
					   .operands = "COMMAND [ARGUMENT]...",
					   .about = "Run it.",
					   .options = own,
					   .common = common,
					   .least = 1,
					   .most = HVD_ANY_OPERANDS,
					   .command = true};
static const struct hvd_subcommand asks = {
	.name = "asks", .operands = "WHAT", .about = "Ask.", .options = own, .least = 1, .most = 1};
static const struct hvd_subcommand bare = {.name = "bare", .operands = "", .about = "Nothing."};

static struct values values;
static char **operands;
static char said[8192], logged[512];
static char *words[16];

static void on_log(enum hvd_log_level level, const char *text, void *arg)
{
	snprintf(logged, sizeof(logged), "%s", text);
}

/* Parse `line`, whose words are separated by blanks. What goes to descriptor `fd` meanwhile is in `said`. */
static int parse(const struct hvd_subcommand *subcommand, const char *line, int fd)
{
	struct hvd_log log = {.prog = "hvd-agent", .level = HVD_LOG_INFO, .sink = on_log};
	static char *copy;
	char *save = NULL;
	FILE *file = tmpfile(), *stream = fd == STDOUT_FILENO ? stdout : stderr;
	int argc = 0, status, kept;
	size_t n;

	free(copy);
	copy = hvd_xstrdup(line);
	for (char *word = strtok_r(copy, " ", &save); word; word = strtok_r(NULL, " ", &save))
		words[argc++] = word;
	words[argc] = NULL;
	values = (struct values){.number = -1};
	logged[0] = '\0';
	assert_non_null(file);
	fflush(stream);
	kept = dup(fd);
	dup2(fileno(file), fd);
	status = hvd_subcommand_parse(subcommand, argc, words, &values, &operands, &log);
	fflush(stream);
	dup2(kept, fd);
	close(kept);
	rewind(file);
	n = fread(said, 1, sizeof(said) - 1, file);
	said[n] = '\0';
	fclose(file);
	return status;
}

TEST(reads_both_tables)
{
	assert_int_equal(parse(&runs, "runs --flag --text=a --maybe --number 7 -- prog --flag", STDERR_FILENO), -1);
	assert_true(values.flag);
	assert_string_equal(values.text, "a");
	assert_string_equal(values.maybe, "");
	assert_int_equal(values.number, 7);
	assert_string_equal(operands[0], "prog");
	assert_string_equal(operands[1], "--flag");
	assert_null(operands[2]);
	assert_string_equal(said, "");
	assert_int_equal(parse(&runs, "runs --maybe=b prog --text=c", STDERR_FILENO), -1);
	assert_string_equal(values.maybe, "b");
	assert_null(values.text);
	assert_int_equal(values.number, -1);
	assert_string_equal(operands[1], "--text=c");
}

TEST(options_may_follow_an_operand_that_is_no_command)
{
	assert_int_equal(parse(&asks, "asks what --text a --old=b", STDERR_FILENO), -1);
	assert_string_equal(operands[0], "what");
	assert_null(operands[1]);
	assert_string_equal(values.text, "a");
	assert_string_equal(values.old, "b");
}

static void misused(const struct hvd_subcommand *subcommand, const char *line, const char *why)
{
	assert_int_equal(parse(subcommand, line, STDERR_FILENO), 2);
	assert_in(logged, why);
	assert_in(said, "usage: hvd-agent ");
	assert_in(said, subcommand->name);
}

TEST(refuses_the_rest)
{
	misused(&runs, "runs --other -- a", "unknown option --other");
	misused(&runs, "runs --flag=1 -- a", "--flag=1");
	misused(&runs, "runs --text", "--text needs a value");
	misused(&runs, "runs --number=x -- a", "number");
	misused(&runs, "runs --number=-1 -- a", "number");
	misused(&runs, "runs --flag", "COMMAND is missing");
	misused(&asks, "asks", "WHAT is missing");
	misused(&asks, "asks --number=1 a", "unknown option --number=1");
	misused(&asks, "asks a b", "unexpected argument 'b'");
	misused(&bare, "bare a", "unexpected argument 'a'");
	misused(&bare, "bare -x", "unknown option -x");
}

TEST(help_is_made_of_the_tables)
{
	assert_int_equal(parse(&runs, "runs --help --other", STDOUT_FILENO), 0);
	assert_in(said, "usage: hvd-agent runs [OPTION]... -- COMMAND [ARGUMENT]...\n\nRun it.\n\n  --flag ");
	assert_in(said, "  --text=TEXT ");
	assert_in(said, "  --maybe[=TEXT] ");
	assert_in(said, "  --number=N ");
	assert_null(strstr(said, "--old"));
	assert_int_equal(parse(&bare, "bare --help", STDOUT_FILENO), 0);
	assert_string_equal(said, "usage: hvd-agent bare\n\nNothing.\n");
}

RUN_TESTS()
