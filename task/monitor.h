/* SPDX-License-Identifier: Apache-2.0 */
/*
 * monitor.h - what stands in for a shim where an MPI's daemon, or one of LSF's, starts and ends it.
 *
 * Such a daemon kills its child and the child's process group, and knows of
 * no other process; often it dies itself without a word. So its child is this
 * front, and the shim runs behind it as the leader of a session of its own,
 * where no SIGKILL of the daemon's reaches it: it outlives the front by as long
 * as it takes to end all that the ranks have started (for one rank see
 * hvd_command_follow()). Signals are passed on, and the front ends as the shim does.
 */
#ifndef HVD_MONITOR_H
#define HVD_MONITOR_H

#include "lib/base/log.h"

#include <stdbool.h>

/* Run this program again with these arguments and --behind in front of them. `settle`: see hvd_output_settle(). Returns
 * the exit status. */
int hvd_monitor_run(char *const *argv, bool settle, const struct hvd_log *log);

#endif
