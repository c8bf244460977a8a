/* SPDX-License-Identifier: Apache-2.0 */
/*
 * task_stderr.h - a task's standard error, as the agent reads it: a pipe, or a file.
 *
 * A pipe is read on the way from the task to its former destination, with a copy for a reader. The bytes stay in the
 * kernel: tee(2) copies the pipe's contents for the reader, and splice(2) moves them on. So nothing is lost if the process
 * that passes them on is killed while another process also has the descriptors. Only the line of bind_line.h is taken out:
 * neither the reader nor the destination gets it.
 *
 * A file, as with srun's -o FILE.%t, was opened by slurmstepd, and the task writes to it directly, so that nothing passes
 * through the agent. When the rank has failed, the end of the file shows why. The descriptor is the task's own, so nobody
 * can put another file in its place. The file system may hang: it is read by a child process that has little time.
 */
#ifndef HVD_TASK_STDERR_H
#define HVD_TASK_STDERR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

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

/* How much of a file's end is read at most. */
#define HVD_STDERR_FILE_BYTES (64 * 1024)

struct hvd_stderr_file {
	int fd;       /* owned */
	int64_t from; /* what is before this position is not the task's */
	char *path;   /* as the kernel knows it; NULL: there is no file, and the rest of the struct has no meaning */
};

/* Take over the descriptors of a HVD_STEP_FILE event, which are one file; they are -1 then. `file` is zeroed before. */
void hvd_stderr_file_open(struct hvd_stderr_file *file, int fds[2], int64_t from);
void hvd_stderr_file_close(struct hvd_stderr_file *file); /* a zeroed one is fine, and left */

/* The end of what was written to it, *len bytes, which the caller frees. NULL: it cannot be read, or not in time; *hangs
 * tells which. */
char *hvd_stderr_file_end(const struct hvd_stderr_file *file, size_t *len, bool *hangs);

#endif
