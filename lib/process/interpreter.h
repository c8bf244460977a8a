/* SPDX-License-Identifier: Apache-2.0 */
/* interpreter.h - command lines of shells, and of Python as python(1) reads them. Uses nothing but libc. */
#ifndef HVD_INTERPRETER_H
#define HVD_INTERPRETER_H

#include "lib/base/strv.h"

#include <stdbool.h>

/* Is this the name of a shell, with or without a path? */
bool hvd_is_shell(const char *program);

/* The command behind "env NAME=VALUE …", or `argv` itself. */
char *const *hvd_behind_env(char *const *argv);

/* The interpreter, if the command has it read its program from standard input: "bash -s", "python -", "sh". It points into
 * argv, whose end is NULL. NULL: it does not, as far as its words show. */
const char *hvd_interpreter_of_stdin(char *const *argv);

/* Is this the name of a Python, with or without a path, as python3.11? */
bool hvd_is_python(const char *program);

/* Append to `to` the options of the interpreter in `argv`, whose first word is the interpreter: all that stands before
 * the program, which is a file, -m MODULE or -c CODE. */
void hvd_python_options(char *const *argv, struct hvd_strv *to);

/* Is this a list of names of modules with commas between them, as torch,torch.distributed? */
bool hvd_python_modules(const char *list);

#endif
