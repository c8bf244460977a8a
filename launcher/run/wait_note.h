/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wait_note.h - a line for the user when a call of libslurm blocks.
 *
 * libslurm has no deadlines and says nothing while it tries again: without munged on this host it takes 50 seconds for
 * a call that fails. A thread logs the line if the caller has not ended the wait within two seconds.
 */
#ifndef HVD_WAIT_NOTE_H
#define HVD_WAIT_NOTE_H

#include "lib/base/log.h"

struct hvd_wait_note;

/* The caller may call libslurm from now on. `log` is not owned and must outlive the note. NULL: there is no thread, and
 * so no line. */
struct hvd_wait_note *hvd_wait_note_begin(const struct hvd_log *log);
void hvd_wait_note_end(struct hvd_wait_note *note); /* NULL is fine */

#endif
