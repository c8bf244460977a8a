/* SPDX-License-Identifier: Apache-2.0 */
/*
 * static_ranks.h - the policy of a job of fixed size: one generation of ranks. Every host is needed, except that
 * spare ones may be left out before the plan.
 */
#ifndef HVD_STATIC_RANKS_H
#define HVD_STATIC_RANKS_H

#include "job_policy.h"

/* `base` is that of the job. */
struct hvd_job_policy *hvd_static_ranks_create(struct event_base *base);

/* Before the plan: "no registration from …", the hosts that have not registered; NULL if all have. The caller frees
 * it. */
char *hvd_static_ranks_unregistered(const struct hvd_job_policy *policy);

/* Has an agent ended before the plan? */
bool hvd_static_ranks_agent_gone(const struct hvd_job_policy *policy);

/* All ranks have ended, and the starter, a program of that name, goes on. True: it waits for a host whose connection
 * ended at that moment; the job ends. False: there is no such host, and Slurm is asked about all hosts from now on. */
bool hvd_static_ranks_lose_unconfirmed(struct hvd_job_policy *policy, const char *starter);

#endif
