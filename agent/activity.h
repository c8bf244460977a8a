/* SPDX-License-Identifier: Apache-2.0 */
/*
 * activity.h - do the ranks of this host make progress? The driver asks, for --hang-timeout.
 *
 *   {"t":"watch", "every":SEC}                               look so often; 0: no longer
 *   {"t":"activity", "idle":SEC, "input":B, "ranks":N}       the answer, at once, and again when it has changed
 *
 * idle: how long the ranks have made no progress; 0: they make progress. input: one of them waits for what its user
 * types. ranks: how many there are. While the driver has not asked, nothing is looked at.
 *
 * A rank makes progress when the processes that it has started and itself
 *   - use more than 2 % of a processor (threads of idle ranks that look at something again and again use less), or
 *     0.5 % if they want more at that moment, or
 *   - write anything, but for the 8 bytes or fewer by which threads wake each other, or what they print arrives
 *     here, or
 *   - read more than 10 kB/s, or have waited for pages from a file.
 * So a rank that waits for others by asking again and again without a pause, as NCCL does, seems to make progress.
 */
#ifndef HVD_ACTIVITY_H
#define HVD_ACTIVITY_H

#include <event2/event.h>
#include <jansson.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct hvd_activity;

/* `send` takes its message over. */
struct hvd_activity *hvd_activity_create(struct event_base *base, void (*send)(json_t *msg, void *arg), void *arg);
void hvd_activity_destroy(struct hvd_activity *activity); /* NULL is fine */

/* The rank, which may be started or ended at any time, has this process, in place of one that it had before. */
void hvd_activity_add(struct hvd_activity *activity, uint32_t rank, pid_t pid);
void hvd_activity_remove(struct hvd_activity *activity, uint32_t rank);
/* Ranks have printed so much. */
void hvd_activity_output(struct hvd_activity *activity, size_t bytes);

/* The message "watch". */
void hvd_activity_watch(struct hvd_activity *activity, const json_t *msg);

#endif
