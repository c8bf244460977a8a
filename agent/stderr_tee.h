/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stderr_tee.h - a task's standard error, on its way from the task to its former destination, with a copy for a reader.
 *
 * The bytes stay in the kernel: tee(2) copies the pipe's contents for the reader, and splice(2) moves them on. So
 * nothing is lost if the process that passes them on is killed while another process also has the descriptors. Only
 * the line of bind_line.h is taken out: neither the reader nor the destination gets it.
 */
#ifndef HVD_STDERR_TEE_H
#define HVD_STDERR_TEE_H

#include <stdbool.h>
#include <stddef.h>

/* The memory in which a process reads copies; one for all of its tees. */
struct hvd_stderr_tee_view {
	int ends[2]; /* a pipe */
	char *bytes;
};

struct hvd_stderr_tee {
	int in, out;  /* pipes, `in` non-blocking; owned. out -1: nobody reads there, and the bytes are thrown away */
	size_t ahead; /* how many bytes in the pipe the reader has already got */
	size_t drop;  /* so many of these are to be thrown away, behind those to keep */
	size_t keep;  /* so many of these are to be passed on first */
};

enum hvd_stderr_tee_state {
	HVD_TEE_EMPTY, /* go on when `in` is readable */
	HVD_TEE_FULL,  /* go on when `out` is writable */
	HVD_TEE_MORE,  /* the budget is used up */
	HVD_TEE_OVER,  /* all writers have closed the pipe, and all was passed on */
};

/* 0, or -1 with errno. */
int hvd_stderr_tee_view_open(struct hvd_stderr_tee_view *view);
void hvd_stderr_tee_view_close(struct hvd_stderr_tee_view *view); /* a zeroed one is fine */

/* Pass on at most about `budget` bytes, without waiting. `on_bytes` gets all bytes, in their order, before they are
 * passed on; NULL: nobody reads them. */
enum hvd_stderr_tee_state hvd_stderr_tee_pass(struct hvd_stderr_tee *st, struct hvd_stderr_tee_view *view,
					      size_t budget, void (*on_bytes)(const char *bytes, size_t len, void *arg),
					      void *arg);
/* The task has ended: enlarge the pipe, so that all of its bytes can be passed on at once although nobody reads them
 * yet. */
void hvd_stderr_tee_widen(struct hvd_stderr_tee *st);
void hvd_stderr_tee_close(struct hvd_stderr_tee *st);

#endif
