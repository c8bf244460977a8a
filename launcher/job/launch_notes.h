/* SPDX-License-Identifier: Apache-2.0 */
/* launch_notes.h - what the user is told of a launch that is about to begin. */
#ifndef HVD_LAUNCH_NOTES_H
#define HVD_LAUNCH_NOTES_H

#include "launcher/start/backend.h"
#include "lib/base/log.h"

/* Log what may surprise: that ranks run on this host although there is Slurm, that ranks get no program on their standard
 * input, and that all of Horovod's libraries which the user's Python finds lack the controller that the ranks are to
 * use. */
void hvd_launch_notes(const struct hvd_launch *launch, const struct hvd_backend *backend);

struct hvd_wait_note;

/* The caller may ask Slurm from now on. Slurm's commands say nothing while they try again: without munged on this host one
 * takes 50 seconds until it fails. So a thread logs a line if the caller has not ended the wait within two seconds. `log`
 * is not owned and must outlive the note. NULL: there is no thread, and so no line. */
struct hvd_wait_note *hvd_wait_note_begin(const struct hvd_log *log);
void hvd_wait_note_end(struct hvd_wait_note *note); /* NULL is fine */

#endif
