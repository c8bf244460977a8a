/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stack_tools.h - where a process is, seen from outside: by py-spy, eu-stack or gdb, whichever is installed, and the
 * kernel.
 *
 * py-spy reads the process's memory without stopping it, and is the only tool that knows Python's lines. It is searched
 * in PATH of the process, beside the process's own interpreter, and in PATH of this program. eu-stack and gdb stop a
 * process for a moment. They are not used for a process that is already stopped or frozen, or that the kernel cannot
 * stop (state D).
 */
#ifndef HVD_STACK_TOOLS_H
#define HVD_STACK_TOOLS_H

#include "lib/base/deadline.h"

#include <jansson.h>
#include <stdbool.h>
#include <sys/types.h>

/* What is known of a process:
 *   {"pid":P, "state":TEXT, "how":"py-spy|eu-stack|gdb|kernel", "why":TEXT,
 *    "wchan":TEXT, "syscall":N, "stopped":B, …}
 * with "frames" and "threads" of stack_parse.h unless `how` is "kernel". "state" is in words ("sleeping"). "wchan" is
 * the kernel's function in which it sleeps; if that is not known, it is "", and "syscall" is -1. "why": why there are
 * no frames. `stopped`: by SIGSTOP, a debugger or a freezer. A new reference; NULL: there is no such process. Fields
 * that are not known at the deadline are left out. */
json_t *hvd_stack_take(pid_t pid, hvd_time deadline);

#endif
