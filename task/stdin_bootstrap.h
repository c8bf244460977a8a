/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stdin_bootstrap.h - a shim that the launcher reaches through its stdin (hvd-task --stdin).
 */
#ifndef HVD_STDIN_BOOTSTRAP_H
#define HVD_STDIN_BOOTSTRAP_H

#include "lib/base/err.h"
#include "lib/protocol/boot.h"

#include <stdint.h>

/* Take the launch's preamble from stdin: environment (this host's own stays where the launch names no other value),
 * directory and boot text; boot->id then names a descriptor with the key. What follows on stdin is left there.
 * Returns 0, or the exit status to end with, with err set; after HVD_PREAMBLE_NO_DIRECTORY the rest is done. */
int hvd_stdin_bootstrap_enter(struct hvd_boot *boot, struct hvd_err *err);

/* What a launcher's own processes have, and what it starts elsewhere may lack: the nice value, and the soft limit of
 * locked memory in bytes or "unlimited", as far as the hard limit and this user's rights allow. NULL = leave. */
void hvd_stdin_bootstrap_limits(const char *nice_value, const char *memlock);

/* What is left on stdin belongs to rank `whose` (a number), or to nobody ("none"): any other rank gets /dev/null
 * instead. A process that ends with this one reads away what still comes for others. */
int hvd_stdin_bootstrap_input(const char *whose, uint32_t rank, struct hvd_err *err);
/* That process: read stdin to its end. Returns the exit status. */
int hvd_stdin_bootstrap_drain(void);

#endif
