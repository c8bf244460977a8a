/* SPDX-License-Identifier: Apache-2.0 */
/*
 * keep_fds.h - the descriptors of a forked process that goes on for itself, and must hold nothing of its parent's open.
 *
 * Uses nothing but libc.
 */
#ifndef HVD_KEEP_FDS_H
#define HVD_KEEP_FDS_H

#include <stddef.h>

/* Close all but the n ones in `keep`, `a`, `b` (0 = none), and the first three, which become /dev/null. */
void hvd_keep_fds(const int *keep, size_t n, int a, int b);

#endif
