/* SPDX-License-Identifier: Apache-2.0 */
#include "option_rows.h"

#include "values.h"

#include <getopt.h>
#include <string.h>

#define MAX_OPTIONS  32
#define FIRST_OPTION 256 /* what getopt_long() returns for the first row without a letter */
#define HELP         'h'
#define WIDTH        28 /* of the column of options */

int hvd_option_flag(void *at, const char *from, const char *text, struct hvd_err *err)
{
	(void)from;
	(void)text;
	(void)err;
	*(bool *)at = true;
	return 0;
}

int hvd_option_text(void *at, const char *from, const char *text, struct hvd_err *err)
{
	(void)from;
	(void)err;
	*(const char **)at = text ? text : "";
	return 0;
}

int hvd_option_number(void *at, const char *from, const char *text, struct hvd_err *err)
{
	return hvd_value_int(from, text, 0, 0, at, err);
}

static char letter_of(const struct hvd_option_row *row)
{
	return row->name[1] == ',' ? row->name[0] : '\0';
}

static const char *name_of(const struct hvd_option_row *row)
{
	return letter_of(row) ? row->name + 2 : row->name;
}

void hvd_option_rows_print(FILE *to, const struct hvd_option_row *row)
{
	for (; row && row->name; row++) {
		bool optional = row->value && row->value[0] == '[';
		char text[128], letter[] = "-x, ";

		if (!row->help)
			continue;
		letter[1] = letter_of(row);
		snprintf(text, sizeof(text), "%s--%s%s%s", letter[1] ? letter : "", name_of(row),
			 row->value && !optional ? "=" : "", row->value ? row->value : "");
		fprintf(to, "  %-*s %s\n", WIDTH, text, row->help);
	}
}

struct table {
	const struct hvd_option_row *rows[MAX_OPTIONS];
	struct option longs[MAX_OPTIONS + 2];
	char letters[MAX_OPTIONS + 4];
	int n;
};

/* No letter has a value. */
static void add_rows(struct table *table, const struct hvd_option_row *row)
{
	for (; row && row->name && table->n < MAX_OPTIONS; row++) {
		int has = !row->value ? no_argument : row->value[0] == '[' ? optional_argument : required_argument;
		char letter[] = {letter_of(row), '\0'};

		strcat(table->letters, letter);
		table->longs[table->n] =
			(struct option){name_of(row), has, NULL, letter[0] ? letter[0] : FIRST_OPTION + table->n};
		table->rows[table->n++] = row;
	}
}

int hvd_option_rows_parse(const struct hvd_option_row *rows, const struct hvd_option_row *more, bool command, int argc,
			  char **argv, void *values, char ***operands, struct hvd_err *err)
{
	struct table table = {.letters = ":h"};
	char from[64];
	int c;

	if (command)
		strcpy(table.letters, "+:h");
	add_rows(&table, rows);
	add_rows(&table, more);
	table.longs[table.n] = (struct option){"help", no_argument, NULL, HELP};
	optind = 0; /* glibc begins anew */
	opterr = 0;
	while ((c = getopt_long(argc, argv, table.letters, table.longs, NULL)) != -1) {
		int i = 0;

		if (c == HELP)
			return 1;
		if (c == ':')
			return hvd_err_set(err, HVD_E_USAGE, "%s needs a value", argv[optind - 1]);
		if (c == '?')
			return hvd_err_set(err, HVD_E_USAGE, "unknown option %s", argv[optind - 1]);
		while (table.longs[i].val != c)
			i++;
		snprintf(from, sizeof(from), "option --%s", table.longs[i].name);
		if (table.rows[i]->read((char *)values + table.rows[i]->at, from, optarg, err) != 0)
			return -1;
	}
	*operands = argv + optind;
	return 0;
}
