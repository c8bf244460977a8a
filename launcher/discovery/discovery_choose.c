/* SPDX-License-Identifier: Apache-2.0 */
/*
 * discovery_choose.c - which kind of discovery an elastic job uses, from the options and the environment.
 */
#include "discovery_kind.h"

#include "launcher/scheduler/scheduler.h"
#include "lib/base/strv.h"
#include "lib/base/xalloc.h"
#include "slurm/slurm.h"

#include <stdlib.h>
#include <string.h>

/* Does the script have a line "#SBATCH … --no-kill", or -k? */
static bool script_has_no_kill(const char *script)
{
	bool found = false;

	for (const char *line = script; line && !found; line = strchr(line, '\n')) {
		char *copy, *save = NULL;

		line += *line == '\n';
		if (strncmp(line, "#SBATCH", 7) != 0)
			continue;
		copy = hvd_xstrndup(line + 7, strcspn(line, "\n") > 7 ? strcspn(line, "\n") - 7 : 0);
		for (char *w = strtok_r(copy, " \t\r", &save); w && !found; w = strtok_r(NULL, " \t\r", &save))
			found = strcmp(w, "--no-kill") == 0 || strcmp(w, "-k") == 0;
		free(copy);
	}
	return found;
}

/* Slurm does not report whether a job has --no-kill. Look for the option in the script and the environment, and warn if
 * it is not there. */
static void warn_of_kill(const struct hvd_launch *launch, const struct hvd_discovery_opts *out)
{
	char *script;
	bool found;

	if (out->hosts.n_hosts < 2 || hvd_envp_get(launch->envp, "SBATCH_NO_KILL") ||
	    hvd_envp_get(launch->envp, "SALLOC_NO_KILL") || hvd_envp_get(launch->envp, "SLURM_NO_KILL"))
		return;
	script = hvd_slurm_job_script(out->job, hvd_deadline_in(HVD_SLURM_SECONDS), NULL);
	found = script_has_no_kill(script);
	free(script);
	if (!found)
		hvd_info(launch->log,
			 "unless job %u was submitted with --no-kill, Slurm ends the whole job when one of its nodes "
			 "fails; put \"#SBATCH --no-kill\" into its script, where hvdrun can see it",
			 out->job);
}

/* The hosts of the job that hvdrun runs in. */
static int own_job(const struct hvd_launch *launch, bool nodes_fail, struct hvd_discovery_opts *out,
		   struct hvd_err *err)
{
	const char *id = hvd_envp_get(launch->envp, "SLURM_JOB_ID");
	struct hvd_lsf facts = {0};
	int rc = hvd_scheduler_of(launch->envp)->hosts(launch->envp, out->slots_per_host, &out->hosts, &facts, err);

	hvd_lsf_clear(&facts);
	if (rc == 0 && id)
		out->job = (uint32_t)strtoul(id, NULL, 10);
	if (rc == 0 && nodes_fail)
		warn_of_kill(launch, out);
	return rc;
}

/* Slurm's jobs may lose nodes and get others, so they are watched. */
static bool in_slurm(const struct hvd_launch *launch)
{
	return hvd_scheduler_of(launch->envp) == &hvd_scheduler_slurm;
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
	return own_job(launch, true, out, err);
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

	if (spec->hosts.slots_per_host || !np)
		return hvd_launch_local_alloc(own, err);
	return hvd_alloc_from_local(&own->alloc, np, err);
}

/* Hosts that do not change: those that the user listed, those of the job, or this machine. */
static int choose_fixed(const struct hvd_launch *launch, struct hvd_discovery_opts *out, struct hvd_err *err)
{
	struct hvd_launch own = {
		.spec = launch->spec, .envp = launch->envp, .log = launch->log, .local_hosts = launch->local_hosts};
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
		if (!spec->hosts.listed && in_slurm(launch))
			return choose_slurm(launch, out, err);
		break;
	case HVD_DISCOVER_HOSTS:
	case HVD_DISCOVER_AGENTS: /* handled above */
		break;
	}
	return choose_fixed(launch, out, err);
}
