/* SPDX-License-Identifier: Apache-2.0 */
/*
 * progress_file.h - whether a training has written a checkpoint (--progress-file).
 *
 * A process of its own looks at the files, which may be on a network file system that does not answer.
 */
#ifndef HVD_PROGRESS_FILE_H
#define HVD_PROGRESS_FILE_H

#include <stdbool.h>

struct hvd_progress_file {
	const char *pattern; /* as of a shell: files whose newest is looked at. NULL: none */
	double newest;       /* when it was changed, by its file system's clock, in seconds; 0 = there is none */
};

/* Has a file been made or changed since the last call? Waits for seconds at most. Without an answer, as from a file
 * system that hangs, it is not known that there is none: true. */
bool hvd_progress_file_changed(struct hvd_progress_file *file);

#endif
