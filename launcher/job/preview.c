/* SPDX-License-Identifier: Apache-2.0 */
/* preview.c - hvdrun --dry-run of an elastic job: what would be started on the hosts that are known in advance. */
#include "elastic.h"
#include "launcher/discovery/discovery.h"

#include <stdlib.h>
#include <string.h>

/* The process of one host, moved to those of the launch. */
static int preview_host(struct hvd_launch *launch, const struct hvd_backend *backend, int index, struct hvd_err *err)
{
	const struct hvd_alloc_host *host = &launch->alloc.hosts[index];
	struct hvd_launch one;
	int rc = hvd_launch_for_host(&one, launch, backend, index, host, err);

	for (size_t i = 0; i < one.n_procs; i++) {
		struct hvd_proc *proc = hvd_launch_add(launch, host->name);

		hvd_strv_free(&proc->env);
		proc->argv = one.procs[i].argv;
		proc->stdin_args = one.procs[i].stdin_args;
		proc->env = one.procs[i].env;
	}
	free(one.procs);
	hvd_alloc_clear(&one.alloc);
	return rc;
}

int hvd_elastic_preview(struct hvd_launch *launch, const struct hvd_backend *backend, struct hvd_err *err)
{
	struct hvd_discovery_opts opts;
	int rc = hvd_discovery_choose(launch, &opts, err);

	if (rc == 0 && opts.hosts.n_hosts == 0) {
		rc = hvd_err_set(err, HVD_E_USAGE, "--dry-run: the hosts of this job are only known when it runs");
		hvd_err_hint(err, "list hosts with --hosts for the dry run");
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
