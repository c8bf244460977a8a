/* SPDX-License-Identifier: Apache-2.0 */
/*
 * elastic_internal.h - what the files of an elastic job share.
 *
 *   elastic.c          its parts; what the rendezvous, processes and discovery report; its begin and end
 *   elastic_actions.c  what the state machine wants done
 *   elastic_agents.c   what node agents report
 */
#ifndef HVD_ELASTIC_INTERNAL_H
#define HVD_ELASTIC_INTERNAL_H

#include "job.h"
#include "launcher/discovery/discovery.h"
#include "launcher/hosts/agent_registry.h"
#include "launcher/world/elastic_rendezvous.h"
#include "launcher/world/event_queue.h"
#include "launcher/world/machine.h"
#include "launcher/world/progress_file.h"
#include "launcher/world/world.h"
#include "launcher_process.h"
#include "restart_history.h"
#include "stuck_procs.h"
#include "unresponsive_ranks.h"

#include <stdbool.h>
#include <stdint.h>

struct elastic {
	struct hvd_job_policy policy; /* first, so that a pointer to it is one to all */
	struct hvd_launcher_process *launcher;
	struct hvd_world *world;
	const struct hvd_log *log;
	struct hvd_discovery_opts discovery_opts;
	struct hvd_discovery *discovery;
	struct hvd_machine *machine;
	struct hvd_elastic_rv *erv;
	struct hvd_gloo_peers *peers;
	struct hvd_event_queue *events;
	struct hvd_unresponsive_ranks *silent;
	struct hvd_strv gpus; /* hvd_launch.gpus */
	bool no_hosts;        /* discovery has found none, and Slurm is asked whether the job has ended */
	struct hvd_stuck_procs stuck;
	struct hvd_restart_history history;
	int failed_generation;             /* the last one in which a rank has failed */
	struct hvd_progress_file progress; /* of a job with restarts */
	bool restart;                      /* PyTorch's policy (machine.h) */
};

static inline struct elastic *elastic_of(const struct hvd_job_policy *policy)
{
	return (struct elastic *)policy;
}

/* The functions of struct hvd_job_policy. */
void hvd_elastic_rank_ended(struct hvd_job_policy *policy, const struct hvd_rank_exit *exited);
void hvd_elastic_host_lost(struct hvd_job_policy *policy, const char *name, const char *how);
/* A host is bad for this reason: a requeued job is to avoid it. */
void hvd_elastic_host_bad(uint32_t host, const char *why, void *elastic);

extern const struct hvd_machine_ops hvd_elastic_machine_ops; /* the argument is the struct elastic; */
/* that of these is the job. */
extern const struct hvd_agent_registry_ops hvd_elastic_agent_registry_ops;
extern const struct hvd_world_ops hvd_elastic_world_ops;

#endif
