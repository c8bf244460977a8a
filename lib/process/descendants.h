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

/* Add the children of a process, those of all its threads. Not more than 65,536 are taken in all. */
void hvd_pids_add_children(struct hvd_pids *pids, pid_t pid);

/* Do this process and all below it ignore the signal? Processes that have gone do not count; one of which that cannot
 * be told does not ignore it. */
bool hvd_all_ignore(pid_t pid, int sig);

#endif
