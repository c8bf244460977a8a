/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tap.h - a task's standard error on its way from the task to where it wrote before, with somebody who looks on.
 *
 * The bytes stay in the kernel: tee(2) copies what the pipe has for the looker, and splice(2) moves it on. So not one
 * is lost when the process that passes them on is killed, if another one has the descriptors, too.
 */
#ifndef HVD_TAP_H
#define HVD_TAP_H

#include <stdbool.h>
#include <stddef.h>

/* The room in which a process looks at what its taps pass on; one for all of them. */
struct hvd_tap_view {
	int ends[2]; /* a pipe */
	char *bytes;
};

struct hvd_tap {
	int in, out;  /* pipes, `in` non-blocking; owned. out -1: nobody reads there, and what comes is thrown away */
	size_t ahead; /* how much of what is in the pipe was looked at already */
};

enum hvd_tap_state {
	HVD_TAP_EMPTY, /* go on when `in` is readable */
	HVD_TAP_FULL,  /* go on when `out` is writable */
	HVD_TAP_MORE,  /* the budget is used up */
	HVD_TAP_OVER,  /* all writers have closed the pipe, and all was passed on */
};

/* 0, or -1 with errno. */
int hvd_tap_view_open(struct hvd_tap_view *view);
void hvd_tap_view_close(struct hvd_tap_view *view); /* a zeroed one is fine */

/* Pass on about `budget` bytes at most, without waiting. `look` is called with all bytes, in their order, before they
 * are passed on; NULL: nobody looks. */
enum hvd_tap_state hvd_tap_pass(struct hvd_tap *tap, struct hvd_tap_view *view, size_t budget,
				void (*look)(const char *bytes, size_t len, void *arg), void *arg);
/* The task has ended: make room, so that all that the pipe has can be passed on at once although nobody reads it yet.
 */
void hvd_tap_widen(struct hvd_tap *tap);
void hvd_tap_close(struct hvd_tap *tap);

#endif
