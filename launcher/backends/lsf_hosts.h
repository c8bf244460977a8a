/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lsf_hosts.h - what the launchers of LSF that start one shim per host (blaunch, lsrun) have in common.
 */
#ifndef HVD_LSF_HOSTS_H
#define HVD_LSF_HOSTS_H

#include "backend.h"

/* The job's hosts, or those that the user listed, each with a process; to reach others there must be a program of the
 * backend's name. */
int hvd_lsf_prepare(struct hvd_launch *launch, const struct hvd_backend *backend, struct hvd_err *err);

/* As hvd_backend.explain. `before`, the host's name and `after` are a command that must work for the program to work.
 */
void hvd_lsf_explain(const struct hvd_launch *launch, const struct hvd_proc *proc, const char *before,
		     const char *after, int status, bool came, struct hvd_err *why);

/* LSF's launchers do not take the nice value and the limit of locked memory to other hosts: words for the shim there.
 */
void hvd_lsf_add_limits(struct hvd_strv *shim);

#endif
