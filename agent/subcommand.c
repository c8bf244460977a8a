/* SPDX-License-Identifier: Apache-2.0 */
#include "subcommand.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static void print_usage(FILE *to, const struct hvd_subcommand *subcommand)
{
	fprintf(to, "usage: hvd-agent %s%s%s%s%s\n\n%s\n", subcommand->name, subcommand->options ? " [OPTION]..." : "",
		subcommand->command ? " --" : "", *subcommand->operands ? " " : "", subcommand->operands,
		subcommand->about);
	if (subcommand->options || subcommand->common)
		fputc('\n', to);
	hvd_option_rows_print(to, subcommand->options);
	hvd_option_rows_print(to, subcommand->common);
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

int hvd_subcommand_parse(const struct hvd_subcommand *subcommand, int argc, char **argv, void *values, char ***operands,
			 const struct hvd_log *log)
{
	struct hvd_err err = {0};
	int n, rc = hvd_option_rows_parse(subcommand->options, subcommand->common, subcommand->command, argc, argv,
					  values, operands, &err);

	if (rc > 0)
		print_usage(stdout, subcommand);
	if (rc > 0)
		return 0;
	if (rc < 0)
		return hvd_subcommand_misused(subcommand, log, "%s", err.msg);
	n = (int)(argv + argc - *operands);
	if (n > subcommand->most)
		return hvd_subcommand_misused(subcommand, log, "unexpected argument '%s'",
					      (*operands)[subcommand->most]);
	if (n < subcommand->least)
		return hvd_subcommand_misused(subcommand, log, "%.*s is missing",
					      (int)strcspn(subcommand->operands, " "), subcommand->operands);
	return -1;
}
