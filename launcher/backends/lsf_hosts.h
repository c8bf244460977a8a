/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lsf_hosts.h - what the launchers of LSF that start one shim per host (blaunch, lsrun) have in common.
 */
#ifndef HVD_LSF_HOSTS_H
#define HVD_LSF_HOSTS_H

#include "backend.h"

/* The job's hosts, or those that the user listed, each with a process; `program` must be there to reach others. */
int hvd_lsf_prepare(struct hvd_launch *launch, const char *program,
		    void (*reach)(const struct hvd_launch *launch, const char *host, char *const *shim,
				  struct hvd_strv *argv),
		    struct hvd_err *err);

/* As hvd_backend.explain. `before`, the host's name and `after` are a command that must work for the program to work.
 */
void hvd_lsf_explain(const struct hvd_launch *launch, const struct hvd_proc *proc, const char *before,
		     const char *after, int status, bool came, struct hvd_err *why);

#endif
