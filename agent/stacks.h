/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stacks.h - where this host's ranks are: hvd-agent inspect WHICH.
 *
 * A program of its own, so that whoever asks goes on meanwhile, and can end it. It looks at several ranks at a time,
 * and tells what it knows when its time is over. It prints one object, in the form of stack_pieces.h where it has
 * looked for the ranks itself:
 *   {"host":NAME, "ranks":[RANK,…]}
 * A RANK is what stack_tools.h has of its process, with "rank":R, and "step":S where the ranks were looked for. Further
 * processes of a rank that run Python, as the workers of a DataLoader do, follow in "others":[…], a few of them.
 */
#ifndef HVD_STACKS_H
#define HVD_STACKS_H

#include "lib/base/log.h"

#define HVD_STACKS_MAX_SECONDS 60
#define HVD_STACKS_MAX_OUTPUT  (6 << 20) /* bytes of the line; further ranks are left out */

/* `which` is "RANK:PID,RANK:PID,…", then "@SECONDS"; or JOB, JOB.STEP (stack_find.h), then the same. Returns the exit
 * status. */
int hvd_stacks_run(const char *which, const struct hvd_log *log);

#endif
