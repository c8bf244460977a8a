/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stacks.h - where this host's ranks are: hvd-agent inspect WHICH.
 *
 * It is a program of its own, so that the asking process goes on meanwhile, and can end it. It looks at several ranks
 * at a time, and prints what it knows when its time is over. It prints one object, in the form of stack_pieces.h if it
 * has searched the ranks itself:
 *   {"host":NAME, "ranks":[RANK,…]}
 * A RANK is the object of stack_tools.h for its process, with "rank":R, and "step":S if the ranks were searched.
 * Further processes of a rank that run Python, such as the workers of a DataLoader, follow in "others":[…], a few of
 * them.
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
