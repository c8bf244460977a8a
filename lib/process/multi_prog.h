/* SPDX-License-Identifier: Apache-2.0 */
/*
 * multi_prog.h - the file of srun --multi-prog: which command each rank runs.
 *
 * A line is RANKS PROGRAM [ARGUMENT]…, with blanks between them. RANKS are numbers and ranges (0-3,7), or * for all ranks
 * that no line names, which must be the last line. A line that begins with # is a comment, and a backslash at the end of a
 * line continues it. In the command %t is the rank, and %o its place among the ranks of the line, with * the rank
 * again. Single quotes keep what is between them, and a backslash the next character.
 *
 * Files that srun accepts mean the same here, but for what srun drops without a word, which is an error: % before another
 * character, and all words of a command behind the 127th. Blanks that begin a continued line separate words; srun makes an
 * empty word of them.
 *
 * Uses nothing but libc. Untrusted input is fine.
 */
#ifndef HVD_MULTI_PROG_H
#define HVD_MULTI_PROG_H

#include "lib/base/err.h"
#include "lib/base/strv.h"

#include <stdbool.h>
#include <stddef.h>

#define HVD_MULTI_PROG_MAX (16u << 20) /* bytes of a file */

struct hvd_multi_prog;

/* Read a text, which errors call `name`. The words `more`, which are NULL-terminated or NULL, become the last ones of each
 * command. NULL with err set: HVD_E_USAGE, which names the line. */
struct hvd_multi_prog *hvd_multi_prog_parse(const char *text, size_t len, const char *name, char *const *more,
					    struct hvd_err *err);
/* The same for a file. */
struct hvd_multi_prog *hvd_multi_prog_read(const char *path, char *const *more, struct hvd_err *err);
void hvd_multi_prog_destroy(struct hvd_multi_prog *mp); /* NULL is fine */

const char *hvd_multi_prog_name(const struct hvd_multi_prog *mp);
/* One more than the highest rank that a line names; 0: none does. */
int hvd_multi_prog_ranks(const struct hvd_multi_prog *mp);
/* Is there a line for all other ranks (*)? */
bool hvd_multi_prog_open(const struct hvd_multi_prog *mp);

/* Fail unless each of so many ranks has a command, and no line names another rank. */
int hvd_multi_prog_check(const struct hvd_multi_prog *mp, long ranks, struct hvd_err *err);

/* Append the command of a rank. -1: it has none. */
int hvd_multi_prog_command(const struct hvd_multi_prog *mp, int rank, struct hvd_strv *argv);
/* Append the command of the line `i`, from 0, as its first rank runs it. Returns the number of the line in the file; 0:
 * there are no more lines. */
int hvd_multi_prog_line(const struct hvd_multi_prog *mp, size_t i, struct hvd_strv *argv);

#endif
