/* SPDX-License-Identifier: Apache-2.0 */
/* slurm_hosts.c - turns Slurm's data about jobs and nodes into hosts and slots. No I/O. */
#include "discovery_kind.h"

#include "lib/base/xalloc.h"

#include <stdlib.h>
#include <string.h>

bool hvd_slurm_hosts_wants(const struct hvd_discovery_opts *opts, const struct hvd_slurm_job *job)
{
	/* The hosts of our own job stay while Slurm has suspended it, and so do its ranks. */
	if (job->state != HVD_SLURM_RUNNING || (job->paused && job->id != opts->job))
		return false;
	if (!opts->jobs)
		return job->id == opts->job;
	return strcmp(job->name, opts->jobs) == 0 || strcmp(job->comment, opts->jobs) == 0;
}

static int older(const struct hvd_slurm_job *a, const struct hvd_slurm_job *b)
{
	if (a->began != b->began)
		return a->began < b->began ? -1 : 1;
	return a->id < b->id ? -1 : a->id > b->id;
}

static int by_age(const void *a, const void *b)
{
	return older(a, b);
}

/* As hvd_alloc_find(), which is slow for thousands, for a name that is probably at `guess`. */
static int known(const struct hvd_alloc *a, const char *name, size_t guess)
{
	if (guess < (size_t)a->n_hosts && strcmp(a->hosts[guess].name, name) == 0)
		return (int)guess;
	return hvd_alloc_find(a, name);
}

/*
 * Slots of a job's host `i`, the first known of: --slots-per-host; those in our own job's environment; tasks per node;
 * tasks, if there are more tasks than nodes, since only a user asks for that; GPUs; one.
 */
static int slots_of(const struct hvd_discovery_opts *opts, const struct hvd_slurm_job *job, size_t i)
{
	const int hosts = (int)job->hosts.n, at = job->id == opts->job ? known(&opts->hosts, job->hosts.v[i], i) : -1;

	if (opts->slots_per_host > 0)
		return opts->slots_per_host;
	if (at >= 0 && opts->hosts.hosts[at].slots > 0)
		return opts->hosts.hosts[at].slots;
	if (job->tasks_per_node > 0)
		return job->tasks_per_node;
	if (job->tasks > hosts)
		return job->tasks / hosts + ((int)i < job->tasks % hosts);
	if (job->gpus && job->gpus[i] > 0)
		return job->gpus[i];
	return 1;
}

bool hvd_slurm_hosts_by_gpus(const struct hvd_discovery_opts *opts, const struct hvd_slurm_job *job)
{
	return hvd_slurm_hosts_wants(opts, job) && opts->slots_per_host == 0 && job->tasks_per_node == 0 &&
	       job->tasks <= (int)job->hosts.n && (job->id != opts->job || opts->hosts.n_hosts == 0);
}

/* Is the job about to end? The job that hvdrun runs in does not count, because hvdrun ends with it. */
static bool about_to_end(const struct hvd_discovery_opts *opts, const struct hvd_slurm_job *job)
{
	if (job->id == opts->job || !job->ends)
		return false;
	return job->preempted || job->ends - job->now < HVD_SLURM_LEAVE_SECONDS;
}

static void add_leaving(struct hvd_slurm_hosts *out, const char *host, double seconds)
{
	out->leaving = hvd_xrealloc(out->leaving, out->n_leaving + 1, sizeof(*out->leaving));
	out->leaving[out->n_leaving].host = hvd_xstrdup(host);
	out->leaving[out->n_leaving].seconds = seconds > 0 ? seconds : 0;
	out->n_leaving++;
}

/* The first `others` hosts are those of other jobs. */
static void add_host(struct hvd_slurm_hosts *out, const struct hvd_discovery_opts *opts,
		     const struct hvd_slurm_job *job, size_t i, int others)
{
	const char *name = job->hosts.v[i];
	const int at = hvd_alloc_find(&(const struct hvd_alloc){.hosts = out->hosts.hosts, .n_hosts = others}, name);

	if (at >= 0) {
		hvd_strv_addf(&out->notes, "%s belongs to job %u and to job %u: only the first one's share is used",
			      name, out->hosts.hosts[at].slurm_job, job->id);
		return;
	}
	if (hvd_alloc_add(&out->hosts, name, slots_of(opts, job, i), NULL) == 0)
		out->hosts.hosts[out->hosts.n_hosts - 1].slurm_job = job->id;
}

static void add_job(struct hvd_slurm_hosts *out, const struct hvd_discovery_opts *opts, const struct hvd_slurm_job *job,
		    const struct hvd_slurm_nodes *nodes)
{
	const bool ending = about_to_end(opts, job);
	const int others = out->hosts.n_hosts;

	for (size_t i = 0; i < job->hosts.n; i++) {
		if (ending)
			add_leaving(out, job->hosts.v[i], (double)(job->ends - job->now));
		else if (hvd_slurm_node_usable(nodes, job->hosts.v[i]))
			add_host(out, opts, job, i, others);
	}
}

void hvd_slurm_hosts_make(struct hvd_slurm_hosts *out, const struct hvd_discovery_opts *opts,
			  struct hvd_slurm_job *jobs, size_t n, const struct hvd_slurm_nodes *nodes)
{
	memset(out, 0, sizeof(*out));
	if (n > 1)
		qsort(jobs, n, sizeof(*jobs), by_age);
	for (int own = 1; own >= 0; own--)
		for (size_t i = 0; i < n; i++)
			if ((jobs[i].id == opts->job) == own && hvd_slurm_hosts_wants(opts, &jobs[i]))
				add_job(out, opts, &jobs[i], nodes);
}

bool hvd_slurm_hosts_same(const struct hvd_slurm_hosts *a, const struct hvd_slurm_hosts *b)
{
	if (a->n_leaving != b->n_leaving || !hvd_alloc_same(&a->hosts, &b->hosts))
		return false;
	for (size_t i = 0; i < a->n_leaving; i++)
		if (strcmp(a->leaving[i].host, b->leaving[i].host) != 0)
			return false;
	return true;
}

void hvd_slurm_hosts_clear(struct hvd_slurm_hosts *out)
{
	if (!out)
		return;
	hvd_alloc_clear(&out->hosts);
	for (size_t i = 0; i < out->n_leaving; i++)
		free(out->leaving[i].host);
	free(out->leaving);
	hvd_strv_free(&out->notes);
	memset(out, 0, sizeof(*out));
}
