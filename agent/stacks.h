/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stacks.h - where this host's ranks are: hvd-agent inspect WHICH.
 *
 * It is a program of its own, so that the asking process goes on meanwhile, and can end it. It looks at several ranks
 * at a time, and prints what it knows when its time is over. It prints one object, in the form of stack_pieces.h if it
 * has searched the ranks itself:
 *   {"host":NAME, "ranks":[RANK,…]}
 * A RANK is the object of hvd_stack_take() for its process, with "rank":R, and "step":S if the ranks were searched; with
 * "cpu":SECONDS, the processor time that the rank's processes have used before that look. Further processes of a rank that
 * run Python, such as the workers of a DataLoader, follow in "others":[…], a few of them. "nccl", if that was asked for, is
 * what the ranks' NCCL says of all ranks of the job (nccl_ras.h); it is left out if there is none that answers.
 *
 * A process is seen from outside: by py-spy, eu-stack or gdb, whichever is installed, and the kernel (stack_tools.c).
 * py-spy reads the process's memory without stopping it, and is the only tool that knows Python's lines. It is searched
 * in PATH of the process, beside the process's own interpreter, and in PATH of this program. eu-stack and gdb stop a
 * process for a moment. They are not used for a process that is already stopped or frozen, or that the kernel cannot
 * stop (state D).
 */
#ifndef HVD_STACKS_H
#define HVD_STACKS_H

#include "lib/base/deadline.h"
#include "lib/base/log.h"

#include <jansson.h>
#include <stdbool.h>
#include <sys/types.h>

#define HVD_STACKS_MAX_SECONDS 60
#define HVD_STACKS_MAX_OUTPUT  (6 << 20) /* bytes of the line; further ranks are left out */

/* What may follow the time, in this order: NCCL is to be asked, too; no tool is used that stops a rank, and NCCL is asked
 * once only, as for one of several samples. */
#define HVD_STACKS_NCCL    "+nccl"
#define HVD_STACKS_NO_STOP "+no-stop"

/* `which` is "RANK:PID,RANK:PID,…", then "@SECONDS"; or JOB, JOB.STEP (stack_find.h), then the same. Returns the exit
 * status. */
int hvd_stacks_run(const char *which, const struct hvd_log *log);

/* What is known of a process:
 *   {"pid":P, "state":TEXT, "how":"py-spy|eu-stack|gdb|kernel", "why":TEXT,
 *    "wchan":TEXT, "syscall":N, "stopped":B, "own_pid":P, …}
 * with "frames", "threads" and "gil" of stack_parse.h unless `how` is "kernel". "state" is in words ("sleeping"). "wchan" is
 * the kernel's function in which it sleeps; if that is not known, it is "", and "syscall" is -1. "why": why there are
 * no frames. `stopped`: by SIGSTOP, a debugger or a freezer. "own_pid": its number in its own pid namespace, if that is
 * another one. may_stop: by tools, too, that stop the process. A new reference; NULL: there is no such process. Fields
 * that are not known at the deadline are left out. */
json_t *hvd_stack_take(pid_t pid, bool may_stop, hvd_time deadline);

#endif
