/* SPDX-License-Identifier: Apache-2.0 */
/*
 * keep_fds.h - closes the descriptors that a forked process inherits, when it outlives its parent and must hold nothing
 * of the parent's open.
 *
 * Uses nothing but libc.
 */
#ifndef HVD_KEEP_FDS_H
#define HVD_KEEP_FDS_H

#include <stddef.h>

/* Close all descriptors but the n in `keep`, `a` and `b` (0 = none). Descriptors 0, 1 and 2 become /dev/null. */
void hvd_keep_fds(const int *keep, size_t n, int a, int b);

#endif
