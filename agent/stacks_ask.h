/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stacks_ask.h - has a child process find out where ranks are (stacks.h), while the event loop goes on.
 */
#ifndef HVD_STACKS_ASK_H
#define HVD_STACKS_ASK_H

#include "lib/base/err.h"
#include "rank_watch.h"

struct hvd_stacks_ask;

/* `done` is called once, from the event loop, within `seconds` and a second, with an array (stacks.h's "ranks"; empty
 * if the child has failed), which stays this object's. `done` may destroy the object. NULL with err set: no child can
 * be started. */
struct hvd_stacks_ask *hvd_stacks_ask_begin(struct event_base *base, const struct hvd_watched_rank *ranks, size_t n,
					    double seconds, void (*done)(json_t *found, void *arg), void *arg,
					    struct hvd_err *err);
void hvd_stacks_ask_destroy(struct hvd_stacks_ask *ask); /* ends the child; NULL is fine */

#endif
