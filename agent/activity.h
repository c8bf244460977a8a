/* SPDX-License-Identifier: Apache-2.0 */
/*
 * activity.h - do the ranks of this host make progress? The driver asks, for --hang-timeout.
 *
 *   {"t":"watch", "every":SEC}                               look at this interval; 0: no longer
 *   {"t":"activity", "idle":SEC, "input":B, "ranks":N}       the answer, at once, and again whenever it has changed
 *
 * idle: how long the ranks have made no progress; 0: they make progress. input: one of them waits for input of its
 * user. ranks: how many there are. Before the driver has asked, nothing is looked at.
 *
 * A rank makes progress if its process and the processes below it
 *   - use more than 2 % of a processor (threads of idle ranks that poll use less), or 0.5 % if they want more at that
 *     moment, or
 *   - write anything except the 8 bytes or fewer by which threads wake each other, or their output arrives here, or
 *   - read more than 10 kB/s, or have waited for pages from a file.
 * So a rank that waits for others by polling without a pause, as NCCL does, seems to make progress. A rank is not idle
 * while one of its processes is stopped, by SIGSTOP or by a debugger: somebody has done that, and may undo it; not if
 * it is the launch's own look at its stacks that has stopped it. The time in which the agent was stopped itself, as
 * Slurm does with all processes of a job that it suspends, does not count.
 */
#ifndef HVD_ACTIVITY_H
#define HVD_ACTIVITY_H

#include <event2/event.h>
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct hvd_activity;

/* `send` takes the reference of its message. */
struct hvd_activity *hvd_activity_create(struct event_base *base, void (*send)(json_t *msg, void *arg), void *arg);
void hvd_activity_destroy(struct hvd_activity *activity); /* NULL is fine */

/* The rank has this process, in place of a former one. The rank may be started or ended at any time. */
void hvd_activity_add(struct hvd_activity *activity, uint32_t rank, pid_t pid);
void hvd_activity_remove(struct hvd_activity *activity, uint32_t rank);
/* The ranks' stacks are being taken from now on; are no longer. That this stops a rank is no progress. */
void hvd_activity_inspected(struct hvd_activity *activity, bool inspected);
/* Ranks have written this many bytes of output. */
void hvd_activity_output(struct hvd_activity *activity, size_t bytes);

/* Handle the message "watch". */
void hvd_activity_watch(struct hvd_activity *activity, const json_t *msg);

#endif
