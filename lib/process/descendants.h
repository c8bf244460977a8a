/* SPDX-License-Identifier: Apache-2.0 */
/* descendants.h - the processes below a process, as /proc has them. */
#ifndef HVD_DESCENDANTS_H
#define HVD_DESCENDANTS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* Zeroed: empty. The caller frees `v`. */
struct hvd_pids {
	pid_t *v;
	size_t n, room;
};

/* Add the children of all threads of a process. A set has at most 65,536 processes. */
void hvd_pids_add_children(struct hvd_pids *pids, pid_t pid);

/* Do this process and all below it ignore the signal? A process that has ended does not count. A process whose signals
 * cannot be read counts as one that does not ignore it. */
bool hvd_all_ignore(pid_t pid, int sig);

#endif
