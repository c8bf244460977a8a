/* SPDX-License-Identifier: Apache-2.0 */
/*
 * last_report.h - the report to the driver if a host's agent has ended before the ranks. The agent's watchdog and the
 * rank shims send it, over a new connection.
 *
 * Both functions block for at most some seconds. If the driver is gone, they do nothing, silently.
 */
#ifndef HVD_LAST_REPORT_H
#define HVD_LAST_REPORT_H

#include "lib/host/rank_end.h"
#include "lib/protocol/boot.h"
#include "lib/protocol/handshake.h"
#include "taskinfo.h"

#include <sys/types.h>

/* The agent of this host has ended before the ranks, with this status as from waitpid(2). */
void hvd_last_report_death(const struct hvd_boot *boot, struct hvd_session *session, const struct hvd_taskinfo *info,
			   pid_t pid, int status);

/* A rank of this host has ended. */
void hvd_last_report_exit(const struct hvd_boot *boot, const struct hvd_rank_end *end);

#endif
