/* SPDX-License-Identifier: Apache-2.0 */
/* Work on Slurm's answers. */
#include "slurm.h"

#include <stdlib.h>
#include <string.h>

void hvd_slurm_job_clear(struct hvd_slurm_job *job)
{
	if (!job)
		return;
	hvd_strv_free(&job->hosts);
	free(job->gpus);
	free(job->name);
	free(job->comment);
	free(job->grace_of);
	free(job->rerun.required);
	free(job->rerun.reservation);
	memset(job, 0, sizeof(*job));
}

void hvd_slurm_jobs_free(struct hvd_slurm_job *jobs, size_t n)
{
	for (size_t i = 0; i < n; i++)
		hvd_slurm_job_clear(&jobs[i]);
	free(jobs);
}

static int compare(const void *name, const void *entry)
{
	return strcmp(name, *(char *const *)entry);
}

bool hvd_slurm_node_usable(const struct hvd_slurm_nodes *nodes, const char *name)
{
	return !nodes->unusable.n ||
	       !bsearch(name, nodes->unusable.v, nodes->unusable.n, sizeof(*nodes->unusable.v), compare);
}

void hvd_slurm_nodes_clear(struct hvd_slurm_nodes *nodes)
{
	if (!nodes)
		return;
	hvd_strv_free(&nodes->unusable);
	nodes->hidden = false;
}
