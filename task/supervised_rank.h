/* SPDX-License-Identifier: Apache-2.0 */
/*
 * supervised_rank.h - the shim of one rank where what starts ranks cannot be relied on to end them (jsrun).
 *
 * It fetches the rank's plan as any shim does (local rank 0 is the node agent),
 * and then holds its connection to the driver: it tells how the rank ended,
 * passes on signals, and ends the rank, and itself, when the driver says so or
 * the connection drops. Of processes and output: see ranks.h.
 */
#ifndef HVD_SUPERVISED_RANK_H
#define HVD_SUPERVISED_RANK_H

#include "lib/base/log.h"
#include "lib/protocol/boot.h"
#include "ranks.h"
#include "taskinfo.h"

/* Returns the exit status: the rank's, as a shell gives it. opts->inherit and opts->number are set here. */
int hvd_supervised_rank_run(const struct hvd_boot *boot, const struct hvd_taskinfo *info,
			    const struct hvd_ranks_opts *opts, const struct hvd_log *log);

#endif
