/* SPDX-License-Identifier: Apache-2.0 */
/*
 * scratch.h - files that must be gone when the launch is, however it ends.
 *
 * They are in a folder of their own (mode 0700) in TMPDIR or /tmp. A small
 * process in a session of its own waits for this one's end, a killed one's
 * included, and then removes the folder: it sees a pipe close. Only who kills
 * both at once, with SIGKILL, leaves the folder behind.
 */
#ifndef HVD_SCRATCH_H
#define HVD_SCRATCH_H

#include "lib/base/err.h"

struct hvd_scratch;

/* NULL with err set. */
struct hvd_scratch *hvd_scratch_create(char *const *envp, struct hvd_err *err);
/* A new file of that name (mode 0600) with this text. Returns its path, which the scratch owns; NULL with err set. */
const char *hvd_scratch_file(struct hvd_scratch *scratch, const char *name, const char *text, struct hvd_err *err);
/* Remove everything now. NULL is fine. */
void hvd_scratch_destroy(struct hvd_scratch *scratch);

/* Write `text` to a file of the user's, mode 0600; what it held is lost. */
int hvd_write_private(const char *path, const char *text, int extra_flags, struct hvd_err *err);

#endif
