/* SPDX-License-Identifier: Apache-2.0 */
/* launch_notes.h - what may surprise the user of a launch that is about to begin. */
#ifndef HVD_LAUNCH_NOTES_H
#define HVD_LAUNCH_NOTES_H

#include "launcher/start/backend.h"

/* Log that ranks run on this host although there is Slurm, and that ranks get no program on their standard input. */
void hvd_launch_notes(const struct hvd_launch *launch, const struct hvd_backend *backend);

#endif
