/* SPDX-License-Identifier: Apache-2.0 */
/*
 * option_rows.h - the options of a small program as a table: the parser and the text of --help come from its rows.
 * hvdrun, whose command line it shares with srun, has launcher/options/optable.h.
 */
#ifndef HVD_OPTION_ROWS_H
#define HVD_OPTION_ROWS_H

#include "err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* Reads a value into a field. `from` names the option in messages; `text` is NULL for an option without a value. -1 with
 * err set. */
typedef int hvd_option_read_fn(void *at, const char *from, const char *text, struct hvd_err *err);

hvd_option_read_fn hvd_option_flag;   /* into a bool */
hvd_option_read_fn hvd_option_text;   /* into a const char *; "" = an optional value that was left out */
hvd_option_read_fn hvd_option_number; /* of 0 or more, into an int */

struct hvd_option_row {
	const char *name;  /* without the dashes; "v,verbose" has a letter, too. NULL ends a table */
	const char *value; /* what stands for the value in the usage; in brackets: it may be left out. NULL: none */
	const char *help;  /* NULL: an old spelling, which the usage does not show */
	hvd_option_read_fn *read;
	size_t at; /* offset of the field in the struct of values, which is zeroed at first, or has defaults */
};

void hvd_option_rows_print(FILE *to, const struct hvd_option_row *rows); /* NULL is fine */

/* Read the options of both tables, of which `more` may be NULL, into the struct `values`, and point *operands to the
 * operands in argv, whose order may change. `command`: the first operand ends the options. Returns 0; 1 if there is
 * --help; -1 with err set. Not thread-safe, because getopt(3) is not. */
int hvd_option_rows_parse(const struct hvd_option_row *rows, const struct hvd_option_row *more, bool command, int argc,
			  char **argv, void *values, char ***operands, struct hvd_err *err);

#endif
