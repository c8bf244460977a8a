/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stack_groups.h - the stacks of a job's ranks, in groups of ranks that are at the same place.
 *
 * Pure: makes text and JSON of the hosts' answers. `answers` is
 *   {"hosts":[{"host":NAME, "ranks":[RANK,…], "role":NAME, "world":N},…], "silent":[NAME,…], "store":TEXT, "nccl":NCCL}
 * where the last two of a host say of which role its ranks are, in a launch with several, and of these but the first
 *   {"worlds":[{"world":N, "store":TEXT},…]}
 * has what waits in their stores,
 * a RANK is as in agent/stacks.h, the hosts that did not answer in time in "silent", and NCCL as in agent/nccl_comms.h,
 * or without it. The contents come from other
 * hosts: anything in another form is left out, and all texts are escaped.
 *
 * A group's place is the line of the user's program in which the main thread is, and the function that it calls:
 * "all_reduce (train.py:41)". Files of installed packages and of Python's own library are not the user's. Small groups
 * come first, so a rank that is elsewhere than all others is at the top.
 *
 * One look at a job that works may find any rank elsewhere. So several samples, some seconds apart, name the outliers: in
 * each sample most ranks of a step are in one group, the dominant one, and a rank that is in another one in more than
 * half of the samples is an outlier. No rank is one if in too many samples no group has more than half of the ranks, or
 * if half of the ranks would be.
 */
#ifndef HVD_STACK_GROUPS_H
#define HVD_STACK_GROUPS_H

#include <jansson.h>

/* A text of some lines, the last one with its newline. `title` says whose ranks they are, as in "job 17". The caller
 * frees it. */
char *hvd_stack_groups_text(const json_t *answers, const char *title);

/* {"groups":[{"ranks":[R,…], "hosts":[NAME,…], "where":TEXT, "child":B, "stopped":B, "state":TEXT, "frames":[…]},…],
 *  "silent":[NAME,…], "store":store_waits.c, "nccl":NCCL or null, "hosts":[…]}; a group has "role", if its hosts do. A
 * new reference. */
json_t *hvd_stack_groups_json(const json_t *answers);

/* The same of several samples, an array of `answers` in the order in which they were taken. The text has the outliers,
 * and the dominant group; without outliers it has the groups of the last sample. */
char *hvd_stack_samples_text(const json_t *samples, const char *title);

/* That of the last sample, and
 *  {"samples":N, "outliers":[GROUP,…]}, where a GROUP is an element of "groups" with "differs":[N,…], in how many samples
 * each of its ranks differs. */
json_t *hvd_stack_samples_json(const json_t *samples);

#endif
