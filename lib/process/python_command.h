/* SPDX-License-Identifier: Apache-2.0 */
/* python_command.h - command lines of Python, as python(1) reads them. */
#ifndef HVD_PYTHON_COMMAND_H
#define HVD_PYTHON_COMMAND_H

#include "lib/base/strv.h"

#include <stdbool.h>

/* Is this the name of a Python, with or without a path, as python3.11? */
bool hvd_is_python(const char *program);

/* Append to `to` the options of the interpreter in `argv`, whose first word is the interpreter: all that stands before
 * the program, which is a file, -m MODULE or -c CODE. */
void hvd_python_options(char *const *argv, struct hvd_strv *to);

/* Is this a list of names of modules with commas between them, as torch,torch.distributed? */
bool hvd_python_modules(const char *list);

#endif
