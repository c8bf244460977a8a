/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stack_pieces.h - a task's answer about stacks, in lines that srun does not cut: "hvd-stacks TASK PIECE".
 *
 * srun passes output on in messages of 1024 bytes, and mixes those of different tasks. A task's answer is one line that
 * may be much longer.
 */
#ifndef HVD_STACK_PIECES_H
#define HVD_STACK_PIECES_H

#include <jansson.h>
#include <stddef.h>
#include <stdio.h>

#define HVD_STACK_PIECES_TASKS 65536

/* Write a task's answer. -1: the write failed. */
int hvd_stack_pieces_write(FILE *out, unsigned task, const json_t *answer);

/* Join the pieces in `text`. Returns an array of the answers that are complete; all other lines are left out. Any bytes
 * are fine. */
json_t *hvd_stack_pieces_read(const char *text, size_t len);

#endif
