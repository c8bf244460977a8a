/* SPDX-License-Identifier: Apache-2.0 */
/*
 * readfile.h - reads a small file into memory.
 */
#ifndef HVD_READFILE_H
#define HVD_READFILE_H

#include "err.h"

#include <stdbool.h>
#include <stddef.h>

/* Returns the contents of a file of at most `max` bytes, with a zero byte behind them that *len does not count. The
 * caller frees them. After an error (HVD_E_LIMIT for a larger file) returns NULL with err set and *len 0. `what` is the
 * file's name in the error's message, such as "the hostfile". */
char *hvd_read_file(const char *path, size_t max, const char *what, size_t *len, struct hvd_err *err);

/* Read at most `most` bytes from the beginning of a regular file, and add a zero byte. `text` is empty if it cannot be
 * read; then returns false. */
bool hvd_read_start(const char *path, char *text, size_t most);

#endif
