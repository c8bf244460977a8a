/* SPDX-License-Identifier: Apache-2.0 */
/* input_wait.h - does a process wait for input of its user? */
#ifndef HVD_INPUT_WAIT_H
#define HVD_INPUT_WAIT_H

#include <stdbool.h>
#include <sys/types.h>

/* Does the main thread of the process sleep in a read of its standard input? Only if that is also the standard input of
 * `rank`; otherwise the input comes from another process of the rank. If this user may not see the system call
 * (ptrace_scope), the name of the kernel's function decides. False if neither can be read. */
bool hvd_waits_for_input(pid_t pid, pid_t rank);

#endif
