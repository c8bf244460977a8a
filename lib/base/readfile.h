/* SPDX-License-Identifier: Apache-2.0 */
/*
 * readfile.h - reads a small file into memory.
 */
#ifndef HVD_READFILE_H
#define HVD_READFILE_H

#include "err.h"

#include <stddef.h>

/* Returns the contents of a file of at most `max` bytes and a zero byte behind them, which *len does not count. The
 * caller frees them. NULL with err set (HVD_E_LIMIT for a larger file) and *len 0 after an error, in whose message the
 * file is called `what`, as in "the hostfile". */
char *hvd_read_file(const char *path, size_t max, const char *what, size_t *len, struct hvd_err *err);

#endif
