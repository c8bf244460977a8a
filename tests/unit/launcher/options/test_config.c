/* SPDX-License-Identifier: Apache-2.0 */
/* Configuration files: what is an error, what is only warned of, and how much there may be. */
#include "launcher/options/options.h"

#include "lib/base/deadline.h"
#include "tests/unit/unit.h"

/* Far more than any file of 64 KiB needs, also on a busy machine. Without the limits some of these take minutes. */
#define SECONDS_MOST 10

/* What horovodrun's own tests have: it knows no hide_timestamp. */
static const char horovodruns[] = "controller: gloo\n"
				  "params:\n"
				  "  cache_capacity: 2048\n"
				  "logging:\n"
				  "  level: INFO\n"
				  "  hide_timestamp: true\n";

static int parse(struct hvd_options *o, enum hvd_opt_source from, const char *text, struct hvd_err *err)
{
	*err = (struct hvd_err){0};
	return hvd_config_parse(o, from, text, strlen(text), "file", err);
}

TEST(passes_over_what_horovodrun_does)
{
	static const char more[] = "novelty:\n  a: 1\n  b: [1, {c: 2}]\nanother: 3\nparams:\n  deep: {a: {b: 1}}\n"
				   "  cache_capacity: 7\n";
	struct hvd_options o;
	struct hvd_err err;

	hvd_options_init(&o);
	assert_int_equal(parse(&o, HVD_FROM_CONFIG, horovodruns, &err), 0);
	assert_int_equal(o.cache_capacity, 2048);
	assert_int_equal(o.warnings.n, 1);
	assert_string_equal(o.warnings.v[0], "file:6: there is no setting \"logging.hide_timestamp\"; ignoring "
					     "it, as horovodrun does");
	hvd_options_free(&o);

	/* Once for a map, whatever is in it. */
	hvd_options_init(&o);
	assert_int_equal(parse(&o, HVD_FROM_CONFIG, more, &err), 0);
	assert_int_equal(o.cache_capacity, 7);
	assert_int_equal(o.warnings.n, 3);
	hvd_options_free(&o);

	/* A value that makes no sense is one for horovodrun, too. */
	hvd_options_init(&o);
	assert_fails_with(parse(&o, HVD_FROM_CONFIG, "params:\n  cache_capacity: big\n", &err), err, HVD_E_USAGE, "");
	hvd_options_free(&o);
}

TEST(refuses_what_is_misspelt_in_a_file_of_hvdruns)
{
	static const char mixed[] = "start-timeout: 60\nlogging:\n  hide_timestamp: true\n";
	static const char unknown[] = "novelty: 1\n";
	struct hvd_options o;
	struct hvd_err err;

	hvd_options_init(&o);
	assert_int_equal(parse(&o, HVD_FROM_CONFIG, mixed, &err), -1);
	assert_string_equal(err.msg, "file:3: there is no setting \"logging.hide_timestamp\"");
	assert_int_equal(err.code, HVD_E_USAGE);
	assert_int_equal(parse(&o, HVD_FROM_CONFIG, unknown, &err), -1);
	/* Who is responsible for the site's file wants to know. */
	assert_int_equal(parse(&o, HVD_FROM_SITE, horovodruns, &err), -1);
	assert_int_equal(o.warnings.n, 0);

	o.as_horovodrun = true;
	assert_int_equal(parse(&o, HVD_FROM_CONFIG, mixed, &err), 0);
	assert_int_equal(parse(&o, HVD_FROM_CONFIG, unknown, &err), 0);
	assert_int_equal(o.warnings.n, 2);
	assert_int_equal(parse(&o, HVD_FROM_SITE, unknown, &err), -1);
	hvd_options_free(&o);
}

/* `unit` again and again, up to the size that a file may have. */
static char *full_of(const char *unit)
{
	size_t n = strlen(unit), len = 64 * 1024;
	char *text = malloc(len + 1);

	for (size_t i = 0; i < len; i++)
		text[i] = unit[i % n];
	text[len] = '\0';
	return text;
}

TEST(is_done_soon)
{
	static const char *const units[] = {"[",   "{",      "- ",       "? ",     "a: {",   "%TAG !a! b\n",
					    "&a ", "&a b\n", "- &a b\n", "- *a\n", "a: b\n", "- a\n",
					    "\n",  "#",      "'",        "|\n"};
	hvd_time began = hvd_now();
	struct hvd_options o;
	struct hvd_err err;

	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
		char *text = full_of(units[i]);

		hvd_options_init(&o);
		if (parse(&o, HVD_FROM_CONFIG, text, &err) != 0)
			assert_int_equal(err.code, HVD_E_USAGE);
		hvd_options_free(&o);
		free(text);
	}
	assert_true((double)(hvd_now() - began) / 1e9 < SECONDS_MOST);
}

TEST(refuses_what_is_too_much)
{
	char *brackets = full_of("["), *lines = full_of("- a\n"), *large = calloc(1, 300 * 1024);
	struct hvd_options o;
	struct hvd_err err = {0};

	hvd_options_init(&o);
	assert_int_equal(parse(&o, HVD_FROM_CONFIG, brackets, &err), -1);
	assert_string_equal(err.msg, "file:1: maps and lists cannot be nested any deeper");
	assert_fails(parse(&o, HVD_FROM_CONFIG, lines, &err), err, "more than 4096 keys and values");
	memset(large, '[', 300 * 1024);
	assert_int_equal(hvd_config_parse(&o, HVD_FROM_CONFIG, large, 300 * 1024, "file", &err), -1);
	assert_string_equal(err.msg, "the configuration file file is larger than 65536 bytes");
	hvd_options_free(&o);
	free(brackets);
	free(lines);
	free(large);
}

RUN_TESTS()
