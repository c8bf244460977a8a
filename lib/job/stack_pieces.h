/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stack_pieces.h - what tasks of a step print of stacks, in lines that srun does not cut: "hvd-stacks TASK PIECE".
 *
 * srun passes output on in messages of 1024 bytes, and mixes those of different tasks. What a task has to say is one
 * line that may be much longer.
 */
#ifndef HVD_STACK_PIECES_H
#define HVD_STACK_PIECES_H

#include <jansson.h>
#include <stddef.h>
#include <stdio.h>

#define HVD_STACK_PIECES_TASKS 65536

/* Write what a task has to say. -1: it cannot be written. */
int hvd_stack_pieces_write(FILE *out, unsigned task, const json_t *answer);

/* Put the pieces in `text` together. Returns an array of the answers of those tasks whose answer is complete; lines of
 * others are left out. Any bytes are fine. */
json_t *hvd_stack_pieces_read(const char *text, size_t len);

#endif
