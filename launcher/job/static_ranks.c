/* SPDX-License-Identifier: Apache-2.0 */
#include "static_ranks.h"

#include "job.h"
#include "launcher/hosts/host_table.h"
#include "launcher/start/procs.h"
#include "lib/base/xalloc.h"
#include "static_ends.h"

#include <stdlib.h>
#include <string.h>

struct static_ranks {
	struct hvd_job_policy policy; /* first, so that a pointer to it is one to all */
	struct hvd_static_ends ends;
	bool unconfirmed; /* an agent has not reported the end of its ranks, but its connection had just ended */
};

static struct static_ranks *ranks_of(const struct hvd_job *job)
{
	return (struct static_ranks *)job->policy;
}

static struct hvd_host_table *table_of(const struct hvd_job *job)
{
	return hvd_agent_registry_table(job->agents);
}

static struct hvd_host_entry *entry_of(const struct hvd_job *job, uint32_t host)
{
	return &table_of(job)->hosts[host];
}

/* NULL: there is no plan. */
static const struct hvd_layout *layout(const struct hvd_job_policy *policy)
{
	return ranks_of(policy->job)->ends.layout;
}

/* ---- the start ---- */

/* The job goes on without the host. An agent that has registered is told to end; a process that may still be on its way
 * to the host is not waited for. */
static void on_left_out(uint32_t host, void *arg)
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
static void find_job(const struct hvd_job *job)
{
	const struct hvd_host_table *table = table_of(job);

	for (uint32_t h = 0; h < table->n; h++)
		if (table->hosts[h].node.job) {
			job->result->job = table->hosts[h].node.job;
			return;
		}
}

static void on_decided(void *arg)
{
	struct hvd_job *job = arg;
	const struct hvd_layout *layout = hvd_world_layout(hvd_job_world(job));

	hvd_static_ends_begin(&ranks_of(job)->ends, layout);
	hvd_world_begin(hvd_job_world(job));
	hvd_verbose(job->log, "all %d ranks have their plan after %.3f s", layout->size,
		    hvd_result_seconds(job->result));
	if (!hvd_job_handles(job, HVD_JOB_STARTED))
		return;
	find_job(job);
	if (job->spec->spares > 0)
		count_ranks(job->starter, layout);
	hvd_job_handle(job, HVD_JOB_STARTED);
	hvd_job_generation(job, 0, 1, 0, layout);
}

static void on_failed(const struct hvd_err *why, void *arg)
{
	hvd_static_ends_start_failed(&ranks_of(arg)->ends);
	hvd_job_start_failed(why, arg);
}

static bool proc_lost(struct hvd_job_policy *policy, uint32_t host, const struct hvd_err *why)
{
	struct hvd_job *job = policy->job;

	if (job->ending)
		return false;
	if (!job->result->started) {
		if (hvd_agent_registry_leave_out(job->agents, host, why))
			return true;
		hvd_agent_registry_fail(job->agents, why);
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

/* A host's ranks have ended, or its agent has gone. */
static void maybe_all_ended(struct hvd_job *job)
{
	struct static_ranks *ranks = ranks_of(job);

	if (!job->starter->ops->ranks_ended || job->ranks_ended || job->opts.driver->mode == HVD_START_HOSTS ||
	    !hvd_static_ends_all(&ranks->ends))
		return;
	job->ranks_ended = true;
	ranks->unconfirmed = hvd_job_watch_settle(job->watch);
	job->starter->ops->ranks_ended(job->starter, &ranks->ends.without_munge);
}

/* A rank that the scheduler has ended with all others is not the cause of the job's end; the scheduler says why. */
static void on_ended(uint32_t host, const struct hvd_rank_end *end, void *arg)
{
	struct hvd_job *job = arg;

	if (hvd_static_ends_take(&ranks_of(job)->ends, host, end->rank, end->status != 0) &&
	    !(end->cause == HVD_END_WITH_ALL && job->opts.driver->mode == HVD_START_RANKS))
		hvd_job_rank_ended(job, 0, end, end->rank, entry_of(job, host)->node.name, false);
}

static void on_unkillable(uint32_t host, uint32_t id, uint32_t rank, const struct hvd_unkillable *what, void *arg)
{
	struct hvd_job *job = arg;

	if (hvd_static_ends_known(&ranks_of(job)->ends, host, id))
		hvd_job_watch_unkillable(job->watch, what, NULL, (int)rank, entry_of(job, host)->node.name);
}

static void on_done(uint32_t host, bool munge, bool told, void *arg)
{
	struct hvd_job *job = arg;

	if (told) /* a spare host's agent */
		return;
	if (!munge)
		hvd_static_ends_without_munge(&ranks_of(job)->ends, entry_of(job, host)->node.name);
	maybe_all_ended(job);
}

/* Before the plan there are no ranks that could get a signal with their agent. */
static void on_told_to_end(void *arg)
{
	if (layout(((struct hvd_job *)arg)->policy))
		hvd_job_terminated(arg);
}

/* ---- processes of the launch that end before the ranks ---- */

static void process_lost(struct hvd_job *job, const struct hvd_loss *loss)
{
	if (job->ending || job->ends_expected)
		return;
	hvd_failure_report_lost(hvd_failures_now(&job->failures[0]), loss);
	if (hvd_job_watch_process_lost(job->watch, loss))
		ranks_of(job)->unconfirmed = false;
}

static void on_agent_died(uint32_t host, const struct hvd_loss *loss, void *arg)
{
	struct hvd_job *job = arg;

	if (layout(job->policy))
		process_lost(job, loss);
	hvd_static_ends_agent_died(&ranks_of(job)->ends, host, loss);
}

/* A rank shim has ended without a word, and its rank with it, which the backend sees. */
static void on_shim_lost(uint32_t host, uint32_t rank, void *arg)
{
	struct hvd_job *job = arg;
	struct hvd_loss loss = {.of = HVD_LOSS_SHIM,
				.rank = rank,
				.host = entry_of(job, host)->node.name,
				.status = -1,
				.at = hvd_now()};

	if (hvd_static_ends_take(&ranks_of(job)->ends, host, rank, false))
		process_lost(job, &loss);
}

/* ---- hosts ---- */

static void lose(struct hvd_job *job, const char *host, const struct hvd_err *why)
{
	if (job->starter->ops->host_lost)
		job->starter->ops->host_lost(job->starter, host);
	hvd_job_fail(job, why);
}

/* All ranks of the host count as ended. */
static void end_host(struct hvd_job *job, const char *name)
{
	const struct hvd_host_table *table = table_of(job);

	for (uint32_t h = 0; h < table->n; h++)
		if (table->hosts[h].node.name && strcmp(table->hosts[h].node.name, name) == 0 &&
		    table->hosts[h].leaving < HVD_LEAVING_LOST)
			table->hosts[h].leaving = HVD_LEAVING_LOST;
	hvd_static_ends_add_host(&ranks_of(job)->ends, name);
	maybe_all_ended(job);
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
	end_host(job, host);
}

/* A host's connection has ended before its ranks did; its agent may have said why. */
static void on_gone(uint32_t host, const struct hvd_err *why, bool unfit, void *arg)
{
	struct hvd_job *job = arg;
	struct hvd_err full = {0};
	char buf[32];
	const char *name = hvd_host_table_name(table_of(job), host, buf);

	(void)unfit;
	if (why->code != HVD_E_FAILED) {
		hvd_job_watch_host_gone(job->watch, name, why);
		return;
	}
	hvd_err_set(&full, HVD_E_FAILED, "%s; ending the job", why->msg);
	hvd_err_hint(&full, "%s", why->hint);
	hvd_err_host(&full, name);
	lose(job, name, &full);
}

/* After the plan the connection of a host's agent has ended. */
static void gone_later(struct hvd_job *job, uint32_t index, const struct hvd_err *why)
{
	const struct hvd_host_entry *host = entry_of(job, index);
	struct hvd_loss loss = {.of = job->opts.driver->mode == HVD_START_HOSTS ? HVD_LOSS_SPAWNER : HVD_LOSS_AGENT,
				.host = host->node.name,
				.status = -1,
				.at = hvd_now()};

	if (host->ended >= host->node.n_ranks) {
		/* Its process may have output to pass on, if the host is there. */
		if (why->code == HVD_E_TIMEOUT)
			on_left_out(index, job);
	} else if (host->leaving < HVD_LEAVING_LOST) {
		if (why->code != HVD_E_TIMEOUT)
			process_lost(job, &loss);
		on_gone(index, why, false, job);
	}
	maybe_all_ended(job);
}

static void on_disconnected(struct hvd_client *cl, const struct hvd_err *why, void *arg)
{
	struct hvd_job *job = arg;

	if (cl->role != HVD_ROLE_AGENT)
		return;
	if (layout(job->policy))
		gone_later(job, cl->host, why);
	else
		hvd_static_ends_agent_gone(&ranks_of(job)->ends, cl->host, why);
	if (!hvd_job_connected(job))
		hvd_job_handle(job, HVD_JOB_AGENTS_LEFT);
}

bool hvd_static_ranks_lose_unconfirmed(struct hvd_job_policy *policy, const char *starter)
{
	struct hvd_job *job = policy->job;
	struct hvd_loss loss = {.of = HVD_LOSS_HOST, .status = -1};

	if (!ranks_of(job)->unconfirmed) {
		hvd_job_watch_ask_of_all(job->watch);
		return false;
	}
	loss.host = hvd_job_watch_settled_host(job->watch, &loss.at);
	hvd_warn(job->log, "%s: the connection to its node agent was lost, and %s still waits; ending it", loss.host,
		 starter);
	hvd_failure_report_lost(hvd_failures_now(&job->failures[0]), &loss);
	hvd_job_watch_lose(job->watch);
	return true;
}

/* ---- what the job asks, and wants done ---- */

static void end(struct hvd_job_policy *policy)
{
	hvd_agent_registry_end_ranks(policy->job->agents);
}

static char *hosts(const struct hvd_job_policy *policy, enum hvd_hosts_asked which)
{
	return hvd_static_ends_hosts(&ranks_of(policy->job)->ends, which);
}

static void finish(struct hvd_job_policy *policy)
{
	find_job(policy->job);
}

char *hvd_static_ranks_unregistered(const struct hvd_job_policy *policy)
{
	const struct hvd_host_table *table = table_of(policy->job);

	return layout(policy) || (table->n && !table->in_stage[HVD_STAGE_COMING]) ? NULL
										  : hvd_host_table_missing(table);
}

bool hvd_static_ranks_agent_gone(const struct hvd_job_policy *policy)
{
	return !layout(policy) && ranks_of(policy->job)->ends.lost_why.code;
}

/* ---- life ---- */

static void destroy(struct hvd_job_policy *policy)
{
	struct static_ranks *ranks = (struct static_ranks *)policy;

	hvd_static_ends_clear(&ranks->ends);
	free(ranks);
}

static const struct hvd_agent_registry_ops agents_ops = {
	.registered = hvd_job_host_registered,
	.left_out = on_left_out,
	.decided = on_decided,
	.disconnected = on_disconnected,
	.gone = on_gone,
	.done = on_done,
	.agent_died = on_agent_died,
	.failed = on_failed,
	.told_to_end = on_told_to_end,
};

static void on_stalled(const struct hvd_stall *stall, void *arg)
{
	hvd_job_stalled(arg, 0, stall);
}

static void on_init_failed(const struct hvd_err *why, void *arg)
{
	hvd_agent_registry_fail(((struct hvd_job *)arg)->agents, why);
}

static const struct hvd_world_ops world_ops = {
	.opened = hvd_job_serve_func,
	.ended = on_ended,
	.shim_lost = on_shim_lost,
	.unkillable = on_unkillable,
	.output_lost = hvd_job_output_lost,
	.stalled = on_stalled,
	.init_failed = on_init_failed,
};

static int open_world(struct hvd_job_policy *policy, struct hvd_err *err)
{
	return hvd_job_add_world(policy->job, policy->job->opts.driver, &world_ops, policy->job, err) ? 0 : -1;
}

struct hvd_job_policy *hvd_static_ranks_create(struct event_base *base)
{
	static const struct hvd_job_policy_ops ops = {.agents = &agents_ops,
						      .open = open_world,
						      .end = end,
						      .host_lost = host_lost,
						      .hosts = hosts,
						      .layout = layout,
						      .finish = finish,
						      .proc_lost = proc_lost,
						      .destroy = destroy};
	struct static_ranks *ranks = hvd_xcalloc(1, sizeof(*ranks));

	ranks->policy.ops = &ops;
	hvd_static_ends_init(&ranks->ends, &ranks->policy, base);
	return &ranks->policy;
}
