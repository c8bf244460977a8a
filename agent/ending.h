/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ending.h - what asks an agent to end, besides the driver: signals, and the end of the process that has started it.
 */
#ifndef HVD_ENDING_H
#define HVD_ENDING_H

#include <event2/event.h>

struct hvd_ending;

#define HVD_ENDING_STARTER 0 /* in place of a signal: what has started the agent has ended */

/* `fn` gets each SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1 and SIGUSR2 of this process. `starter` (not owned; -1 = none)
 * is a descriptor that ends when what has started the agent does; bytes that arrive there have no meaning. */
struct hvd_ending *hvd_ending_watch(struct event_base *base, int starter, void (*fn)(int sig, void *arg), void *arg);
/* From now on this function is called. */
void hvd_ending_hand_over(struct hvd_ending *ending, void (*fn)(int sig, void *arg), void *arg);
void hvd_ending_unwatch(struct hvd_ending *ending); /* NULL is fine */

#endif
