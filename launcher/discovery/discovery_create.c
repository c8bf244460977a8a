/* SPDX-License-Identifier: Apache-2.0 */
/*
 * discovery_create.c - which kind of discovery an elastic job uses, from the options and the environment; the kinds that
 * need not look for hosts; and the begin of a discovery.
 */
#include "discovery_kind.h"

#include "launcher/options/role_specs.h"
#include "launcher/scheduler/scheduler.h"
#include "launcher/start/agent_pool.h"
#include "lib/base/cleanup.h"
#include "lib/base/strv.h"
#include "lib/base/xalloc.h"
#include "slurm/alloc_slurm.h"
#include "slurm/slurm.h"

#include <stdlib.h>
#include <string.h>

/* Where no host is found within this time, the user learns what the job waits for. */
#define SILENT_SECONDS 2
/* How long the first agents wait for others with which their network is to be measured. */
#define OTHERS_SECONDS 10

/* ---- the choice ---- */

/* Does the script have a line "#SBATCH … --no-kill", or -k? */
static bool script_has_no_kill(const char *script)
{
	for (const char *line = script; line; line = strchr(line, '\n')) {
		hvd_cleanup_free char *copy = NULL;
		char *save = NULL;

		line += *line == '\n';
		if (strncmp(line, "#SBATCH", 7) != 0)
			continue;
		copy = hvd_xstrndup(line + 7, strcspn(line + 7, "\n"));
		for (char *w = strtok_r(copy, " \t\r", &save); w; w = strtok_r(NULL, " \t\r", &save))
			if (strcmp(w, "--no-kill") == 0 || strcmp(w, "-k") == 0)
				return true;
	}
	return false;
}

/* Slurm does not report whether a job has --no-kill. Look for the option in the script and the environment, and warn if
 * it is not there. */
static void warn_of_kill(const struct hvd_launch *launch, const struct hvd_discovery_opts *out)
{
	hvd_cleanup_free char *script = NULL;

	if (out->hosts.n_hosts < 2 || hvd_envp_get(launch->envp, "SBATCH_NO_KILL") ||
	    hvd_envp_get(launch->envp, "SALLOC_NO_KILL") || hvd_envp_get(launch->envp, "SLURM_NO_KILL"))
		return;
	script = hvd_slurm_job_script(out->job, hvd_deadline_in(HVD_SLURM_SECONDS), NULL);
	if (!script_has_no_kill(script))
		hvd_info(launch->log,
			 "unless job %u was submitted with --no-kill, Slurm ends the whole job when one of its nodes "
			 "fails; put \"#SBATCH --no-kill\" into its script, where hvdrun can see it",
			 out->job);
}

/* Slurm's jobs may lose nodes and get others, so they are watched. */
static bool in_slurm(const struct hvd_launch *launch)
{
	return hvd_scheduler_of(launch->envp) == &hvd_scheduler_slurm;
}

/* The components of a heterogeneous job are jobs of their own, whose hosts only roles use. */
static bool in_het_job(const struct hvd_launch *launch)
{
	return launch->roles && in_slurm(launch) && hvd_alloc_is_het(launch->envp);
}

/* The hosts of the job that hvdrun runs in. */
static int own_job(const struct hvd_launch *launch, bool nodes_fail, struct hvd_discovery_opts *out,
		   struct hvd_err *err)
{
	const char *id = hvd_envp_get(launch->envp, "SLURM_JOB_ID");
	struct hvd_lsf facts = {0};
	int rc;

	if (in_het_job(launch))
		rc = hvd_alloc_from_het(&out->hosts, launch->envp, out->slots_per_host, true, err);
	else
		rc = hvd_scheduler_of(launch->envp)->hosts(launch->envp, out->slots_per_host, &out->hosts, &facts, err);
	hvd_lsf_clear(&facts);
	if (rc == 0 && id)
		out->job = (uint32_t)strtoul(id, NULL, 10);
	if (rc == 0 && nodes_fail)
		warn_of_kill(launch, out);
	return rc;
}

/* Does the loss of a node not end the launch? */
static bool survives(const struct hvd_launch *launch)
{
	bool any = !launch->roles;

	for (size_t i = 0; !any && i < launch->roles->n; i++)
		any = launch->roles->v[i].on_failure != HVD_FAILURE_ENDS;
	return any;
}

static int choose_slurm(const struct hvd_launch *launch, struct hvd_discovery_opts *out, struct hvd_err *err)
{
	out->from = HVD_DISCOVER_SLURM;
	if (!in_slurm(launch)) {
		hvd_err_set(err, HVD_E_USAGE,
			    "--discover=slurm watches the nodes of the Slurm job that hvdrun runs in, but "
			    "there is none");
		return hvd_err_hint(err, "start hvdrun within sbatch or salloc, with --no-kill");
	}
	return own_job(launch, survives(launch), out, err);
}

static int choose_jobs(const struct hvd_launch *launch, const char *name, struct hvd_discovery_opts *out,
		       struct hvd_err *err)
{
	out->from = HVD_DISCOVER_JOBS;
	out->jobs = hvd_xstrdup(name);
	return in_slurm(launch) ? own_job(launch, false, out, err) : 0;
}

/* This machine, with as many slots as the job may have ranks. */
static int local_alloc(struct hvd_launch *own, struct hvd_err *err)
{
	const struct hvd_launch_spec *spec = own->spec;
	int np = spec->elastic.max_np ? spec->elastic.max_np : spec->ranks.n ? spec->ranks.n : spec->elastic.min_np;

	if (own->roles)
		np = hvd_role_specs_ranks(own->roles);
	if (spec->hosts.slots_per_host || !np)
		return hvd_launch_local_alloc(own, err);
	return hvd_alloc_from_local(&own->alloc, np, err);
}

/* Hosts that do not change: those that the user listed, those of the job, or this machine. */
static int choose_fixed(const struct hvd_launch *launch, struct hvd_discovery_opts *out, struct hvd_err *err)
{
	struct hvd_launch own = {.spec = launch->spec,
				 .roles = launch->roles,
				 .envp = launch->envp,
				 .log = launch->log,
				 .local_hosts = launch->local_hosts};
	int rc;

	out->from = HVD_DISCOVER_HOSTS;
	if (hvd_launch_has_granted(launch))
		rc = hvd_launch_granted(&own, err);
	else if (launch->spec->hosts.listed)
		rc = hvd_launch_listed(&own, err);
	else if (hvd_scheduler_of(launch->envp) != &hvd_scheduler_none)
		return own_job(launch, false, out, err);
	else
		rc = local_alloc(&own, err);
	hvd_lsf_clear(&own.lsf);
	out->hosts = own.alloc;
	return rc;
}

int hvd_discovery_choose(const struct hvd_launch *launch, struct hvd_discovery_opts *out, struct hvd_err *err)
{
	const struct hvd_launch_spec *spec = launch->spec;

	memset(out, 0, sizeof(*out));
	out->envp = launch->envp;
	out->slots_per_host = spec->hosts.slots_per_host;
	out->interval = spec->discovery.interval;
	if (spec->launcher && strcmp(spec->launcher, hvd_backend_join.name) == 0) {
		out->from = HVD_DISCOVER_AGENTS;
		out->agent_pool = launch->agent_pool;
		if (spec->preflight == HVD_PREFLIGHT_FULL)
			out->first_slots = spec->elastic.min_np ? spec->elastic.min_np : spec->elastic.first_np;
		return 0;
	}
	switch (spec->discovery.from) {
	case HVD_DISCOVER_SCRIPT:
		out->from = HVD_DISCOVER_SCRIPT;
		out->script = hvd_xstrdup(spec->discovery.what);
		return 0;
	case HVD_DISCOVER_JOBS:
		return choose_jobs(launch, spec->discovery.what, out, err);
	case HVD_DISCOVER_SLURM:
		return choose_slurm(launch, out, err);
	case HVD_DISCOVER_AUTO:
		if (!spec->hosts.listed && in_slurm(launch) && !in_het_job(launch))
			return choose_slurm(launch, out, err);
		break;
	case HVD_DISCOVER_HOSTS:
	case HVD_DISCOVER_AGENTS: /* handled above */
		break;
	}
	return choose_fixed(launch, out, err);
}

/* ---- a list of hosts ---- */

static void report_fixed(void *arg)
{
	struct hvd_discovery *s = arg;
	const struct hvd_slurm_hosts found = {.hosts = s->opts.hosts};

	hvd_discovery_found(s, &found);
}

static int begin_fixed(struct hvd_discovery *s, struct hvd_err *err)
{
	(void)err;
	s->own = hvd_timer_new(s->base, report_fixed, s);
	hvd_timer_soon(s->own);
	return 0;
}

static void end_fixed(struct hvd_discovery *s)
{
	hvd_timer_free(s->own);
}

static const struct hvd_discovery_kind fixed = {.name = "hosts", .begin = begin_fixed, .end = end_fixed};

/* ---- self-registering agents ---- */

static void await_others(struct hvd_discovery *s, int slots)
{
	hvd_info(s->log, "%d of %d slots have joined; --preflight=full measures the network between the first hosts",
		 slots, s->opts.first_slots);
	if (!hvd_timer_runs(s->own))
		hvd_timer_in_ms(s->own, OTHERS_SECONDS * 1000);
}

static void report_agents(void *arg)
{
	struct hvd_discovery *s = arg;
	struct hvd_slurm_hosts found = {0};

	hvd_agent_pool_hosts(s->opts.agent_pool, &found.hosts);
	if (s->any || found.hosts.slots >= s->opts.first_slots)
		hvd_discovery_found(s, &found);
	else if (found.hosts.slots > 0)
		await_others(s, found.hosts.slots);
	hvd_slurm_hosts_clear(&found);
}

static void on_others_late(void *arg)
{
	struct hvd_discovery *s = arg;

	s->opts.first_slots = 0;
	report_agents(s);
}

static int begin_agents(struct hvd_discovery *s, struct hvd_err *err)
{
	(void)err;
	s->own = hvd_timer_new(s->base, on_others_late, s);
	hvd_agent_pool_watch(s->opts.agent_pool, report_agents, s);
	return 0;
}

static void end_agents(struct hvd_discovery *s)
{
	hvd_agent_pool_watch(s->opts.agent_pool, NULL, NULL);
	hvd_timer_free(s->own);
}

static const struct hvd_discovery_kind agents = {.name = "agents", .begin = begin_agents, .end = end_agents};

/* ---- nothing found ---- */

/* Say what is waited for. */
static void on_silent(void *arg)
{
	const struct hvd_discovery *s = arg;

	if (s->opts.from == HVD_DISCOVER_SCRIPT)
		hvd_info(s->log, "waiting for hosts: the discovery script %s",
			 s->any ? "names none yet" : "has not ended yet");
	else if (!s->any)
		hvd_info(s->log, "waiting for hosts: Slurm's controller has not answered yet");
	else if (s->opts.jobs)
		hvd_info(s->log,
			 "waiting for hosts: no running job of yours has the name or comment %s yet "
			 "(--discover=jobs:%s)",
			 s->opts.jobs, s->opts.jobs);
	else
		hvd_info(s->log, "waiting for hosts: job %u has no usable node", s->opts.job);
}

/* ---- the begin ---- */

struct hvd_discovery *hvd_discovery_create(struct event_base *base, const struct hvd_discovery_opts *opts,
					   const struct hvd_discovery_ops *ops, void *arg, const struct hvd_log *log,
					   struct hvd_err *err)
{
	static const struct hvd_discovery_kind *const kinds[] = {
		[HVD_DISCOVER_HOSTS] = &fixed,
		[HVD_DISCOVER_SCRIPT] = &hvd_discovery_script,
		[HVD_DISCOVER_SLURM] = &hvd_discovery_slurm,
		[HVD_DISCOVER_JOBS] = &hvd_discovery_slurm,
		[HVD_DISCOVER_AGENTS] = &agents,
	};
	struct hvd_discovery *s = hvd_xcalloc(1, sizeof(*s));

	s->kind = kinds[opts->from];
	s->base = base;
	s->ops = *ops;
	s->arg = arg;
	s->log = log;
	s->opts = *opts;
	memset(&s->opts.hosts, 0, sizeof(s->opts.hosts));
	s->opts.script = opts->script ? hvd_xstrdup(opts->script) : NULL;
	s->opts.jobs = opts->jobs ? hvd_xstrdup(opts->jobs) : NULL;
	hvd_alloc_copy(&opts->hosts, &s->opts.hosts);
	s->silent = hvd_timer_new(base, on_silent, s);
	if (opts->from != HVD_DISCOVER_AGENTS) /* the user was told how to start some */
		hvd_timer_in_ms(s->silent, SILENT_SECONDS * 1000);
	if (s->kind->begin(s, err) == 0)
		return s;
	hvd_discovery_destroy(s);
	return NULL;
}
