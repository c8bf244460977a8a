/* SPDX-License-Identifier: Apache-2.0 */
#include "subcommand.h"

#include "lib/base/err.h"
#include "lib/base/values.h"

#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define MAX_OPTIONS  32
#define FIRST_OPTION 256 /* what getopt_long() returns for the first row */
#define HELP         'h'
#define WIDTH        28 /* of the column of options */

/* ---- usage ---- */

static void print_rows(FILE *to, const struct hvd_option_row *row)
{
	for (; row && row->name; row++) {
		bool optional = row->value && row->value[0] == '[';
		char text[128];

		if (!row->help)
			continue;
		snprintf(text, sizeof(text), "--%s%s%s", row->name, row->value && !optional ? "=" : "",
			 row->value ? row->value : "");
		fprintf(to, "  %-*s %s\n", WIDTH, text, row->help);
	}
}

static void print_usage(FILE *to, const struct hvd_subcommand *subcommand)
{
	fprintf(to, "usage: hvd-agent %s%s%s%s%s\n\n%s\n", subcommand->name, subcommand->options ? " [OPTION]..." : "",
		subcommand->command ? " --" : "", *subcommand->operands ? " " : "", subcommand->operands,
		subcommand->about);
	if (subcommand->options || subcommand->common)
		fputc('\n', to);
	print_rows(to, subcommand->options);
	print_rows(to, subcommand->common);
}

int hvd_subcommand_misused(const struct hvd_subcommand *subcommand, const struct hvd_log *log, const char *why, ...)
{
	char text[512];
	va_list ap;

	va_start(ap, why);
	vsnprintf(text, sizeof(text), why, ap);
	va_end(ap);
	hvd_error(log, "%s", text);
	print_usage(stderr, subcommand);
	return 2;
}

/* ---- parsing ---- */

struct table {
	const struct hvd_option_row *rows[MAX_OPTIONS];
	struct option longs[MAX_OPTIONS + 2];
	int n;
};

static void add_rows(struct table *table, const struct hvd_option_row *row)
{
	for (; row && row->name && table->n < MAX_OPTIONS; row++) {
		int has = !row->value ? no_argument : row->value[0] == '[' ? optional_argument : required_argument;

		table->longs[table->n] = (struct option){row->name, has, NULL, FIRST_OPTION + table->n};
		table->rows[table->n++] = row;
	}
}

static int take(const struct hvd_option_row *row, const char *value, void *values, struct hvd_err *err)
{
	char *at = (char *)values + row->at;

	switch (row->kind) {
	case HVD_OPTION_FLAG:
		*(bool *)at = true;
		return 0;
	case HVD_OPTION_TEXT:
		*(const char **)at = value ? value : "";
		return 0;
	case HVD_OPTION_NUMBER:
		return hvd_value_int(row->name, value, 0, 0, (int *)at, err);
	}
	return 0;
}

int hvd_subcommand_parse(const struct hvd_subcommand *subcommand, int argc, char **argv, void *values, char ***operands,
			 const struct hvd_log *log)
{
	struct table table = {.n = 0};
	struct hvd_err err = {0};
	int c, n;

	add_rows(&table, subcommand->options);
	add_rows(&table, subcommand->common);
	table.longs[table.n] = (struct option){"help", no_argument, NULL, HELP};
	optind = 0; /* glibc begins anew */
	opterr = 0;
	while ((c = getopt_long(argc, argv, subcommand->command ? "+:" : ":", table.longs, NULL)) != -1) {
		if (c == HELP) {
			print_usage(stdout, subcommand);
			return 0;
		}
		if (c == ':')
			return hvd_subcommand_misused(subcommand, log, "%s needs a value", argv[optind - 1]);
		if (c < FIRST_OPTION)
			return hvd_subcommand_misused(subcommand, log, "unknown option %s", argv[optind - 1]);
		if (take(table.rows[c - FIRST_OPTION], optarg, values, &err) != 0)
			return hvd_subcommand_misused(subcommand, log, "%s", err.msg);
	}
	n = argc - optind;
	if (n > subcommand->most)
		return hvd_subcommand_misused(subcommand, log, "unexpected argument '%s'",
					      argv[optind + subcommand->most]);
	if (n < subcommand->least)
		return hvd_subcommand_misused(subcommand, log, "%.*s is missing",
					      (int)strcspn(subcommand->operands, " "), subcommand->operands);
	*operands = argv + optind;
	return -1;
}
