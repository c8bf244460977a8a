/* SPDX-License-Identifier: Apache-2.0 */
/* observed_internal.h - the observed ranks' agent (observed.h), for its own files. */
#ifndef HVD_OBSERVED_INTERNAL_H
#define HVD_OBSERVED_INTERNAL_H

#include "agent.h"
#include "detached.h"
#include "lib/base/timer.h"
#include "observed.h"
#include "observed_ranks.h"
#include "run_child.h"
#include "shims.h"

struct observed {
	struct hvd_agent agent;
	const struct hvd_observed_opts *opts;
	const struct hvd_rank_starter *starter;
	struct hvd_session session;
	struct hvd_detached *detached;
	struct hvd_shims *shims;
	struct hvd_observed_ranks *ranks; /* NULL before the plan, and if nobody sends events */
	struct hvd_timer *late;
	struct event *events;            /* slurmstepd's; NULL with shims */
	int backup_fd;                   /* events for the watchdog; 0 = none */
	char parent[HVD_COMMAND_PARENT]; /* the program that has started the first process */
	uint32_t tasks;                  /* of the host; the plan may have fewer ranks for it */
	uint32_t ended;                  /* ranks */
	bool output_lost;                /* a shim waits until the driver knows */
};

/* observed_plan.c: answer all who ask for plans, with that of the driver, or, if `plan` is NULL, that this host has no
 * ranks. -1 with err set: they got no answer. */
int hvd_observed_answer(struct observed *observed, const json_t *plan, struct hvd_err *err);

#endif
