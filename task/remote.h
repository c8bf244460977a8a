/* SPDX-License-Identifier: Apache-2.0 */
/*
 * remote.h - a shim that the launcher reaches through its stdin only (hvd-task --stdin).
 */
#ifndef HVD_REMOTE_H
#define HVD_REMOTE_H

#include "boot.h"
#include "log.h"

/* Take the launch's preamble from stdin: environment (this host's own stays where the launch names no other value),
 * directory and boot text; boot->id then names a descriptor with the key. What follows on stdin is left there.
 * `host` is for messages. Returns 0, or the exit status to end with, after saying why. */
int hvd_remote_enter(struct hvd_boot *boot, const char *host, const struct hvd_log *log);

#endif
