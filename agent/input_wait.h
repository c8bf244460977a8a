/* SPDX-License-Identifier: Apache-2.0 */
/* input_wait.h - does a process wait for what its user types, or sends to its standard input? */
#ifndef HVD_INPUT_WAIT_H
#define HVD_INPUT_WAIT_H

#include <stdbool.h>
#include <sys/types.h>

/* Does the main thread of the process sleep in a read of its standard input? Only if that is also the standard input of
 * `rank`: else it comes from another process of the rank. Where the kernel does not let this user see the system call
 * (ptrace_scope), the name of the kernel's function decides. False where neither can be told. */
bool hvd_waits_for_input(pid_t pid, pid_t rank);

#endif
