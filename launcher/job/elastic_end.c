/* SPDX-License-Identifier: Apache-2.0 */
/* elastic_end.c - how an elastic job ends. */
#include "elastic_internal.h"

#include "launcher/scheduler/scheduler.h"
#include "lib/base/cleanup.h"
#include "requeue.h"

#include <signal.h>

/* Spare hosts: no output of theirs may be missing. */
static void end_idle(struct elastic *el)
{
	hvd_cleanup_free bool *busy = hvd_machine_busy_hosts(el->machine);

	for (uint32_t h = 0; h < hvd_machine_n_hosts(el->machine); h++)
		if (!busy[h])
			hvd_procs_idle(el->job.procs, h);
}

void hvd_elastic_end(void *elastic)
{
	struct elastic *el = elastic;

	hvd_failure_report_ending(hvd_failures_now(&el->failures), hvd_now());
	hvd_event(el->job.opts->events, LAUNCH_ENDING, .index = 0);
	hvd_agent_registry_end(el->agents);
	if (hvd_procs_ending(el->job.procs)) {
		hvd_procs_signal(el->job.procs, SIGTERM);
	} else {
		hvd_procs_end(el->job.procs, (int)el->job.opts->kill_wait + HVD_UNKILLABLE_TOLD_SECONDS);
		end_idle(el);
		hvd_stuck_procs_ending(&el->stuck);
	}
	if (el->job.result->ended_by)
		hvd_procs_drop_output(el->job.procs);
	hvd_discovery_destroy(el->discovery);
	el->discovery = NULL;
	hvd_event_queue_stop(el->events);
	if (hvd_procs_running(el->job.procs) == 0)
		hvd_frontend_stop(&el->job);
}

/* If the job is requeued, hosts of other jobs are no matter of it. */
void hvd_elastic_host_bad(uint32_t host, const char *why, void *elastic)
{
	struct elastic *el = elastic;
	const uint32_t job = hvd_machine_slurm_job(el->machine, host);

	if (!job || job == hvd_batch_job_of(el->job.launch->spec, 0).number)
		hvd_requeue_avoid(&el->job.result->requeue, hvd_machine_host(el->machine, host), why);
}

/* Too few hosts are left. */
static void want_other_hosts(struct elastic *el)
{
	for (uint32_t h = 0; h < hvd_machine_n_hosts(el->machine); h++)
		if (hvd_machine_lost(el->machine, h))
			hvd_elastic_host_bad(h, "it was lost", el);
	hvd_requeue_want(&el->job.result->requeue, el->job.launch->spec, HVD_REQUEUE_NODE, NULL);
}

void hvd_elastic_finish(const struct hvd_err *why, int status, void *elastic)
{
	struct elastic *el = elastic;

	if (hvd_procs_ending(el->job.procs))
		return;
	if (why->code)
		hvd_log_err(el->job.log, why);
	el->failed = why->code == HVD_E_FAILED;
	if (hvd_machine_too_few(el->machine))
		want_other_hosts(el);
	el->job.result->status = status;
	el->job.result->limit_met = why->code == HVD_E_LIMIT;
	hvd_elastic_end(el);
}

void hvd_elastic_failed(const struct hvd_err *why, void *elastic)
{
	hvd_elastic_finish(why, hvd_err_status(why), elastic);
}

void hvd_elastic_terminated(void *elastic)
{
	struct elastic *el = elastic;

	if (el->of_job && !hvd_procs_ending(el->job.procs))
		el->asking = hvd_job_watch_ask(el->watch);
}
