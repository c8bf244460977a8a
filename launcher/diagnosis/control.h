/* SPDX-License-Identifier: Apache-2.0 */
/*
 * control.h - the socket through which a running launch answers questions: hvdrun --stacks, on the host of the driver.
 *
 * The driver's process listens on a UNIX socket in the abstract namespace. So no file is left behind, however the
 * process ends, and a container with a network of its own has a namespace of its own. The socket's name is
 *     hvd/UID/LAUNCH/PID, or hvd/UID/LAUNCH/RANDOM/PID
 * LAUNCH is "slurm-JOB.STEP" (srun --hvd), "slurm-JOB" or "lsf-JOB" (hvdrun in such a job), or "none". PID is that of
 * srun or hvdrun. The longer name is for a launch whose name somebody else has taken. Both ends check that the other
 * one is a process of the same user, because anyone may take a name; the launch's end also accepts root.
 *
 * A client sends one line, "stacks SECONDS", and gets the answer (launcher/world/stacks.h) as JSON until the end of
 * the connection. One client at a time is answered.
 */
#ifndef HVD_CONTROL_H
#define HVD_CONTROL_H

#include "launcher/world/stacks.h"
#include "lib/base/deadline.h"
#include "lib/base/err.h"

#include <sys/types.h>

#define HVD_CONTROL_MAX_SECONDS 60.0

struct hvd_control;

/* Listen for the launch of `stacks`, which is not owned and must outlive the result. `launch` is LAUNCH; NULL: that of
 * this process's environment. Returns NULL if that is impossible: the launch goes on without. */
struct hvd_control *hvd_control_open(struct event_base *base, const char *launch, pid_t pid, struct hvd_stacks *stacks);
void hvd_control_close(struct hvd_control *control); /* NULL is fine */

/* Ask the launch that `target` names: "JOB", "JOB.STEP", or "pid:PID". A new reference; NULL with err set: HVD_E_NOENT
 * if this user has no such launch on this host, or more than one. */
json_t *hvd_control_ask(const char *target, double seconds, struct hvd_err *err);

#endif
