/* SPDX-License-Identifier: Apache-2.0 */
/*
 * elastic_agents.c - the node agents of an elastic job. There is one on a host for all worlds: it is started when the first
 * of them wants the host, and ended when no other does. What it reports of the host, each of them hears that wants the host.
 */
#include "elastic_internal.h"

#include "launcher/scheduler/scheduler.h"
#include "lib/base/xalloc.h"

#include <stdlib.h>
#include <string.h>

/* ---- which worlds want a host ---- */

static uint64_t bit_of(const struct elastic_part *part)
{
	return (uint64_t)1 << part->number;
}

static uint64_t *wanted_by(struct elastic *el, uint32_t host)
{
	if (host >= el->n_wanted) {
		el->wanted = hvd_xrealloc(el->wanted, (size_t)host + 1, sizeof(*el->wanted));
		while (el->n_wanted <= host)
			el->wanted[el->n_wanted++] = 0;
	}
	return &el->wanted[host];
}

/* Those that want the host, from this one on. */
static struct elastic_part *next_part(struct elastic *el, uint32_t host, unsigned from)
{
	for (; from < el->n_parts; from++)
		if (*wanted_by(el, host) & bit_of(el->parts[from]))
			return el->parts[from];
	return NULL;
}

#define FOR_PARTS(part, el, host)                                                                                      \
	for (struct elastic_part *part = next_part(el, host, 0); part; part = next_part(el, host, part->number + 1))

static void tell(struct elastic *el, uint32_t host, enum hvd_event_kind kind)
{
	FOR_PARTS(part, el, host)
	hvd_event_queue_add(part->events, kind, host, 0);
}

static void admit(struct elastic_part *part, uint32_t host)
{
	const struct hvd_agent_registry *agents = part->el->policy.job->agents;

	hvd_machine_network(part->machine, host, hvd_agent_registry_switch_path(agents, host),
			    hvd_agent_registry_rate(agents, host));
	hvd_event_queue_add(part->events, HVD_EVENT_HOST_HERE, host, 0);
}

void hvd_elastic_host_begin(struct elastic_part *part, uint32_t host)
{
	struct elastic *el = part->el;
	uint64_t *wanted = wanted_by(el, host);
	const bool others = *wanted & ~bit_of(part);
	const char *name = hvd_machine_host(part->machine, host);
	struct hvd_alloc_host listed = {.name = (char *)name,
					.slots = hvd_machine_slots(part->machine, host),
					.slurm_job = hvd_machine_slurm_job(part->machine, host)};
	struct hvd_err why = {0};

	*wanted |= bit_of(part);
	if (others) {
		if (hvd_agent_registry_admitted(el->policy.job->agents, host))
			admit(part, host);
		return;
	}
	hvd_verbose(el->log, "%s: starting its node agent", name);
	hvd_agent_registry_expect(el->policy.job->agents, host, name);
	if (el->roles)
		hvd_elastic_roles_host(el->roles, &listed);
	if (hvd_procs_start_host(el->launcher->procs, host, &listed, &why) == 0)
		return;
	hvd_log_err(el->log, &why);
	hvd_agent_registry_forget(el->policy.job->agents, host);
	hvd_elastic_host_gone(el, host, HVD_EVENT_HOST_UNFIT);
}

void hvd_elastic_host_end(struct elastic_part *part, uint32_t host, bool ask)
{
	struct elastic *el = part->el;
	uint64_t *wanted = wanted_by(el, host);

	*wanted &= ~bit_of(part);
	if (*wanted)
		return;
	if (!ask)
		hvd_verbose(el->log, "%s: ending its node agent", hvd_machine_host(part->machine, host));
	hvd_agent_registry_forget(el->policy.job->agents, host);
	hvd_procs_release(el->launcher->procs, host, ask);
	if (ask)
		hvd_discovery_nudge(el->discovery);
}

void hvd_elastic_host_gone(struct elastic *el, uint32_t host, enum hvd_event_kind how)
{
	if (el->roles && !el->policy.job->ending)
		hvd_elastic_roles_gone(el->roles, hvd_machine_host(hvd_elastic_hosts(el), host));
	tell(el, host, how);
	*wanted_by(el, host) = 0;
}

/* If the job is requeued, hosts of other jobs are no matter of it. */
void hvd_elastic_host_bad(struct elastic *el, uint32_t host, const char *why)
{
	const uint32_t job = hvd_machine_slurm_job(hvd_elastic_hosts(el), host);

	if (!job || job == hvd_batch_job_of(el->launcher->launch->spec, 0).number)
		hvd_requeue_avoid(&el->launcher->result->requeue, hvd_machine_host(hvd_elastic_hosts(el), host), why);
}

/* ---- what agents report ---- */

static void on_admitted(uint32_t host, void *arg)
{
	struct elastic *el = elastic_of(((struct hvd_job *)arg)->policy);
	const char *name = hvd_machine_host(hvd_elastic_hosts(el), host);

	hvd_verbose(el->log, "%s can be used", name);
	hvd_requeue_allow(&el->launcher->result->requeue, name);
	FOR_PARTS(part, el, host)
	admit(part, host);
	if (el->roles)
		hvd_elastic_roles_admitted(el->roles, host);
}

/* The ranks of a generation are lost with their host. */
static void lose_ranks(const struct elastic_part *part, const struct hvd_loss *loss, const char *why)
{
	struct hvd_job *job = part->el->policy.job;

	hvd_failure_report_lost(hvd_failures_now(&job->failures[part->number]), loss);
	hvd_event(job->events, GENERATION_ENDING, .world = part->number, .host = loss->host, .why = why);
}

/* The host has not answered since then. */
static void host_gone(struct elastic *el, uint32_t host, const struct hvd_err *why, bool unfit, hvd_time since)
{
	const char *name = hvd_machine_host(hvd_elastic_hosts(el), host);
	struct hvd_loss loss = {.of = HVD_LOSS_HOST, .host = name, .status = -1, .at = since};

	hvd_warn(el->log, "%s is left out: %s", name, why->msg);
	if (*why->hint)
		hvd_info(el->log, "%s", why->hint);
	for (unsigned i = 0; i < el->n_parts; i++)
		if (hvd_machine_has_rank(el->parts[i]->machine, host))
			lose_ranks(el->parts[i], &loss, why->msg);
	/* The end of a connection may be that of the agent alone, or of the job. */
	if (why->code != HVD_E_NET)
		hvd_elastic_host_bad(el, host, why->msg);
	hvd_job_watch_ask(el->policy.job->watch);
	hvd_discovery_nudge(el->discovery);
	hvd_procs_release(el->launcher->procs, host, true);
	hvd_elastic_host_gone(el, host, unfit ? HVD_EVENT_HOST_UNFIT : HVD_EVENT_HOST_LOST);
}

static void on_gone(uint32_t host, const struct hvd_err *why, bool unfit, void *arg)
{
	struct elastic *el = elastic_of(((struct hvd_job *)arg)->policy);
	const hvd_time silent = hvd_agent_registry_silent_ms(el->policy.job->agents) * INT64_C(1000000);

	if (!el->policy.job->ending) /* else it was told to leave */
		host_gone(el, host, why, unfit, hvd_now() - silent);
}

/* Slurm has given up the host. Its kernel may still answer. */
void hvd_elastic_host_lost(struct hvd_job_policy *policy, const char *name, const char *how)
{
	struct elastic *el = elastic_of(policy);
	const struct hvd_machine *hosts = hvd_elastic_hosts(el);
	struct hvd_err why = {0};
	uint32_t host = 0;

	while (host < hvd_machine_n_hosts(hosts) && strcmp(hvd_machine_host(hosts, host), name) != 0)
		host++;
	if (policy->job->ending || host == hvd_machine_n_hosts(hosts))
		return;
	hvd_err_set(&why, HVD_E_TIMEOUT, "%s", how + strspn(how, ": "));
	hvd_event(policy->job->events, HOST_LOST, .index = host, .host = name, .why = why.msg);
	hvd_agent_registry_forget(el->policy.job->agents, host);
	host_gone(el, host, &why, false, hvd_now());
}

static void on_left(uint32_t host, bool lost, void *arg)
{
	struct elastic *el = elastic_of(((struct hvd_job *)arg)->policy);

	if (lost)
		hvd_stuck_procs_lost(&el->stuck, host);
	hvd_procs_agent_left(el->launcher->procs, host);
}

/* Can a world not do without the host? */
static bool needed(const struct elastic *el, uint32_t host)
{
	for (unsigned i = 0; i < el->n_parts; i++)
		if (hvd_machine_needs(el->parts[i]->machine, host, hvd_now()))
			return true;
	return false;
}

/* Has a world ranks there, and none that wait for the check? */
static bool in_use(const struct elastic *el, uint32_t host)
{
	for (unsigned i = 0; i < el->n_parts; i++)
		if (hvd_machine_has_rank(el->parts[i]->machine, host) &&
		    !hvd_machine_checking(el->parts[i]->machine, host))
			return true;
	return false;
}

static bool on_checked(uint32_t host, const char *bad, void *arg)
{
	struct elastic *el = elastic_of(((struct hvd_job *)arg)->policy);
	const char *name = hvd_machine_host(hvd_elastic_hosts(el), host);

	if (!bad) {
		hvd_verbose(el->log, "%s was checked again, and is good", name);
		tell(el, host, HVD_EVENT_CHECKED);
		return false;
	}
	if (needed(el, host)) {
		hvd_warn(el->log, "%s: %s; the host is used all the same, because the job needs it", name, bad);
		tell(el, host, HVD_EVENT_CHECKED);
		return false;
	}
	if (!in_use(el, host))
		return true;
	hvd_warn(el->log, "%s: its ranks have been started before its check was over: %s", name, bad);
	return false;
}

static void on_done(uint32_t host, bool munge, bool told, void *arg)
{
	if (told && !munge)
		hvd_stuck_procs_without_munge(&elastic_of(((struct hvd_job *)arg)->policy)->stuck, host);
}

const struct hvd_agent_registry_ops hvd_elastic_agent_registry_ops = {
	.registered = hvd_job_host_registered,
	.admitted = on_admitted,
	.gone = on_gone,
	.left = on_left,
	.done = on_done,
	.checked = on_checked,
	.failed = hvd_job_start_failed,
	.told_to_end = hvd_job_terminated,
};
