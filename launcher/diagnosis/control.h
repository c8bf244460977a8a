/* SPDX-License-Identifier: Apache-2.0 */
/*
 * control.h - where a running launch can be asked from outside: hvdrun --stacks, on the host of the launch's driver.
 *
 * The driver's process listens on a UNIX socket in the abstract namespace, so that nothing is left behind by any
 * ending, and a container with a network of its own is another place. Its name is
 *     hvd/UID/LAUNCH/PID, or hvd/UID/LAUNCH/RANDOM/PID
 * LAUNCH is "slurm-JOB.STEP" (srun --hvd), "slurm-JOB" or "lsf-JOB" (hvdrun in such a job), or "none"; PID that of srun
 * or hvdrun; the longer name is for a launch whose name somebody else has taken. Both ends check that the other one is
 * a process of the same user, since anyone may take a name; the launch's end takes root, too.
 *
 * A client sends one line, "stacks SECONDS", and gets the answer (launcher/driver/stacks.h) as JSON until the end of
 * the connection. One client at a time is answered.
 */
#ifndef HVD_CONTROL_H
#define HVD_CONTROL_H

#include "launcher/driver/stacks.h"
#include "lib/base/deadline.h"
#include "lib/base/err.h"

#include <sys/types.h>

#define HVD_CONTROL_MAX_SECONDS 60.0

struct hvd_control;

/* Listen for a launch that `stacks` belongs to, which is not owned and must outlive the result. `launch` is LAUNCH,
 * NULL for that of this process's environment. NULL when that cannot be done: the launch goes on without. */
struct hvd_control *hvd_control_open(struct event_base *base, const char *launch, pid_t pid, struct hvd_stacks *stacks);
void hvd_control_close(struct hvd_control *control); /* NULL is fine */

/* Ask the launch that `target` means: "JOB", "JOB.STEP", or "pid:PID". A new reference; NULL with err set: HVD_E_NOENT
 * where no launch of this user's on this host is meant, or more than one. */
json_t *hvd_control_ask(const char *target, double seconds, struct hvd_err *err);

#endif
