/* SPDX-License-Identifier: Apache-2.0 */
/*
 * close_fds.h - closes a range of descriptors of this process, open or not.
 *
 * Makes only async-signal-safe calls, and uses nothing but libc.
 */
#ifndef HVD_CLOSE_FDS_H
#define HVD_CLOSE_FDS_H

#include <stdbool.h>

/* Close the descriptors from `first` to `last`, none if `last` is less. at_exec: they stay open until the next exec. */
void hvd_close_fds(unsigned first, unsigned last, bool at_exec);

#endif
