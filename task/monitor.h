/* SPDX-License-Identifier: Apache-2.0 */
/*
 * monitor.h - the process between a daemon of an MPI or of LSF and the shim.
 *
 * Such a daemon kills its child and the child's process group, but no other process; often the daemon itself ends
 * without a signal to its child. So the daemon's child is this monitor, and the shim is the monitor's child, in a
 * session of its own, where the daemon's SIGKILL does not reach it. The shim lives on for as long as it needs to end
 * all processes of its ranks (for one rank see hvd_command_follow()). The monitor passes signals on to the shim's
 * process group, and ends as the shim does.
 */
#ifndef HVD_MONITOR_H
#define HVD_MONITOR_H

#include "lib/base/log.h"

#include <stdbool.h>

/* Run this program again with the same arguments behind --behind, and wait for its end. `settle`: wait for the readers
 * of the output too, see hvd_output_settle(). Returns the exit status. */
int hvd_monitor_run(char *const *argv, bool settle, const struct hvd_log *log);

#endif
