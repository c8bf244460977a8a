/* SPDX-License-Identifier: Apache-2.0 */
/* job_states.c - what may happen in a job when, and what is done then. */
#include "job.h"

#include "launcher/hosts/host_table.h"

/* The state that follows an event in a state. The same state again is entered again. */
/* clang-format off */
#define STARTING HVD_JOB_STARTING
#define RUNNING  HVD_JOB_RUNNING
#define FAILED   HVD_JOB_FAILED
#define ENDING   HVD_JOB_ENDING
#define LAST     HVD_JOB_LAST
#define OVER     HVD_JOB_OVER
static const enum hvd_job_state next_state[HVD_JOB_N_EVENTS][HVD_JOB_N_STATES] = {
	[HVD_JOB_STARTED]      = {[STARTING] = RUNNING},
	[HVD_JOB_START_FAILED] = {[STARTING] = FAILED, [RUNNING] = FAILED},
	[HVD_JOB_CANNOT_GO_ON] = {[STARTING] = ENDING, [RUNNING] = ENDING, [FAILED] = ENDING},
	[HVD_JOB_INTERRUPTED]  = {[STARTING] = ENDING, [RUNNING] = ENDING, [FAILED] = ENDING, [ENDING] = ENDING},
	[HVD_JOB_GRACE_OVER]   = {                     [RUNNING] = ENDING, [FAILED] = ENDING},
	[HVD_JOB_STARTER_GONE] = {[STARTING] = LAST,   [RUNNING] = LAST,   [FAILED] = LAST,   [ENDING] = LAST},
	[HVD_JOB_AGENTS_LEFT]  = {                                                                            [LAST] = OVER},
};
/* clang-format on */

bool hvd_job_connected(const struct hvd_job *job)
{
	const struct hvd_host_table *table = hvd_agent_registry_table(job->agents);

	for (uint32_t h = 0; !job->policy->hosts_change && h < table->n; h++)
		if (table->hosts[h].client)
			return true;
	return false;
}

static void enter_running(struct hvd_job *job)
{
	hvd_job_watch_started(job->watch);
	job->result->started = true;
	job->result->start_seconds = hvd_result_seconds(job->result);
}

static void enter_failed(struct hvd_job *job)
{
	int seconds = job->result->started ? job->starter->failed_later_seconds : job->starter->failed_seconds;

	if (seconds > 0)
		hvd_timer_in_ms(job->grace, seconds * 1000);
	else
		hvd_job_handle(job, HVD_JOB_GRACE_OVER);
}

/* Can the agents be told to end their ranks? Before the plan there may be agents that the driver does not know. Where
 * hosts come and go, these are told later. */
static bool all_known(const struct hvd_job *job, enum hvd_job_event event)
{
	return job->policy->hosts_change || (!job->failed && (event != HVD_JOB_INTERRUPTED || job->result->started));
}

static void enter_ending(struct hvd_job *job, enum hvd_job_state from, enum hvd_job_event event)
{
	const bool known = all_known(job, event), again = from == ENDING;
	struct hvd_ending how = {.again = again,
				 .no_ranks = job->ranks_ended,
				 .agents = job->starter->agents_end_ranks && known &&
					   !(again && job->policy->hosts_change),
				 .had_time = from == FAILED && event == HVD_JOB_GRACE_OVER && !job->result->started};

	if (event == HVD_JOB_INTERRUPTED && !known)
		job->failed = true;
	job->ending = true;
	hvd_event(job->events, LAUNCH_ENDING, .index = 0);
	for (unsigned w = 0; w < job->n_worlds; w++)
		hvd_failure_report_ending(hvd_failures_now(&job->failures[w]), hvd_now());
	hvd_timer_stop(job->grace);
	if (job->starter->agents_end_ranks)
		job->policy->ops->end(job->policy);
	job->starter->ops->end(job->starter, &how);
}

/* Ends of ranks that were reported last may not have been read yet. srun may have ended with the tasks that Slurm has
 * ended since it has given up a host. */
static void enter_last(struct hvd_job *job)
{
	struct hvd_starter *starter = job->starter;
	bool unexplained = starter->ops->unexplained && starter->ops->unexplained(starter, false);
	bool more = job->result->rank_failed || unexplained ||
		    (starter->judges_failures && !job->failed &&
		     hvd_failure_report_any(hvd_failures_now(&job->failures[0])));

	if (unexplained)
		hvd_job_watch_ask_slurm(job->watch);
	if (more && hvd_job_connected(job))
		hvd_timer_in_ms(job->last, starter->last_ms);
	else
		hvd_job_handle(job, HVD_JOB_AGENTS_LEFT);
}

static void enter_over(struct hvd_job *job)
{
	if (job->starter->ops->unexplained)
		job->starter->ops->unexplained(job->starter, true);
	event_base_loopbreak(job->opts.base);
}

static void enter(struct hvd_job *job, enum hvd_job_state state, enum hvd_job_event event)
{
	enum hvd_job_state from = job->state;

	job->state = state;
	switch (state) {
	case RUNNING:
		enter_running(job);
		break;
	case FAILED:
		enter_failed(job);
		break;
	case ENDING:
		enter_ending(job, from, event);
		break;
	case LAST:
		enter_last(job);
		break;
	case OVER:
		enter_over(job);
		break;
	default:
		break;
	}
}

bool hvd_job_handles(const struct hvd_job *job, enum hvd_job_event event)
{
	/* Where hosts come and go the starter may have nothing to do for a while. */
	if (event == HVD_JOB_STARTER_GONE && job->policy->hosts_change && !job->ending)
		return false;
	return next_state[event][job->state] != HVD_JOB_IGNORED;
}

void hvd_job_handle(struct hvd_job *job, enum hvd_job_event event)
{
	if (hvd_job_handles(job, event))
		enter(job, next_state[event][job->state], event);
}

void hvd_job_fail(struct hvd_job *job, const struct hvd_err *why)
{
	if (job->ending)
		return;
	if (!job->failed && !job->result->rank_failed) {
		if (why)
			hvd_log_err(job->log, why);
		job->result->status = 1;
		job->failed = true;
	}
	hvd_job_handle(job, HVD_JOB_CANNOT_GO_ON);
}

void hvd_job_start_failed(const struct hvd_err *why, void *arg)
{
	struct hvd_job *job = arg;

	if (!hvd_job_handles(job, HVD_JOB_START_FAILED))
		return;
	job->failed = true;
	job->result->status = hvd_err_status(why);
	hvd_log_err(job->log, why);
	hvd_job_handle(job, HVD_JOB_START_FAILED);
}

void hvd_job_end(struct hvd_job *job, const struct hvd_err *why, int status)
{
	if (job->ending)
		return;
	if (why->code)
		hvd_log_err(job->log, why);
	job->ranks_failed |= why->code == HVD_E_FAILED;
	job->result->status = status;
	job->result->limit_met = why->code == HVD_E_LIMIT;
	hvd_job_handle(job, HVD_JOB_CANNOT_GO_ON);
}
