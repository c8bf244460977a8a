/* SPDX-License-Identifier: Apache-2.0 */
/*
 * job_policy.h - what differs between jobs (job.h): on which hosts the ranks are, and what follows from a rank's end and a
 * lost host.
 *
 *   static_ranks.c  one generation of ranks. The first failure ends the job, and so does a lost host
 *   elastic.c       generation follows generation, and hosts come and go
 *
 * The job calls the ops; the policy reports to the job by the functions of job.h.
 */
#ifndef HVD_JOB_POLICY_H
#define HVD_JOB_POLICY_H

#include "job_result.h"
#include "launcher/hosts/agent_registry.h"
#include "launcher/scheduler/scheduler.h"
#include "launcher/world/world.h"
#include "lib/base/err.h"
#include "lib/host/layout.h"

#include <stdbool.h>
#include <stdint.h>

struct hvd_job;
struct hvd_job_policy;

/* A rank has ended by itself, or was told to. */
struct hvd_rank_exit {
	unsigned world; /* its number */
	uint32_t id;    /* by which the policy knows its process */
	uint32_t rank;
	int status; /* as from waitpid(2) */
	bool told;  /* it was told to end */
	bool first; /* no failure that ends a static job was known */
	char host[256];
	char *error; /* with which exception it has failed; or NULL */
};

enum hvd_hosts_asked {
	HVD_HOSTS_BEHIND, /* where a rank still runs while all ranks of another host have ended */
	HVD_HOSTS_LEFT,   /* where a rank still runs, as far as is known */
	HVD_HOSTS_ALL,    /* where there are ranks */
};

struct hvd_job_policy_ops {
	/* What node agents report of hosts; the last argument is the job. */
	const struct hvd_agent_registry_ops *agents;
	/* Add the worlds of the job (job.h). -1 with err set. */
	int (*open)(struct hvd_job_policy *policy, struct hvd_err *err);
	/* Look for hosts, once the starter has begun. -1 with err set. NULL: the starter knows them. */
	int (*begin)(struct hvd_job_policy *policy, struct hvd_err *err);

	/* Have the agents end their ranks and themselves; again: at once. */
	void (*end)(struct hvd_job_policy *policy);

	/* A rank has ended. NULL: the first failure is that of the job. */
	void (*rank_ended)(struct hvd_job_policy *policy, const struct hvd_rank_exit *exited);
	/* How many ranks the job waits for that are about to end by themselves, those included that have ended since
	 * they do. NULL: the starter ends after the last one. */
	int (*running)(const struct hvd_job_policy *policy);
	/* A host is lost, `how` as in job_watch.h. */
	void (*host_lost)(struct hvd_job_policy *policy, const char *host, const char *how);
	/* What the scheduler says of the job, which is not being ended. May be NULL. */
	void (*facts)(struct hvd_job_policy *policy, const struct hvd_job_facts *facts);

	/* The hosts that Slurm is to be asked about (node_down.h): their names, with commas between them. NULL if there
	 * are none. The caller frees it. */
	char *(*hosts)(const struct hvd_job_policy *policy, enum hvd_hosts_asked which);
	/* That of the first world's last generation; NULL: there was none. */
	const struct hvd_layout *(*layout)(const struct hvd_job_policy *policy);
	/* The job is over: complete its result. */
	void (*finish)(struct hvd_job_policy *policy);

	/* ---- hvdrun's own processes (procs.h) ---- */
	/* One that has started a host's agent has ended too early. True: the host is left out, and its status does not
	 * count. */
	bool (*proc_lost)(struct hvd_job_policy *policy, uint32_t host, const struct hvd_err *why);
	/* Where hosts change: one is about to be killed, perhaps before it has passed on all that its ranks wrote. */
	void (*cut_short)(struct hvd_job_policy *policy, uint32_t host);
	/* They were told to end, for the first time. May be NULL. */
	void (*procs_ending)(struct hvd_job_policy *policy);

	void (*destroy)(struct hvd_job_policy *policy);
};

struct hvd_job_policy {
	const struct hvd_job_policy_ops *ops;
	struct hvd_job *job; /* hvd_job_create() sets it */
	/* Hosts come and go. The agents that start meanwhile are told of the job's end when they register, the starter may
	 * have no process for a while, and a lost host is no reason to requeue the job. */
	bool hosts_change;
	/* The ranks are processes of the Slurm job that this process belongs to, and end with it. Slurm ends them by SIGTERM
	 * when it preempts the job: one that ends by it may not have failed. */
	bool in_slurm_job;
};

#endif
