/* SPDX-License-Identifier: Apache-2.0 */
/*
 * slurm_hosts.h - turns Slurm's data about jobs and nodes into hosts and slots. No I/O.
 */
#ifndef HVD_SLURM_HOSTS_H
#define HVD_SLURM_HOSTS_H

#include "discovery.h"
#include "lib/host/alloc.h"
#include "slurm/slurm.h"

/* The hosts of another job than the one that hvdrun runs in are left this many seconds before its time limit. */
#define HVD_SLURM_LEAVE_SECONDS 30

struct hvd_slurm_hosts_leaving {
	char *host;
	double seconds;
};

/* A zeroed struct is empty. */
struct hvd_slurm_hosts {
	struct hvd_alloc hosts; /* each with its Slurm job */
	struct hvd_slurm_hosts_leaving *leaving;
	size_t n_leaving;
	struct hvd_strv notes; /* for the user, such as a host that two jobs share */
};

/* Does hvd_slurm_hosts_make() take hosts of a job? */
bool hvd_slurm_hosts_wants(const struct hvd_discovery_opts *opts, const struct hvd_slurm_job *job);
/* Do the slots of a job that hvd_slurm_hosts_make() would take depend on its GPUs (hvd_slurm_job_gpus())? */
bool hvd_slurm_hosts_by_gpus(const struct hvd_discovery_opts *opts, const struct hvd_slurm_job *job);

/*
 * The usable nodes of running jobs that have the name or comment opts->jobs or, when that is NULL, the number
 * opts->job. The job that hvdrun runs in comes first, then older jobs. A host of several jobs belongs to the first of
 * them. Hosts of jobs that are about to end are in `leaving` only. Reorders `jobs`. hvd_slurm_hosts_clear() is due.
 */
void hvd_slurm_hosts_make(struct hvd_slurm_hosts *out, const struct hvd_discovery_opts *opts,
			  struct hvd_slurm_job *jobs, size_t n, const struct hvd_slurm_nodes *nodes);
/* Times and notes are not compared. */
bool hvd_slurm_hosts_same(const struct hvd_slurm_hosts *a, const struct hvd_slurm_hosts *b);
void hvd_slurm_hosts_clear(struct hvd_slurm_hosts *out); /* NULL is fine */

#endif
