/* SPDX-License-Identifier: Apache-2.0 */
/*
 * last_report.h - what the driver is told where a host's node agent has ended before the ranks, over a connection that
 * is made for it: by the agent's watchdog, and by rank shims.
 *
 * Both functions block for some seconds at most. A driver that is gone is not told, and nothing is said of that.
 */
#ifndef HVD_LAST_REPORT_H
#define HVD_LAST_REPORT_H

#include "lib/job/rank_end.h"
#include "lib/protocol/boot.h"
#include "lib/protocol/handshake.h"
#include "taskinfo.h"

#include <sys/types.h>

/* The node agent of this host has ended before the ranks, with this status as from waitpid(2). */
void hvd_last_report_death(const struct hvd_boot *boot, struct hvd_session *session, const struct hvd_taskinfo *info,
			   pid_t pid, int status);

/* A rank of this host has ended. */
void hvd_last_report_exit(const struct hvd_boot *boot, const struct hvd_rank_end *end);

#endif
