/* SPDX-License-Identifier: Apache-2.0 */
/*
 * program.h - where a program is, and why it cannot be run. Uses nothing but libc.
 */
#ifndef HVD_PROGRAM_H
#define HVD_PROGRAM_H

#include "lib/base/err.h"
#include "lib/base/strv.h"

/* Add the paths at which a program may be, in the order of PATH in `envp` (NULL-terminated). A name with a slash is its
 * only path. */
void hvd_program_paths(struct hvd_strv *paths, const char *name, char *const *envp);

/* A look at the program, as far as it can be judged without running it. 0, or the errno that execve(2) would set. */
int hvd_program_look(const char *name, char *const *envp);

/* `err` says that the program cannot be run, and `error` is execve's errno: set the hint to what is wrong with the file
 * in this directory, and what to write. Only for errnos that are about the file; otherwise `err` stays as it is. */
void hvd_program_explain(const char *name, char *const *envp, int error, struct hvd_err *err);

/* As hvd_err_sys(): "cannot run NAME: …", with this hint. Returns -1. */
int hvd_program_error(const char *name, char *const *envp, int error, struct hvd_err *err);

/* Does a line of slurmstepd in a rank's standard error say that the rank's program could not be run ("slurmstepd-h1:
 * error: execve(): train.py: Permission denied"), and is the exit code `code` the errno of that? Then err is set as by
 * hvd_program_error(). */
bool hvd_program_refused(const char *text, int code, char *const *envp, struct hvd_err *err);

#endif
