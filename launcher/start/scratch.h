/* SPDX-License-Identifier: Apache-2.0 */
/*
 * scratch.h - temporary files that are removed when the launch ends, however it ends.
 *
 * The files are in a folder of their own (mode 0700) in TMPDIR or /tmp. The
 * remover, a small process in a session of its own, removes the folder when a
 * pipe from hvdrun closes, which also happens when hvdrun is killed. The folder
 * stays only if hvdrun and the remover are both killed with SIGKILL.
 */
#ifndef HVD_SCRATCH_H
#define HVD_SCRATCH_H

#include "lib/base/err.h"

struct hvd_scratch;

/* Make the folder and start the remover. NULL with err set. */
struct hvd_scratch *hvd_scratch_create(char *const *envp, struct hvd_err *err);
/* A new file of that name (mode 0600) with this text. Returns its path, which the scratch owns; NULL with err set. */
const char *hvd_scratch_file(struct hvd_scratch *scratch, const char *name, const char *text, struct hvd_err *err);
/* Remove everything now. NULL is fine. */
void hvd_scratch_destroy(struct hvd_scratch *scratch);

#endif
