/* SPDX-License-Identifier: Apache-2.0 */
/* process_state.h - what a process waits for and holds, over all of its threads, as proc(5) has it. */
#ifndef HVD_PROCESS_STATE_H
#define HVD_PROCESS_STATE_H

#include <stdbool.h>
#include <sys/types.h>

/* The state of the thread that keeps the process from ending: 'D' if there is one in this state, else that of any thread
 * that has not ended. The main thread may have ended ('Z') long before the others. 0: no thread can be read. `proc` is
 * "/proc". */
char hvd_process_state(pid_t pid, const char *proc);

/* Has the process a file open whose path begins with `prefix`? False where its descriptors may not be read. */
bool hvd_process_has_open(pid_t pid, const char *proc, const char *prefix);

#endif
