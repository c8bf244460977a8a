/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stderr_file.h - the file that is a task's standard error, as with srun's -o FILE.%t: slurmstepd has opened it, and the
 * task writes to it directly, so that nothing passes through the agent. When the rank has failed, the end of the file
 * shows why.
 *
 * The descriptor is the task's own, so nobody can put another file in its place. The file system may hang: it is read by a
 * child process that has little time.
 */
#ifndef HVD_STDERR_FILE_H
#define HVD_STDERR_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* How much of its end is read at most. */
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
