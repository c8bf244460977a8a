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

/* ---- the options of ranks ---- */

#define AT(field) offsetof(struct hvd_rank_args, field)

const struct hvd_option_row hvd_rank_args_rows[] = {
	{"stdin", NULL, "the launcher sends the driver's address and the key on stdin", hvd_option_flag,
	 AT(from_stdin)},
	{"behind", NULL, "a monitor has started this process", hvd_option_flag, AT(behind)},
	{"label", "srun|horovod|none", "pass on whole lines, labelled as this program does", hvd_option_text,
	 AT(label)},
	{"timestamps", NULL, "start each line with the time", hvd_option_flag, AT(timestamps)},
	{"output-dir", "DIR", "also write DIR/rank.N/stdout and DIR/rank.N/stderr", hvd_option_text, AT(output_dir)},
	{"size", "N", "the job has N ranks; pads the names of folders to the same length", hvd_option_number, AT(size)},
	{NULL, NULL, NULL, NULL, 0},
};

struct hvd_output_style hvd_rank_args_style(const struct hvd_rank_args *args)
{
	bool whole = args->label && strcmp(args->label, "none") == 0;

	return (struct hvd_output_style){
		.label = !args->label || whole                 ? HVD_LABEL_NONE
			 : strcmp(args->label, "horovod") == 0 ? HVD_LABEL_HOROVOD
							       : HVD_LABEL_SRUN,
		.whole = whole,
		.timestamps = args->timestamps,
		.dir = args->output_dir,
		.size = args->size,
	};
}
