/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ask.h - asks the scheduler something in a child process, so that the event loop goes on while a controller does not
 * answer.
 */
#ifndef HVD_ASK_H
#define HVD_ASK_H

#include "lib/process/call.h"

#include <event2/event.h>

/* The longest answer. */
#define HVD_ASK_MAX 255

struct hvd_ask;

/* `ask` is called in a child, with `ask_arg`, and writes the answer. `answered` is called from the event loop, with NULL if
 * there is none within so many seconds, and may destroy the object. */
struct hvd_ask *hvd_ask_create(struct event_base *base, hvd_call_fn *ask, void *ask_arg, int seconds,
			       void (*answered)(const char *answer, void *arg), void *arg);
void hvd_ask_destroy(struct hvd_ask *ask); /* NULL is fine */

/* Ask now, unless an answer is awaited already. */
void hvd_ask_now(struct hvd_ask *ask);

#endif
