/* SPDX-License-Identifier: Apache-2.0 */
/*
 * spares.c - a job of fixed size that has more hosts than it needs (--spares): which hosts are left out, before the
 * plan.
 *
 * A bad host is left out: its agent does not come in time; it cannot do its part; it does not reach the others; or
 * --preflight rejects it. When all remaining hosts are good, the worst of them are left out until as many hosts remain
 * as the job needs. Then the ranks of the remaining hosts are numbered anew, in their old order. If more hosts are bad
 * than there are spares, the start fails, with the list.
 *
 * A host that was left out is AWAY in the host table, and has no ranks in the layout. Its processes get
 *   {"t":"plan", "spare":true}
 * and end with status 0. The other hosts' plans have "numbers":[RANK,…], the host's ranks by local rank, and "size":N.
 */
#include "agent_registry_internal.h"

#include "lib/base/cleanup.h"
#include "lib/base/timer.h"
#include "lib/base/xalloc.h"
#include "lib/host/spare_choice.h"
#include "preflight.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* How long the last hosts may take to register when as many have as the job needs: at most so long, and this part of
 * the start's time. And how much longer than the probe and the look at a host a report may take. */
#define LATE_SECONDS  10.0
#define LATE_PART     (1 / 3.0)
#define EXTRA_SECONDS 3.0

/* ---- hosts that are late ---- */

static void on_late(void *arg)
{
	struct hvd_agent_registry *agents = arg;
	bool gathering = agents->phase == HVD_AGENTS_GATHERING;
	enum hvd_stage awaited = gathering ? HVD_STAGE_COMING : HVD_STAGE_PROBING;
	struct hvd_err why = {0};

	if (!gathering && agents->phase != HVD_AGENTS_PROBING)
		return;
	if (agents->table.in_stage[awaited] > hvd_spares_left(agents))
		return; /* the start's deadline says which do not answer */
	hvd_err_set(&why, HVD_E_TIMEOUT, "%s",
		    gathering ? "its node agent did not register in time"
			      : "its node agent did not report in time which hosts it reaches");
	hvd_agent_registry_missing_hint(agents, &why);
	for (uint32_t h = 0; h < agents->table.n; h++)
		if (agents->table.hosts[h].stage == awaited)
			hvd_agent_registry_leave_out(agents, h, &why);
}

static void wait_for_late(struct hvd_agent_registry *agents, double seconds)
{
	if (!agents->spares.late)
		agents->spares.late = hvd_timer_new(agents->base, on_late, agents);
	hvd_timer_at(agents->spares.late, hvd_deadline_in(seconds));
}

void hvd_spares_registered(struct hvd_agent_registry *agents)
{
	uint32_t awaited = agents->table.in_stage[HVD_STAGE_COMING];
	double most = agents->opts->spec->deadlines.start * LATE_PART;

	if (hvd_spares_left(agents) == 0 || agents->phase != HVD_AGENTS_GATHERING || awaited == 0 ||
	    awaited > hvd_spares_left(agents) || (agents->spares.late && hvd_timer_runs(agents->spares.late)))
		return;
	wait_for_late(agents, most < LATE_SECONDS ? most : LATE_SECONDS);
}

void hvd_spares_probing(struct hvd_agent_registry *agents)
{
	double seconds = hvd_probe_patience(agents->table.rounds) / 1000.0 + EXTRA_SECONDS;

	if (hvd_spares_left(agents) == 0)
		return;
	wait_for_late(agents, seconds + (agents->opts->spec->preflight ? HVD_PREFLIGHT_SECONDS + 1 : 0));
}

void hvd_spares_stop(struct hvd_agent_registry *agents)
{
	hvd_measure_destroy(agents->spares.measure);
	agents->spares.measure = NULL;
	hvd_timer_free(agents->spares.late);
	agents->spares.late = NULL;
}

/* ---- hosts that are bad ---- */

static int refuse(const struct hvd_agent_registry *agents, uint32_t n_bad, const char *list, struct hvd_err *err)
{
	hvd_err_set(err, HVD_E_FAILED, "%u hosts are not fit for the job, but it has %u spare%s left:%.800s",
		    (unsigned)n_bad, (unsigned)hvd_spares_left(agents), hvd_spares_left(agents) == 1 ? "" : "s", list);
	return hvd_err_hint(err, "fix these hosts, exclude them, or ask for more hosts and --spares=%u",
			    (unsigned)(n_bad + agents->spares.used));
}

/* Who has asked for all checks wants to know that they have passed, and how fast the network is. */
static void say_passed(const struct hvd_agent_registry *agents)
{
	const struct hvd_host_table *table = &agents->table;
	const struct hvd_host_entry *slowest = NULL;
	uint32_t n = 0;
	char own[32], median[32];

	for (uint32_t h = 0; h < table->n; h++) {
		const struct hvd_host_entry *host = &table->hosts[h];

		if (host->stage < HVD_STAGE_REPORTED)
			continue;
		n++;
		if (host->mbps > 0 && (!slowest || host->mbps < slowest->mbps))
			slowest = host;
	}
	if (slowest)
		hvd_info(agents->log,
			 "preflight: all checks passed on %u hosts; slowest: %s, %s and %u us to its neighbours "
			 "(median %s)",
			 (unsigned)n, slowest->node.name, hvd_rate_text(slowest->mbps, own), (unsigned)slowest->rtt_us,
			 hvd_rate_text(hvd_preflight_median(table), median));
	else if (n == 1)
		hvd_info(agents->log, "preflight: all checks passed on one host");
	/* Else the network is measured next, and then the hosts are judged again. */
}

int hvd_spares_judge(struct hvd_agent_registry *agents, struct hvd_err *err)
{
	struct hvd_host_table *table = &agents->table;
	hvd_cleanup_free char **bad = hvd_xcalloc(table->n, sizeof(*bad));
	hvd_cleanup_free const char **hints = hvd_xcalloc(table->n, sizeof(*hints));
	hvd_cleanup_free char *list = hvd_xstrdup("");
	uint32_t n_bad = 0, first = 0;
	int rc = 0;

	if (!agents->opts->spec->preflight)
		return 0;
	for (uint32_t h = 0; h < table->n; h++) {
		hvd_cleanup_free char *figures = hvd_preflight_figures(&table->hosts[h]);

		if (table->hosts[h].stage < HVD_STAGE_REPORTED)
			continue;
		hvd_verbose(agents->log, "%s: %s", table->hosts[h].node.name, figures);
		bad[h] = hvd_preflight_bad(table, h, &hints[h]);
		if (bad[h]) {
			first = n_bad++ ? first : h;
			hvd_xappendf(&list, "\n  %s: %s", table->hosts[h].node.name, bad[h]);
		}
	}
	if (!agents->plan.elastic && n_bad == 1 && agents->opts->spec->spares == 0) {
		hvd_err_set(err, HVD_E_FAILED, "%s", bad[first]);
		hvd_err_hint(err, "%s", hints[first]);
		rc = hvd_err_host(err, table->hosts[first].node.name);
	} else if (!agents->plan.elastic && n_bad > hvd_spares_left(agents)) {
		rc = refuse(agents, n_bad, list, err);
	}
	for (uint32_t h = 0; h < table->n; h++) {
		/* A slow network would not be noticed when the host is tried again. */
		if (rc == 0 && bad[h])
			hvd_agent_registry_lose_bad(agents, h, bad[h], hints[h], agents->spares.measured);
		free(bad[h]);
	}
	if (rc == 0 && agents->opts->spec->preflight == HVD_PREFLIGHT_FULL)
		say_passed(agents);
	return rc;
}

/* All hosts have reported by now, or are AWAY and have no ranks. */
static void describe(const struct hvd_host_table *table, struct hvd_spare_host *v)
{
	for (uint32_t h = 0; h < table->n; h++)
		v[h] = (struct hvd_spare_host){.ranks = table->hosts[h].node.n_ranks, .mbps = table->hosts[h].mbps};
}

/* How many others the host reaches, or reach it, whichever is less. All hosts have as many neighbours. */
static void count_links(const struct hvd_host_table *table, struct hvd_spare_host *v)
{
	hvd_cleanup_free uint32_t *from = hvd_xcalloc(table->n, sizeof(*from));
	hvd_cleanup_free uint32_t *to = hvd_xcalloc(table->n, sizeof(*to));

	for (size_t e = 0; e < table->n_edges; e++)
		if (table->edges[e].result == HVD_REACH_OK) {
			from[table->edges[e].from]++;
			to[table->edges[e].to]++;
		}
	for (uint32_t h = 0; h < table->n; h++)
		v[h].links = from[h] < to[h] ? from[h] : to[h];
}

bool hvd_spares_unconnected(struct hvd_agent_registry *agents, const struct hvd_err *why)
{
	struct hvd_host_table *table = &agents->table;
	hvd_cleanup_free struct hvd_spare_host *v = hvd_xcalloc(table->n, sizeof(*v));
	struct hvd_err reason = {0};
	size_t worst;

	if (hvd_spares_left(agents) == 0 || why->code != HVD_E_NET)
		return false;
	for (uint32_t h = 0; h < table->n && why->host[0]; h++)
		if (table->hosts[h].node.name && strcmp(table->hosts[h].node.name, why->host) == 0)
			return hvd_agent_registry_leave_out(agents, h, why);
	describe(table, v);
	count_links(table, v);
	worst = hvd_spare_worst(v, table->n, 0);
	hvd_err_set(&reason, HVD_E_NET, "no network connects it with all others");
	return hvd_agent_registry_leave_out(agents, (uint32_t)worst, &reason);
}

/* ---- those that are not needed ---- */

/* How many ranks the job must have; 0 = those of the hosts that are kept. "-N5 -n10 --ntasks-per-node=2" means no more
 * than -N5 --ntasks-per-node=2: the tasks of spare hosts count. */
static uint32_t wanted_ranks(const struct hvd_agent_registry *agents)
{
	uint32_t wanted = agents->opts->wanted_ranks;

	return agents->opts->ranks_per_host && wanted % agents->table.n == 0 ? 0 : wanted;
}

static int by_number(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return x < y ? -1 : x > y;
}

/* The ranks of the hosts without the spares that are left: at most, as it is not decided yet which hosts these are. */
static uint32_t most_ranks(const struct hvd_agent_registry *agents)
{
	const struct hvd_host_table *table = &agents->table;
	hvd_cleanup_free uint32_t *ranks = hvd_xcalloc(table->n, sizeof(*ranks));
	uint32_t n = 0, sum = 0;

	for (uint32_t h = 0; h < table->n; h++)
		if (table->hosts[h].node.n_ranks > 0)
			ranks[n++] = table->hosts[h].node.n_ranks;
	qsort(ranks, n, sizeof(*ranks), by_number);
	for (uint32_t i = hvd_spares_left(agents); i < n; i++)
		sum += ranks[i];
	return sum;
}

static int check_ranks(const struct hvd_agent_registry *agents, struct hvd_err *err)
{
	uint32_t most = most_ranks(agents), wanted = wanted_ranks(agents), spares = hvd_spares_left(agents);

	if (most > 0 && most >= wanted)
		return 0;
	if (most == 0) {
		hvd_err_set(err, agents->spares.used ? HVD_E_FAILED : HVD_E_USAGE,
			    "with %u spare host%s no host is left for the ranks",
			    (unsigned)(agents->spares.used + spares), agents->spares.used + spares == 1 ? "" : "s");
		return hvd_err_hint(err, "ask for more hosts: for those that have ranks, and for the spares");
	}
	hvd_err_set(err, agents->spares.used ? HVD_E_FAILED : HVD_E_USAGE,
		    "without %u spare host%s there are %u slots, but the job has %u ranks",
		    (unsigned)(agents->spares.used + spares), agents->spares.used + spares == 1 ? "" : "s",
		    (unsigned)most, (unsigned)wanted);
	if (agents->opts->mode != HVD_START_HOSTS)
		return hvd_err_hint(err, "srun's -n counts the tasks of spare hosts as well: replace it by "
					 "--ntasks-per-node, and an -N that includes the spares");
	return hvd_err_hint(err, "ask for more hosts, or for spares that have as many slots as the others");
}

/* Leave out the hosts that are not needed. None of them is bad: hvd_spares_judge() has found the bad ones. */
static void leave_out_worst(struct hvd_agent_registry *agents)
{
	const uint32_t n = agents->table.n;
	hvd_cleanup_free struct hvd_spare_host *v = hvd_xcalloc(n, sizeof(*v));
	char name[32], slow[128];

	while (hvd_spares_left(agents) > 0) {
		size_t h;

		describe(&agents->table, v);
		h = hvd_spare_worst(v, n, wanted_ranks(agents));
		if (h == n)
			return;
		hvd_spare_slowness(v, n, h, slow);
		hvd_info(agents->log, "%s is a spare host, and is not needed%s%s",
			 hvd_host_table_name(&agents->table, (uint32_t)h, name), *slow ? ": " : "", slow);
		agents->spares.used++;
		hvd_agent_registry_remove_spare(agents, (uint32_t)h, "it is not needed");
	}
}

int hvd_spares_settle(struct hvd_agent_registry *agents, struct hvd_err *err)
{
	struct hvd_host_table *table = &agents->table;

	if (check_ranks(agents, err) != 0)
		return -1;
	leave_out_worst(agents);
	agents->listeners[0].ops->renumber(wanted_ranks(agents), agents->listeners[0].arg);
	for (uint32_t h = 0; h < table->n; h++) {
		struct hvd_host_entry *host = &table->hosts[h];

		if (host->stage >= HVD_STAGE_REPORTED && host->node.n_ranks == 0)
			hvd_agent_registry_remove_spare(agents, h, "it is not needed");
	}
	return 0;
}
