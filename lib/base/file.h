/* SPDX-License-Identifier: Apache-2.0 */
/*
 * file.h - reads small files, and writes files that a user has named.
 *
 * Others may be able to write in the folder of a file that is written, or have made it before the user, and put something
 * there under the file's name: a symbolic link to another file of the user, a pipe at which an open waits, a file of their
 * own. So the file is a new one, or a regular file of this user that is there already; no link is followed, and nothing is
 * waited for. Entries of /dev, which only the system can make, and descriptors (/dev/fd/N) are written as they are.
 */
#ifndef HVD_FILE_H
#define HVD_FILE_H

#include "err.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* Returns the contents of a file of at most `max` bytes, with a zero byte behind them that *len does not count. The
 * caller frees them. After an error (HVD_E_LIMIT for a larger file) returns NULL with err set and *len 0. `what` is the
 * file's name in the error's message, such as "the hostfile". */
char *hvd_read_file(const char *path, size_t max, const char *what, size_t *len, struct hvd_err *err);

/* Read at most `most` bytes from the beginning of a regular file, and add a zero byte. `text` is empty if it cannot be
 * read; then returns false. */
bool hvd_read_start(const char *path, char *text, size_t most);

/* Open the file for writing. `dir` is the folder of a path that is relative, as in openat(2). Of `flags`, O_TRUNC empties
 * a file that is there, O_APPEND writes at its end, and O_EXCL refuses it. A pipe of this user that somebody reads counts
 * as a regular file if `pipe`. The result is non-blocking and close-on-exec; -1 with err set, whose message is the
 * reason only. */
int hvd_open_written(int dir, const char *path, int flags, bool pipe, mode_t mode, struct hvd_err *err);

/* Open the folder `name` of `dir`, which is made if it is not there; it is no symbolic link. -1 with errno. */
int hvd_open_made_dir(int dir, const char *name);

/* Write the text to the file, in place of what it held. -1 with err set: "cannot write WHAT PATH: …". */
int hvd_write_file(const char *path, const char *what, const char *text, size_t len, int flags, mode_t mode,
		   struct hvd_err *err);

/* Write the text to a new file in the same folder, for this user only, and rename it to `path`: who reads sees what was
 * there before, or all of the text. A link of this name is replaced, and not followed. -1 with err set: "cannot write WHAT
 * PATH: …"; what was there before is still there. */
int hvd_replace_file(const char *path, const char *what, const char *text, size_t len, struct hvd_err *err);
/* The same with this mode, whatever the umask. */
int hvd_replace_file_mode(const char *path, const char *what, const char *text, size_t len, mode_t mode,
			  struct hvd_err *err);

#endif
