/* SPDX-License-Identifier: Apache-2.0 */
/*
 * slurm_hosts.h - from what Slurm tells of jobs and nodes to hosts and slots.
 *
 * Pure: no I/O.
 */
#ifndef HVD_SLURM_HOSTS_H
#define HVD_SLURM_HOSTS_H

#include "discovery.h"
#include "lib/job/alloc.h"
#include "slurm/slurm.h"

/* A job other than ours whose time limit is nearer than this is left while it still runs. Seconds. */
#define HVD_VIEW_NOTICE 30

struct hvd_slurm_hosts_leaving {
	char *host;
	double seconds;
};

/* A zeroed struct is empty. */
struct hvd_slurm_hosts {
	struct hvd_alloc hosts; /* each with its Slurm job */
	struct hvd_slurm_hosts_leaving *leaving;
	size_t n_leaving;
	struct hvd_strv notes; /* what the user should know, such as a host that two jobs share; said once each */
};

/*
 * Hosts of the jobs that run, are no longer or not yet to be left, and have the name or comment opts->jobs (or, when
 * that is NULL, the number opts->job), without unusable nodes. Our own job comes first, then older ones. A host of
 * several jobs is that of the first. Reorders `jobs`.
 */
void hvd_slurm_hosts_make(struct hvd_slurm_hosts *view, const struct hvd_discovery_opts *opts,
			  struct hvd_slurm_job *jobs, size_t n, const struct hvd_slurm_nodes *nodes);
/* Nothing to be told? Times and notes are not looked at. */
bool hvd_slurm_hosts_same(const struct hvd_slurm_hosts *a, const struct hvd_slurm_hosts *b);
void hvd_slurm_hosts_clear(struct hvd_slurm_hosts *view); /* NULL is fine */

#endif
