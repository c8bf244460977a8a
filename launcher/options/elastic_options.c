/* SPDX-License-Identifier: Apache-2.0 */
/* elastic_options.c - what the options say of an elastic job, and what it would run. */
#include "launcher/elastic/discovery.h"
#include "launcher/elastic/elastic.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Ranks are replaced when they have been silent for so long; HVD_SILENT_SECONDS in the environment says otherwise. */
#define SILENT_SECONDS 1.0
/* … where their connections to the others were cut: they have nothing to wait for, and are at work. */
#define CUT_SECONDS 15.0
/* How long those that train wait for a worker that should come, and for one that should end; --elastic-timeout may be
 * longer. */
#define PATIENCE_SECONDS 600.0
/* Hosts that come one after the other within this time change the job once. */
#define SETTLE_SECONDS 3.0

bool hvd_elastic_asked(const struct hvd_options *o)
{
	return o->min_np > 0 || o->max_np > 0 || o->discovery_script || o->discover;
}

int hvd_elastic_prepare(struct hvd_launch *launch, struct hvd_err *err)
{
	const struct hvd_options *o = launch->options;

	if (o->keep_going || o->run_func || hvd_options_mpi(o)) {
		hvd_err_set(err, HVD_E_USAGE, "%s does not go with an elastic job",
			    o->keep_going ? "--keep-going (-K0)"
			    : o->run_func ? "--run-func"
					  : "the MPI controller");
		return hvd_err_hint(err, "leave it out, or --min-np, --max-np, --discover and --host-discovery-script");
	}
	if (o->rendezvous == HVD_RENDEZVOUS_BATCH) {
		hvd_err_set(err, HVD_E_USAGE,
			    "the rendezvous of an elastic job runs where hvdrun does, not on the first host");
		return hvd_err_hint(err, "leave --rendezvous=batch out");
	}
	return 0;
}

/* How many ranks the first generation has at least. Where nothing but a batch job's size tells, it is within bounds. */
static int begin_np(const struct hvd_options *o)
{
	int np = hvd_options_np(o) > o->min_np ? hvd_options_np(o) : o->min_np;

	if (np < 1)
		return 1;
	return o->max_np > 0 && np > o->max_np ? o->max_np : np;
}

struct hvd_machine_opts hvd_elastic_opts(const struct hvd_launch *launch)
{
	const struct hvd_options *o = launch->options;
	const char *silent = hvd_envp_get(launch->envp, "HVD_SILENT_SECONDS");
	int np = begin_np(o);
	struct hvd_machine_opts opts = {
		.np = np,
		.min_np = o->min_np > 0 ? o->min_np : np,
		.max_np = o->max_np > 0 ? o->max_np : 0,
		.reset_limit = o->reset_limit,
		.elastic_timeout = o->elastic_timeout,
		.patience = o->elastic_timeout > PATIENCE_SECONDS ? o->elastic_timeout : PATIENCE_SECONDS,
		.cooldown_min = o->cooldown_min > 0 ? o->cooldown_min : 0,
		.cooldown_max = o->cooldown_max > 0 ? o->cooldown_max : 0,
		.silent_grace = SILENT_SECONDS,
		.cut_grace = CUT_SECONDS,
		.settle = SETTLE_SECONDS,
	};

	if (silent && atof(silent) > 0)
		opts.silent_grace = opts.cut_grace = atof(silent);
	return opts;
}

/* The process of one host, moved to those of the launch. */
static int preview_host(struct hvd_launch *launch, const struct hvd_backend *backend, int index, struct hvd_err *err)
{
	const struct hvd_alloc_host *host = &launch->alloc.hosts[index];
	struct hvd_launch one = *launch;
	int rc;

	one.procs = NULL;
	one.n_procs = 0;
	one.first_host = index;
	memset(&one.lsf, 0, sizeof(one.lsf));
	memset(&one.alloc, 0, sizeof(one.alloc));
	rc = hvd_alloc_add(&one.alloc, host->name, host->slots, err);
	if (rc == 0) {
		hvd_alloc_merge(&one.alloc);
		rc = hvd_backend_add_host(backend, &one, err);
	}
	for (size_t i = 0; i < one.n_procs; i++) {
		struct hvd_proc *proc = hvd_launch_add(launch, host->name);

		hvd_strv_free(&proc->env);
		proc->argv = one.procs[i].argv;
		proc->env = one.procs[i].env;
	}
	free(one.procs);
	hvd_alloc_clear(&one.alloc);
	return rc == 0 ? 0 : hvd_err_host(err, host->name);
}

int hvd_elastic_preview(struct hvd_launch *launch, const struct hvd_backend *backend, struct hvd_err *err)
{
	struct hvd_discovery_opts opts;
	int rc = hvd_discovery_choose(launch, &opts, err);

	if (rc == 0 && opts.hosts.n_hosts == 0) {
		rc = hvd_err_set(err, HVD_E_USAGE, "--dry-run: which hosts there are is found out when the job runs");
		hvd_err_hint(err, "run what finds them by hand, or list hosts with --hosts");
	}
	if (rc == 0) {
		launch->alloc = opts.hosts;
		memset(&opts.hosts, 0, sizeof(opts.hosts));
	}
	for (int i = 0; rc == 0 && i < launch->alloc.n_hosts; i++)
		rc = preview_host(launch, backend, i, err);
	hvd_discovery_opts_clear(&opts);
	return rc;
}
