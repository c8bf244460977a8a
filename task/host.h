/* SPDX-License-Identifier: Apache-2.0 */
/*
 * host.h - the shim of a whole host, where the backend starts hosts (fork, ssh, blaunch, lsrun).
 *
 * It is the host's node agent, starts the ranks that the plan gives it, tells
 * the driver how each ended, and ends them all, and itself, when the driver
 * says so or its connection drops.
 */
#ifndef HVD_HOST_H
#define HVD_HOST_H

#include "lib/base/log.h"
#include "lib/protocol/boot.h"
#include "ranks.h"
#include "taskinfo.h"

#define hvd_host_opts hvd_ranks_opts

/* Returns the exit status: that of the first rank that failed. With a `refusal` that has a code there are no ranks: the
 * launcher is told why. */
int hvd_host_run(const struct hvd_boot *boot, const struct hvd_taskinfo *info, const struct hvd_host_opts *opts,
		 const struct hvd_err *refusal, const struct hvd_log *log);

#endif
