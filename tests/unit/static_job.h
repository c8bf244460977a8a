/* SPDX-License-Identifier: Apache-2.0 */
/*
 * static_job.h - a static job whose starter starts nothing, as srun's plugin where others start and end the ranks: its
 * agents are those of a test. What the registry and the starter are told is noted.
 */
#ifndef HVD_TESTS_STATIC_JOB_H
#define HVD_TESTS_STATIC_JOB_H

#include "launcher/job/job.h"
#include "launcher/job/static_ranks.h"

#include <stdio.h>
#include <unistd.h>

struct static_job {
	struct hvd_starter starter; /* first, so that a pointer to it is one to all */
	struct hvd_boot boot;       /* how agents reach the job */
	struct hvd_result result;
	struct hvd_job_policy *policy;
	struct hvd_job_policy_ops ops; /* the policy's, but for: */
	struct hvd_agent_registry_ops agents;
	const struct hvd_agent_registry_ops *own; /* which these pass the calls on to */
	/* How often each was called, and the last arguments. */
	int started, failed, died, lost, all_ended;
	struct hvd_err why, gone_why;
	int died_status;
	char lost_host[256];
	const struct hvd_strv *without_munge;
};

static inline struct static_job *static_job_of(void *job)
{
	return (struct static_job *)((struct hvd_job *)job)->starter;
}

static inline void static_job_decided(void *job)
{
	static_job_of(job)->started++;
	static_job_of(job)->own->decided(job);
}

static inline void static_job_failed(const struct hvd_err *why, void *job)
{
	static_job_of(job)->failed++;
	static_job_of(job)->why = *why;
	static_job_of(job)->own->failed(why, job);
}

static inline void static_job_gone(uint32_t host, const struct hvd_err *why, bool unfit, void *job)
{
	static_job_of(job)->gone_why = *why;
	static_job_of(job)->own->gone(host, why, unfit, job);
}

static inline void static_job_disconnected(struct hvd_client *cl, const struct hvd_err *why, void *job)
{
	static_job_of(job)->gone_why = *why;
	static_job_of(job)->own->disconnected(cl, why, job);
}

static inline void static_job_agent_died(uint32_t host, const struct hvd_loss *loss, void *job)
{
	static_job_of(job)->died++;
	static_job_of(job)->died_status = loss->status;
	static_job_of(job)->own->agent_died(host, loss, job);
}

static inline int static_job_start(struct hvd_starter *starter, const struct hvd_boot *boot, struct hvd_err *err)
{
	(void)err;
	((struct static_job *)starter)->boot = *boot;
	return 0;
}

static inline void static_job_end(struct hvd_starter *starter, const struct hvd_ending *how)
{
	(void)starter;
	(void)how;
}

static inline void static_job_host_lost(struct hvd_starter *starter, const char *host)
{
	((struct static_job *)starter)->lost++;
	snprintf(((struct static_job *)starter)->lost_host, sizeof(((struct static_job *)starter)->lost_host), "%s",
		 host);
}

static inline void static_job_ranks_ended(struct hvd_starter *starter, const struct hvd_strv *without_munge)
{
	((struct static_job *)starter)->all_ended++;
	((struct static_job *)starter)->without_munge = without_munge;
}

/* -1 with err set. static_job_destroy() is due in any case. */
static inline int static_job_create(struct static_job *sj, struct event_base *base, struct hvd_driver_opts *opts,
				    struct hvd_session *session, const struct hvd_log *log, struct hvd_err *err)
{
	static const struct hvd_starter_ops starter_ops = {.start = static_job_start,
							   .end = static_job_end,
							   .host_lost = static_job_host_lost,
							   .ranks_ended = static_job_ranks_ended};

	*sj = (struct static_job){.starter = {.ops = &starter_ops, .judges_failures = true}};
	sj->policy = hvd_static_ranks_create(base);
	sj->ops = *sj->policy->ops;
	sj->own = sj->ops.agents;
	sj->agents = *sj->own;
	sj->agents.decided = static_job_decided;
	sj->agents.failed = static_job_failed;
	sj->agents.gone = static_job_gone;
	sj->agents.disconnected = static_job_disconnected;
	sj->agents.agent_died = static_job_agent_died;
	sj->ops.agents = &sj->agents;
	sj->policy->ops = &sj->ops;
	return hvd_job_create(&(struct hvd_job_opts){.base = base,
						     .driver = opts,
						     .session = session,
						     .starter = &sj->starter,
						     .policy = sj->policy,
						     .result = &sj->result,
						     .control = "unit",
						     .pid = getpid(),
						     .log = log},
			      err);
}

static inline void static_job_destroy(struct static_job *sj)
{
	if (!sj->policy)
		return;
	sj->policy->ops->destroy(sj->policy);
	hvd_job_destroy(sj->starter.job);
	hvd_requeue_clear(&sj->result.requeue);
	hvd_result_clear(&sj->result);
	sj->policy = NULL;
}

/* The last host whose agent's connection has ended before its ranks did; "": there was none. It may be lost. */
static inline const char *static_job_gone_host(const struct static_job *sj)
{
	hvd_time at;

	return hvd_job_watch_settled_host(sj->starter.job->watch, &at);
}

#endif
