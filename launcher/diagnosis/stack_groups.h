/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stack_groups.h - the stacks of a job's ranks, in groups of ranks that are at the same place.
 *
 * Pure: makes text and JSON of what the hosts have said. `said` is
 *   {"hosts":[{"host":NAME, "ranks":[RANK,…]},…], "silent":[NAME,…], "store":TEXT}
 * with a RANK as agent/stacks.h has it, and with the hosts that did not answer in time in "silent". What it holds comes
 * from other hosts: what has another form is left out, and all texts are escaped.
 *
 * A group's place is the line of the user's program that the main thread is in, and what that line calls: "all_reduce
 * (train.py:41)". Files of installed packages and of Python's own library are not the user's. Small groups come first:
 * the rank that does something else than all others is at the top.
 */
#ifndef HVD_STACK_GROUPS_H
#define HVD_STACK_GROUPS_H

#include <jansson.h>

/* A text of some lines, the last one with its newline. `title` says whose ranks they are, as in "job 17". The caller
 * frees it. */
char *hvd_stack_groups_text(const json_t *said, const char *title);

/* One line for each group, without stacks, each indented by two blanks: for a message. The caller frees it. */
char *hvd_stack_groups_short(const json_t *said);

/* {"groups":[{"ranks":[R,…], "hosts":[NAME,…], "where":TEXT, "child":B, "stopped":B, "state":TEXT, "frames":[…]},…],
 *  "silent":[NAME,…], "store":store_waits.h, "hosts":[…]}; a new reference. */
json_t *hvd_stack_groups_json(const json_t *said);

#endif
