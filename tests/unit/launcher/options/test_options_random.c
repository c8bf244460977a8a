/* SPDX-License-Identifier: Apache-2.0 */
/* Command lines made at random, against what was written and against getopt_long(3). */
#include "options_lines.h"

#include <ctype.h>
#include <getopt.h>

/* A small generator, so that a failure can be had again. */
static unsigned next_random(unsigned *seed, unsigned below)
{
	*seed = *seed * 1664525U + 1013904223U;
	return (*seed >> 8) % below;
}

static const char *some_value(unsigned *seed, const struct hvd_opt *o)
{
	static const char *const texts[] = {"2", "a,b", "x=y", "-n4", "--", "", "h[1-3]", "python", "--mpi", "4:2"};

	if (o->apart)
		return "pmix";
	if (strcmp(o->name, "exclude") == 0)
		return "a,b"; /* "4:2" would be GPUs of a host, as deepspeed has them */
	if (o->type == HVD_OPT_STRING || o->type == HVD_OPT_PASS || o->type == HVD_OPT_FLAG)
		return texts[next_random(seed, sizeof(texts) / sizeof(texts[0]))];
	return "2";
}

static void add_option(unsigned *seed, const struct hvd_opt *o, struct hvd_strv *argv)
{
	const char *value = some_value(seed, o);

	switch (next_random(seed, o->letter ? 4 : 2)) {
	case 0:
		if (o->arity == HVD_ARG_NONE)
			hvd_strv_addf(argv, "--%s", o->name);
		else
			hvd_strv_addf(argv, "--%s=%s", o->name, value);
		return;
	case 1:
		hvd_strv_addf(argv, "--%s", o->name);
		break;
	case 2:
		/* -nVALUE; without a value the letter alone. "-np" and the like are words. */
		hvd_strv_addf(argv, "-%s%c%s", next_random(seed, 2) ? "lu" : "", o->letter,
			      o->arity == HVD_ARG_NONE         ? ""
			      : isdigit((unsigned char)*value) ? value
							       : "2");
		return;
	default:
		hvd_strv_addf(argv, "-%s%c", next_random(seed, 2) ? "O" : "", o->letter);
		break;
	}
	if (o->arity == HVD_ARG_REQUIRED)
		hvd_strv_add(argv, value);
}

/* For command lines of srun alone, what is handed on and the command are what was written, word by word. */
TEST(test_srun_lines_come_out_as_they_went_in)
{
	const struct hvd_opttable srun = hvd_options_srun;
	unsigned seed = 20;

	for (int round = 0; round < 20000; round++) {
		struct hvd_strv argv = {0}, again = {0};
		struct hvd_options o;
		struct hvd_err err = {0};

		hvd_strv_add(&argv, "hvdrun");
		hvd_strv_add(&again, "hvdrun");
		for (unsigned n = next_random(&seed, 8); n; n--) {
			const struct hvd_opt *row = &srun.rows[next_random(&seed, (unsigned)srun.n)];

			if (row->pass)
				add_option(&seed, row, &argv);
		}
		if (next_random(&seed, 2))
			hvd_strv_add(&argv, "--");
		hvd_strv_add(&argv, "prog");
		hvd_strv_add(&argv, "-n");
		if (hvd_options_load(&o, (int)argv.n, argv.v, NULL, &err)) {
			char *line = hvd_shell_join(argv.v);

			fail_msg("%s: %s", line, err.msg);
		}
		hvd_strv_add_all(&again, o.srun_args.v);
		if (o.dashdash)
			hvd_strv_add(&again, "--");
		hvd_strv_add_all(&again, o.command.v);
		assert_int_equal(again.n, argv.n);
		for (size_t i = 0; i < argv.n; i++)
			assert_string_equal(again.v[i], argv.v[i]);
		assert_int_equal(o.unknown.n, 0);
		hvd_options_free(&o);
		hvd_strv_free(&again);
		hvd_strv_free(&argv);
	}
}

/* srun's options as getopt_long(3) would have them; those of one release, since abbreviations depend on it. */
static void as_getopt(struct option *longs, char *letters)
{
	const struct hvd_opttable srun = hvd_options_srun;
	static const char *const colons[] = {"", ":", "::"};
	size_t n = 0;

	letters += sprintf(letters, "+");
	for (size_t i = 0; i < srun.n; i++) {
		const struct hvd_opt *o = &srun.rows[i];

		if (o->since || o->plugin)
			continue;
		longs[n++] = (struct option){.name = o->name, .has_arg = (int)o->arity, .val = 1000 + (int)i};
		if (o->letter)
			letters += sprintf(letters, "%c%s", o->letter, colons[o->arity]);
	}
	longs[n] = (struct option){0};
}

/* Names are cut anywhere, values are there or not: what getopt accepts must be read as getopt reads it. */
TEST(test_reads_like_getopt)
{
	const struct hvd_opttable srun = hvd_options_srun;
	struct option longs[300];
	char letters[300];
	unsigned seed = 7;
	int accepted = 0;

	as_getopt(longs, letters);
	opterr = 0;
	for (int round = 0; round < 20000; round++) {
		struct hvd_strv argv = {0};
		struct hvd_options o;
		struct hvd_err err = {0};
		bool good = true, action = false;
		char *line;
		int c;

		hvd_strv_add(&argv, "hvdrun");
		for (unsigned n = 1 + next_random(&seed, 4); n; n--) {
			const struct hvd_opt *row = &srun.rows[next_random(&seed, (unsigned)srun.n)];
			size_t len = strlen(row->name);

			if (row->since || row->plugin || row->apart || !row->pass)
				continue;
			len -= next_random(&seed, (unsigned)len);
			hvd_strv_addf(&argv, "--%.*s%s", (int)len, row->name, next_random(&seed, 2) ? "=2" : "");
			if (next_random(&seed, 2))
				hvd_strv_add(&argv, "2");
		}
		hvd_strv_add(&argv, "prog");
		line = hvd_shell_join(argv.v);
		/* getopt may not change the order of words, and does not with a "+". */
		optind = 0;
		while ((c = getopt_long((int)argv.n, argv.v, letters, longs, NULL)) != -1) {
			good = good && c != '?';
			action = action || (c >= 1000 && !srun.rows[c - 1000].pass);
		}
		if (good && !action && optind < (int)argv.n) {
			/* Where an option swallowed the next one, its value is none that it can have. */
			if (hvd_options_load(&o, (int)argv.n, argv.v, NULL, &err)) {
				if (!strstr(err.msg, "\" is not a") && !strstr(err.msg, "\" is neither"))
					fail_msg("%s: %s", line, err.msg);
			} else {
				accepted++;
				if (o.command.n != argv.n - (size_t)optind)
					fail_msg("%s: the command has %zu words", line, o.command.n);
				assert_int_equal(o.srun_args.n, optind - 1);
			}
			hvd_options_free(&o);
		}
		free(line);
		hvd_strv_free(&argv);
	}
	assert_true(accepted > 2000);
}

RUN_TESTS()
