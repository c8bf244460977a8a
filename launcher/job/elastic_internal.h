/* SPDX-License-Identifier: Apache-2.0 */
/*
 * elastic_internal.h - what the files of an elastic job share.
 *
 *   elastic.c          its parts; what the rendezvous, processes and discovery report; its begin and end
 *   elastic_actions.c  what the state machine wants done
 *   elastic_agents.c   what node agents report
 *   elastic_end.c      how it ends
 */
#ifndef HVD_ELASTIC_INTERNAL_H
#define HVD_ELASTIC_INTERNAL_H

#include "draining.h"
#include "failures.h"
#include "frontend.h"
#include "job_watch.h"
#include "launcher/discovery/discovery.h"
#include "launcher/hosts/agent_registry.h"
#include "launcher/world/elastic_rendezvous.h"
#include "launcher/world/event_queue.h"
#include "launcher/world/machine.h"
#include "launcher/world/progress_file.h"
#include "launcher/world/world.h"
#include "restart_history.h"
#include "runfunc.h"
#include "stuck_procs.h"
#include "unresponsive_ranks.h"

#include <stdbool.h>
#include <stdint.h>

struct hvd_held_end {
	uint32_t worker;
	int status;
};

struct elastic {
	struct hvd_frontend job;
	struct hvd_discovery *discovery;
	struct hvd_machine *machine;
	struct hvd_agent_registry *agents;
	struct hvd_world *world;
	struct hvd_elastic_rv *erv;
	struct hvd_gloo_peers *peers;
	struct hvd_event_queue *events;
	struct hvd_unresponsive_ranks *silent;
	struct hvd_failures failures;
	struct hvd_job_watch *watch;
	struct hvd_draining leaving;
	bool asking; /* Slurm is asked whether it preempts the job; meanwhile ends of ranks are in `held` */
	struct hvd_held_end *held;
	size_t n_held;
	struct hvd_strv gpus; /* hvd_launch.gpus */
	bool no_hosts;        /* discovery has found none, and Slurm is asked whether the job has ended */
	bool of_job;          /* the agents are steps of the Slurm job that this process belongs to, and end with it */
	struct hvd_stuck_procs stuck;
	struct hvd_restart_history history;
	int failed_generation;             /* the last one in which a rank has failed */
	struct hvd_progress_file progress; /* of a job with restarts */
	bool restart;                      /* PyTorch's policy (machine.h) */
	bool output_lost;
	bool failed; /* the job ends because ranks or hosts have failed */
};

/* These are called by the job's parts as well, whose argument is the struct elastic.
 *
 * End all ranks and processes; when called again: at once. */
void hvd_elastic_end(void *elastic);
/* The job has ended, or cannot go on. Only the first reason counts. */
void hvd_elastic_finish(const struct hvd_err *why, int status, void *elastic);
/* The job cannot go on because of this error. */
void hvd_elastic_failed(const struct hvd_err *why, void *elastic);
/* Is SIGTERM, which an agent got or a rank has died of, that of a preemption? Find it out. */
void hvd_elastic_terminated(void *elastic);
/* A rank has ended, and what follows is due now. */
void hvd_elastic_rank_ended(struct elastic *el, uint32_t worker, int status);
/* A host is bad for this reason: a requeued job is to avoid it. */
void hvd_elastic_host_bad(uint32_t host, const char *why, void *elastic);

extern const struct hvd_machine_ops hvd_elastic_machine_ops; /* the argument of all is the struct elastic */
extern const struct hvd_agent_registry_ops hvd_elastic_agent_registry_ops;
extern const struct hvd_world_ops hvd_elastic_world_ops;

#endif
