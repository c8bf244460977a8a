/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wait_note.h - a line for the user when one of Slurm's commands blocks.
 *
 * They say nothing while they try again: without munged on this host one takes 50 seconds until it fails. A thread logs
 * the line if the caller has not ended the wait within two seconds.
 */
#ifndef HVD_WAIT_NOTE_H
#define HVD_WAIT_NOTE_H

#include "lib/base/log.h"

struct hvd_wait_note;

/* The caller may ask Slurm from now on. `log` is not owned and must outlive the note. NULL: there is no thread, and
 * so no line. */
struct hvd_wait_note *hvd_wait_note_begin(const struct hvd_log *log);
void hvd_wait_note_end(struct hvd_wait_note *note); /* NULL is fine */

#endif
