/* SPDX-License-Identifier: Apache-2.0 */
/* interpreter.h - command lines of shells and Python: where is their program? Uses nothing but libc. */
#ifndef HVD_INTERPRETER_H
#define HVD_INTERPRETER_H

#include <stdbool.h>

/* Is this the name of a shell, with or without a path? */
bool hvd_is_shell(const char *program);

/* The command behind "env NAME=VALUE …", or `argv` itself. */
char *const *hvd_behind_env(char *const *argv);

/* The interpreter, if the command has it read its program from standard input: "bash -s", "python -", "sh". It points into
 * argv, whose end is NULL. NULL: it does not, as far as its words show. */
const char *hvd_interpreter_of_stdin(char *const *argv);

#endif
