/* SPDX-License-Identifier: Apache-2.0 */
/*
 * session_wrapper.h - the process between a daemon of an MPI or of LSF and the shim.
 *
 * Such a daemon kills its child and the child's process group, but no other process; often the daemon itself ends
 * without a signal to its child. So the daemon's child is this monitor, and the shim is the monitor's child, in a
 * session of its own, where the daemon's SIGKILL does not reach it. The shim lives on for as long as it needs to end
 * all processes of its ranks (for one rank see hvd_child_follow()). The monitor passes signals on to the shim's
 * process group, and ends as the shim does.
 *
 * An agent that came by itself has one too: whatever had started it may kill it, and only it.
 */
#ifndef HVD_SESSION_WRAPPER_H
#define HVD_SESSION_WRAPPER_H

#include "lib/base/log.h"

enum hvd_session_wrapper_of {
	HVD_SESSION_WRAPPER_RANK, /* ends with its parent */
	HVD_SESSION_WRAPPER_HOST, /* … and at its end waits for the readers of the output, see hvd_output_settle() */
	HVD_SESSION_WRAPPER_JOIN, /* outlives its parent, and at its end kills what a killed agent has left */
};

/* Run this program again with the same arguments, where --behind follows the subcommand's word, which is argv[0]; and
 * wait for its end. Returns the exit status. */
int hvd_session_wrapper_run(char *const *argv, enum hvd_session_wrapper_of of, const struct hvd_log *log);

#endif
