/* SPDX-License-Identifier: Apache-2.0 */
/*
 * readfile.h - a small file, whole.
 */
#ifndef HVD_READFILE_H
#define HVD_READFILE_H

#include "err.h"

#include <stddef.h>

/* The contents of a file of at most `max` bytes, with a zero byte behind them; *len is without it. NULL with err set
 * (HVD_E_LIMIT when it is larger), which calls it `what` ("the hostfile"). Caller frees. */
char *hvd_read_file(const char *path, size_t max, const char *what, size_t *len, struct hvd_err *err);

#endif
