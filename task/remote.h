/* SPDX-License-Identifier: Apache-2.0 */
/*
 * remote.h - a shim that the launcher reaches through its stdin (hvd-task --stdin).
 */
#ifndef HVD_REMOTE_H
#define HVD_REMOTE_H

#include "boot.h"
#include "err.h"
#include "log.h"

#include <stdint.h>

/* Take the launch's preamble from stdin: environment (this host's own stays where the launch names no other value),
 * directory and boot text; boot->id then names a descriptor with the key. What follows on stdin is left there.
 * `host` is for messages. Returns 0, or the exit status to end with, after saying why. */
int hvd_remote_enter(struct hvd_boot *boot, const char *host, const struct hvd_log *log);

/* What is left on stdin belongs to rank `whose` (a number), or to nobody ("none"): any other rank gets /dev/null
 * instead. A process that ends with this one reads away what still comes for others. */
int hvd_remote_input(const char *whose, uint32_t rank, struct hvd_err *err);
/* That process: read stdin to its end. Returns the exit status. */
int hvd_remote_drain(void);

#endif
