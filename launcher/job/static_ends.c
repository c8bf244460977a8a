/* SPDX-License-Identifier: Apache-2.0 */
/* static_ends.c - what has ended in a static job, and what follows from a lost agent, see static_ends.h. */
#include "static_ends.h"

#include "job.h"
#include "launcher/hosts/host_table.h"
#include "lib/base/cleanup.h"
#include "lib/base/timer.h"
#include "lib/base/xalloc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A node agent that ends during the start may do so because the launch is being cancelled. So the start fails for this
 * reason only when nothing else has ended it after so long. */
#define LOST_SECONDS 1.0
/* srun may take so long to end after the processes of its step. */
#define ENDED_SECONDS 5
/* The same for a loss that a watchdog has reported: if all processes were being killed, the watchdog would have been
 * killed as well. */
#define DIED_SECONDS 1

static struct hvd_host_table *table_of(const struct hvd_static_ends *ends)
{
	return hvd_agent_registry_table(ends->policy->job->agents);
}

/* ---- ranks ---- */

void hvd_static_ends_begin(struct hvd_static_ends *ends, const struct hvd_layout *layout)
{
	ends->layout = layout;
	ends->n = ends->left = (uint32_t)layout->size;
	ends->ended = hvd_xcalloc(ends->n, sizeof(*ends->ended));
}

bool hvd_static_ends_add(struct hvd_static_ends *ends, uint32_t rank)
{
	if (rank >= ends->n || ends->ended[rank])
		return false;
	ends->ended[rank] = true;
	ends->left--;
	return true;
}

void hvd_static_ends_add_host(struct hvd_static_ends *ends, const char *host)
{
	for (uint32_t r = 0; r < ends->n; r++)
		if (strcmp(ends->layout->hosts[ends->layout->rank_slots[r].host].name, host) == 0)
			hvd_static_ends_add(ends, r);
}

bool hvd_static_ends_known(const struct hvd_static_ends *ends, uint32_t host, uint32_t rank)
{
	return rank < ends->n && ends->layout->rank_slots[rank].host == (int)host;
}

bool hvd_static_ends_take(struct hvd_static_ends *ends, uint32_t host, uint32_t rank, bool failed)
{
	if (!hvd_static_ends_known(ends, host, rank) || !hvd_static_ends_add(ends, rank))
		return false;
	table_of(ends)->hosts[host].ended++;
	ends->rank_failed |= failed;
	return true;
}

char *hvd_static_ends_hosts(const struct hvd_static_ends *ends, enum hvd_hosts_asked which)
{
	const struct hvd_layout *l = ends->layout;
	HVD_CLEANUP(hvd_strv_free) struct hvd_strv left = {0};
	bool any_over = false;

	for (int h = 0; (ends->left || which == HVD_HOSTS_ALL) && h < l->n_hosts; h++) {
		bool over = true;

		for (int i = 0; i < l->hosts[h].n; i++)
			over &= ends->ended[l->hosts[h].ranks[i]];
		any_over |= over && l->hosts[h].n > 0; /* a spare host has none */
		if (!over || which == HVD_HOSTS_ALL)
			hvd_strv_add(&left, l->hosts[h].name);
	}
	return left.n == 0 || (which == HVD_HOSTS_BEHIND && !any_over) ? NULL : hvd_strv_join(&left, ",");
}

void hvd_static_ends_without_munge(struct hvd_static_ends *ends, const char *host)
{
	for (size_t i = 0; i < ends->without_munge.n; i++)
		if (strcmp(ends->without_munge.v[i], host) == 0)
			return;
	hvd_strv_add(&ends->without_munge, host);
}

/* ---- hosts ---- */

/* Have the host's ranks ended, as far as is known? If an agent is lost without a report of its watchdog, its ranks have
 * ended with it. */
static bool over(const struct hvd_host_entry *host)
{
	return host->leaving >= HVD_LEAVING_LOST || host->node.n_ranks == 0 ||
	       (!host->client && host->leaving != HVD_LEAVING_AGENT_DIED);
}

bool hvd_static_ends_all(const struct hvd_static_ends *ends)
{
	const struct hvd_host_table *table = table_of(ends);

	for (uint32_t h = 0; h < table->n; h++)
		if (!over(&table->hosts[h]))
			return false;
	return true;
}

/* ---- agents that end before the plan ---- */

void hvd_static_ends_agent_gone(struct hvd_static_ends *ends, uint32_t host, const struct hvd_err *why)
{
	char buf[32];

	if (ends->start_failed || ends->lost_why.code)
		return;
	hvd_err_set(&ends->lost_why, HVD_E_FAILED, "its node agent ended before the start was complete%s%s",
		    why->code ? ": " : "", why->code ? why->msg : "");
	hvd_err_host(&ends->lost_why, hvd_host_table_name(table_of(ends), host, buf));
	hvd_timer_at(ends->lost, hvd_deadline_in(LOST_SECONDS));
}

/* Where some hosts have never registered, and the agents of all others have ended, these were ended, as srun, scancel or
 * an MPI do where they cannot start all; then the others are what has failed. Of a single agent nobody can tell. */
static void on_lost(void *arg)
{
	struct hvd_static_ends *ends = arg;
	const struct hvd_job *job = ends->policy->job;
	const struct hvd_host_table *table = table_of(ends);
	const uint32_t coming = table->in_stage[HVD_STAGE_COMING];
	hvd_cleanup_free char *missing = hvd_host_table_missing(table);
	struct hvd_err why = ends->lost_why;

	if (coming > 0 && table->n - coming > 1 && !hvd_job_connected(job)) {
		hvd_err_set(&why, HVD_E_FAILED, "%s, and the node agents of all other hosts have ended", missing);
		hvd_agent_registry_missing_hint(job->agents, &why);
	} else if (coming > 0) {
		hvd_err_set(&why, HVD_E_FAILED, "%s; there was %s", ends->lost_why.msg, missing);
		hvd_err_host(&why, ends->lost_why.host);
	}
	hvd_agent_registry_fail(job->agents, &why);
}

void hvd_static_ends_start_failed(struct hvd_static_ends *ends)
{
	ends->start_failed = true;
	hvd_timer_stop(ends->lost);
}

/* ---- agents that end before the ranks ---- */

static void add_loss(struct hvd_static_ends *ends, const struct hvd_loss *loss, char *expected)
{
	if (hvd_timer_runs(ends->judge)) {
		free(expected);
		if (ends->loss.of != loss->of || strcmp(ends->host, loss->host) != 0)
			return;
	} else {
		free(ends->expected);
		ends->expected = expected;
		snprintf(ends->host, sizeof(ends->host), "%s", loss->host);
	}
	ends->loss = *loss;
	ends->loss.host = ends->host;
	hvd_timer_at(ends->judge, hvd_deadline_in(loss->status < 0 ? ENDED_SECONDS : DIED_SECONDS));
}

void hvd_static_ends_agent_died(struct hvd_static_ends *ends, uint32_t host, const struct hvd_loss *loss)
{
	if (ends->layout && !ends->start_failed) {
		add_loss(ends, loss, hvd_world_cannot_init(hvd_job_world(ends->policy->job), host));
	} else if (!ends->layout && ends->lost_why.code) {
		hvd_cleanup_free char *text = hvd_loss_text(loss);

		hvd_err_set(&ends->lost_why, HVD_E_FAILED, "%s", text);
		hvd_err_host(&ends->lost_why, loss->host);
	}
}

static void on_judge(void *arg)
{
	struct hvd_static_ends *ends = arg;
	const struct hvd_job *job = ends->policy->job;
	hvd_cleanup_free char *text = hvd_loss_text(&ends->loss);
	struct hvd_err why = {0};

	/* After a rank has failed, the step was probably ended, which may take longer on other hosts. */
	if (!ends->expected || ends->rank_failed) {
		hvd_log(job->log, ends->rank_failed ? HVD_LOG_VERBOSE : HVD_LOG_WARN, "%s: %s; %s", ends->host, text,
			hvd_loss_outlook(&ends->loss));
		return;
	}
	hvd_err_set(&why, HVD_E_FAILED, "%s; %s and cannot rendezvous any longer; ending the launch", text,
		    ends->expected);
	hvd_err_hint(&why, "%s", HVD_LOSS_HINT);
	hvd_err_host(&why, ends->host);
	hvd_agent_registry_fail(job->agents, &why);
}

/* ---- life ---- */

void hvd_static_ends_init(struct hvd_static_ends *ends, const struct hvd_job_policy *policy, struct event_base *base)
{
	ends->policy = policy;
	ends->lost = hvd_timer_new(base, on_lost, ends);
	ends->judge = hvd_timer_new(base, on_judge, ends);
}

void hvd_static_ends_clear(struct hvd_static_ends *ends)
{
	hvd_timer_free(ends->lost);
	hvd_timer_free(ends->judge);
	free(ends->expected);
	free(ends->ended);
	hvd_strv_free(&ends->without_munge);
	*ends = (struct hvd_static_ends){0};
}
