/* SPDX-License-Identifier: Apache-2.0 */
/*
 * session_wrapper.h - the process between a daemon of an MPI or of LSF and the shim.
 *
 * Such a daemon kills its child and the child's process group, but no other process. Often the daemon ends without a
 * signal to its child. So the daemon's child is this wrapper, and the shim is the wrapper's child, in a session of its
 * own, where the daemon's SIGKILL does not reach it. The shim lives as long as it needs to end all processes of its
 * ranks (for one rank see hvd_child_follow()). The wrapper passes signals on to the shim's process group, and ends as
 * the shim does.
 *
 * A self-registering agent has a wrapper too: the process that started it may kill the wrapper, and nothing else.
 */
#ifndef HVD_SESSION_WRAPPER_H
#define HVD_SESSION_WRAPPER_H

#include "lib/base/log.h"

#include <sys/types.h>

enum hvd_session_wrapper_of {
	HVD_SESSION_WRAPPER_RANK, /* ends with its parent */
	HVD_SESSION_WRAPPER_HOST, /* also ends with its parent; then waits for the readers of the output, see hvd_output_settle() */
	HVD_SESSION_WRAPPER_JOIN, /* outlives its parent, and at its end kills what a killed agent has left */
};

/* Run this program again with the same arguments, with --behind after the subcommand's word, which is argv[0]; and wait
 * for its end. Returns the exit status. */
int hvd_session_wrapper_run(char *const *argv, enum hvd_session_wrapper_of of, const struct hvd_log *log);

/* For the process behind a wrapper, which was its parent when it started, and which is about to end: continue the
 * wrapper if somebody has stopped it (pkill -STOP). The daemon would wait for it for ever. 0 is fine. */
void hvd_session_wrapper_wake(pid_t wrapper);

#endif
