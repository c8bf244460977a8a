/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lsf_hosts.h - what the backends that start a node agent per host by a command of LSF (blaunch, lsrun) have in common.
 */
#ifndef HVD_LSF_HOSTS_H
#define HVD_LSF_HOSTS_H

#include "backend.h"

/* hvd_backend.prepare: a process for each host of the LSF job, or for each that the user listed. Refuses a launch
 * outside of LSF, and one that reaches other hosts where no program of the backend's name is in PATH. */
int hvd_lsf_prepare(struct hvd_launch *launch, const struct hvd_backend *backend, struct hvd_err *err);

/* hvd_backend.explain. `before`, the host's name and `after` together are a command for the user to try. */
void hvd_lsf_explain(const struct hvd_launch *launch, const struct hvd_proc *proc, const char *before,
		     const char *after, int status, bool registered, struct hvd_err *why);

#endif
