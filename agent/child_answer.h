/* SPDX-License-Identifier: Apache-2.0 */
/*
 * child_answer.h - reads the JSON text that a child process writes, while the event loop goes on.
 */
#ifndef HVD_CHILD_ANSWER_H
#define HVD_CHILD_ANSWER_H

#include "lib/base/deadline.h"

#include <event2/event.h>
#include <jansson.h>
#include <sys/types.h>

struct hvd_child_answer;

/* Read from `fd` (taken) what the child `pid` writes, to its end. `done` is called once, from the event loop: with the
 * object, which stays this one's, or with NULL if the child has written something else, more than `max` bytes, or has
 * not ended at `latest`. It may destroy the answer. */
struct hvd_child_answer *hvd_child_answer_begin(struct event_base *base, pid_t pid, int fd, size_t max, hvd_time latest,
						void (*done)(json_t *answer, void *arg), void *arg);
void hvd_child_answer_destroy(struct hvd_child_answer *answer); /* kills the child; NULL is fine */

#endif
