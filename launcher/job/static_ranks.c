/* SPDX-License-Identifier: Apache-2.0 */
#include "static_ranks.h"

#include "job.h"
#include "launcher/start/procs.h"
#include "launcher/world/driver.h"
#include "lib/base/cleanup.h"
#include "lib/base/strv.h"
#include "lib/base/xalloc.h"

#include <stdlib.h>

struct static_ranks {
	struct hvd_job_policy policy; /* first, so that a pointer to it is one to all */
	struct hvd_driver *driver;
	bool unconfirmed; /* an agent has not reported the end of its ranks, but its connection had just ended */
};

static struct hvd_driver *driver_of(const struct hvd_job_policy *policy)
{
	return ((const struct static_ranks *)policy)->driver;
}

/* ---- the start ---- */

/* The job goes on without the host. An agent that has registered is told to end; a process that may still be on its way
 * to the host is not waited for. */
static void on_host_left_out(uint32_t host, void *arg)
{
	const struct hvd_starter *starter = ((struct hvd_job *)arg)->starter;

	if (starter->agents_start_ranks)
		hvd_procs_release(starter->procs, host, true);
}

/* Hosts that were left out have no ranks, and the last of the others may have fewer than slots. */
static void count_ranks(const struct hvd_starter *starter, const struct hvd_layout *layout)
{
	for (int h = 0; starter->agents_start_ranks && h < layout->n_hosts; h++)
		if (layout->hosts[h].n > 0)
			hvd_procs_set_ranks(starter->procs, (uint32_t)h, layout->hosts[h].n);
}

/* Outside of a job srun makes one of its own, whose number the agents know. */
static void find_job(const struct hvd_driver *driver, struct hvd_result *result)
{
	const uint32_t job = hvd_driver_slurm_job(driver);

	if (job)
		result->job = job;
}

static void on_planned(void *arg)
{
	struct hvd_job *job = arg;
	const struct hvd_layout *layout = hvd_driver_layout(driver_of(job->policy));

	if (!hvd_job_handles(job, HVD_JOB_STARTED))
		return;
	find_job(driver_of(job->policy), job->result);
	if (job->spec->spares > 0)
		count_ranks(job->starter, layout);
	hvd_job_handle(job, HVD_JOB_STARTED);
	hvd_job_generation(job, 1, 0, layout);
}

static bool proc_lost(struct hvd_job_policy *policy, uint32_t host, const struct hvd_err *why)
{
	struct hvd_job *job = policy->job;

	if (job->ending)
		return false;
	if (!job->result->started) {
		if (hvd_driver_leave_out(driver_of(policy), host, why))
			return true;
		hvd_driver_give_up(driver_of(policy), why);
		return false;
	}
	hvd_log_err(job->log, why);
	if (job->result->status == 0)
		job->result->status = 1;
	if (!job->spec->keep_going)
		hvd_job_handle(job, HVD_JOB_CANNOT_GO_ON);
	return false;
}

/* ---- ranks ---- */

static void on_rank_exit(const struct hvd_rank_end *end, const char *host, void *arg)
{
	hvd_job_rank_ended(arg, end, end->rank, host, false);
}

static void on_unkillable(uint32_t rank, const char *host, const struct hvd_unkillable *what, void *arg)
{
	hvd_job_watch_unkillable(((struct hvd_job *)arg)->watch, what, (int)rank, host);
}

static void on_ranks_ended(const struct hvd_strv *without_munge, void *arg)
{
	struct hvd_job *job = arg;

	if (!job->starter->ops->ranks_ended)
		return;
	job->ranks_ended = true;
	((struct static_ranks *)job->policy)->unconfirmed = hvd_job_watch_settle(job->watch);
	job->starter->ops->ranks_ended(job->starter, without_munge);
}

/* ---- hosts ---- */

static void lose(struct hvd_job *job, const char *host, const struct hvd_err *why)
{
	if (job->starter->ops->host_lost)
		job->starter->ops->host_lost(job->starter, host);
	hvd_job_fail(job, why);
}

/* srun may wait for ever for the tasks of such a host. */
static void host_lost(struct hvd_job_policy *policy, const char *host, const char *how)
{
	struct hvd_job *job = policy->job;
	const struct hvd_starter *starter = job->starter;
	bool leave = starter->judges_failures && job->spec->lost_host == HVD_LOST_HOST_SLURM &&
		     !hvd_requeue_wanted(&job->result->requeue, HVD_REQUEUE_NODE);
	struct hvd_err why = {0};

	if (hvd_job_is_over(job))
		return;
	if (*how && job->ranks_ended && job->result->rank_failed && !job->ending)
		hvd_warn(job->log, "%s%s, and srun still waits; ending it", host, how);
	hvd_job_watch_lost_error(&why, host, how,
				 leave                      ? "leaving the step to Slurm (lost-host: slurm)"
				 : starter->judges_failures ? "ending the step"
							    : "ending the job",
				 starter->ask_slurm);
	hvd_event(job->events, HOST_LOST, .index = UINT32_MAX, .host = host, .why = why.msg);
	if (leave) {
		if (!job->ending)
			hvd_log_err(job->log, &why);
		return;
	}
	lose(job, host, &why);
	hvd_driver_lose_host(driver_of(policy), host);
}

/* A host's connection has ended before its ranks did; its agent may have said why. */
static void on_host_gone(const char *host, const struct hvd_err *why, void *arg)
{
	struct hvd_job *job = arg;
	struct hvd_err full = {0};

	if (why->code != HVD_E_FAILED) {
		hvd_job_watch_host_gone(job->watch, host, why);
		return;
	}
	hvd_err_set(&full, HVD_E_FAILED, "%s; ending the job", why->msg);
	hvd_err_hint(&full, "%s", why->hint);
	hvd_err_host(&full, host);
	lose(job, host, &full);
}

static void on_process_lost(const struct hvd_loss *loss, void *arg)
{
	struct hvd_job *job = arg;

	if (job->ending || job->ends_expected)
		return;
	hvd_failure_report_lost(hvd_failures_now(&job->failures), loss);
	if (hvd_job_watch_process_lost(job->watch, loss))
		((struct static_ranks *)job->policy)->unconfirmed = false;
}

bool hvd_static_ranks_lose_unconfirmed(struct hvd_job_policy *policy, const char *starter)
{
	struct hvd_job *job = policy->job;
	struct hvd_loss loss = {.of = HVD_LOSS_HOST, .status = -1};

	if (!((struct static_ranks *)policy)->unconfirmed) {
		hvd_job_watch_ask_of_all(job->watch);
		return false;
	}
	loss.host = hvd_job_watch_settled_host(job->watch, &loss.at);
	hvd_warn(job->log, "%s: the connection to its node agent was lost, and %s still waits; ending it", loss.host,
		 starter);
	hvd_failure_report_lost(hvd_failures_now(&job->failures), &loss);
	hvd_job_watch_lose(job->watch);
	return true;
}

/* ---- what the job asks, and wants done ---- */

static void end(struct hvd_job_policy *policy)
{
	hvd_driver_end_ranks(driver_of(policy));
}

static void signal_ranks(struct hvd_job_policy *policy, int sig)
{
	hvd_driver_signal_ranks(driver_of(policy), sig);
}

static bool connected(const struct hvd_job_policy *policy)
{
	return hvd_driver_connected(driver_of(policy));
}

static const struct hvd_layout *layout(const struct hvd_job_policy *policy)
{
	return hvd_driver_layout(driver_of(policy));
}

static char *hosts(const struct hvd_job_policy *policy, enum hvd_hosts_asked which)
{
	const struct hvd_layout *layout = hvd_driver_layout(driver_of(policy));
	HVD_CLEANUP(hvd_strv_free) struct hvd_strv names = {0};

	if (which == HVD_HOSTS_BEHIND)
		return hvd_driver_hosts_behind(driver_of(policy));
	if (which == HVD_HOSTS_LEFT)
		return hvd_driver_hosts_left(driver_of(policy));
	for (int h = 0; h < layout->n_hosts; h++)
		hvd_strv_add(&names, layout->hosts[h].name);
	return hvd_strv_join(&names, ",");
}

static void finish(struct hvd_job_policy *policy, struct hvd_result *result)
{
	find_job(driver_of(policy), result);
	policy->output_lost = hvd_driver_output_lost(driver_of(policy));
}

char *hvd_static_ranks_unregistered(const struct hvd_job_policy *policy)
{
	return hvd_driver_unregistered(driver_of(policy));
}

/* ---- life ---- */

static void on_all_left(void *arg)
{
	hvd_job_handle(arg, HVD_JOB_AGENTS_LEFT);
}

static int open_driver(struct hvd_job_policy *policy, struct hvd_boot *boot, struct hvd_stacks **stacks,
		       struct hvd_err *err)
{
	static const struct hvd_driver_ops ops = {.started = on_planned,
						  .failed = hvd_job_start_failed,
						  .rank_exit = on_rank_exit,
						  .unkillable = on_unkillable,
						  .host_gone = on_host_gone,
						  .host_registered = hvd_job_host_registered,
						  .rendezvous_opened = hvd_job_serve_func,
						  .ranks_ended = on_ranks_ended,
						  .all_left = on_all_left,
						  .stalled = hvd_job_stalled,
						  .told_to_end = hvd_job_terminated,
						  .host_left_out = on_host_left_out,
						  .process_lost = on_process_lost};
	const struct hvd_job_opts *opts = &policy->job->opts;
	struct static_ranks *ranks = (struct static_ranks *)policy;

	ranks->driver = hvd_driver_create(opts->base, opts->driver, opts->session, &ops, policy->job, opts->log, err);
	if (!ranks->driver)
		return -1;
	hvd_driver_boot(ranks->driver, boot);
	*stacks = hvd_driver_stacks(ranks->driver);
	return 0;
}

static void destroy(struct hvd_job_policy *policy)
{
	hvd_driver_destroy(driver_of(policy));
	free(policy);
}

struct hvd_job_policy *hvd_static_ranks_create(void)
{
	static const struct hvd_job_policy_ops ops = {.open = open_driver,
						      .end = end,
						      .signal = signal_ranks,
						      .host_lost = host_lost,
						      .hosts = hosts,
						      .connected = connected,
						      .layout = layout,
						      .finish = finish,
						      .proc_lost = proc_lost,
						      .destroy = destroy};
	struct static_ranks *ranks = hvd_xcalloc(1, sizeof(*ranks));

	ranks->policy.ops = &ops;
	return &ranks->policy;
}
