/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stdin_bootstrap.h - the data that the launcher sends hvd-agent on stdin (its option --stdin): environment, directory,
 * key, the driver's address, and perhaps arguments.
 */
#ifndef HVD_STDIN_BOOTSTRAP_H
#define HVD_STDIN_BOOTSTRAP_H

#include "lib/base/err.h"
#include "lib/base/strv.h"
#include "lib/protocol/boot.h"

#include <stdint.h>

/* Read the preamble (lib/protocol/preamble.h) from stdin, and apply it: set the environment (a variable that the
 * preamble lacks keeps this host's value), change to the directory, fill in *boot and *args, which the caller frees;
 * boot->id then names a descriptor with the key, and *args has the preamble's arguments. Leaves later bytes on stdin.
 * Returns 0, or the exit status to end with, with err set. HVD_PREAMBLE_NO_DIRECTORY means that all but the directory
 * was applied. */
int hvd_stdin_bootstrap_enter(struct hvd_boot *boot, struct hvd_strv *args, struct hvd_err *err);

/* Set the nice value, and the soft limit of locked memory in bytes or "unlimited", to those of the launcher, as far as
 * the hard limit and the user's rights allow. The program that starts processes on other hosts may not pass them on.
 * NULL = leave. */
void hvd_stdin_bootstrap_limits(const char *nice_value, const char *memlock);

/* The rest of stdin is for the rank with the number `whose`, or for none ("none"). Every other rank gets /dev/null in
 * its place; a child process, which ends with this one, reads the input for others. */
int hvd_stdin_bootstrap_input(const char *whose, uint32_t rank, struct hvd_err *err);
/* The main part of that child: read stdin to its end. Returns the exit status. */
int hvd_stdin_bootstrap_drain(void);

#endif
