/* SPDX-License-Identifier: Apache-2.0 */
/*
 * elastic_internal.h - what the files of an elastic job share.
 *
 *   elastic.c          the launch's part: what discovery and processes report, what the job asks; its begin and end
 *   elastic_part.c     the part of one world: what its ranks tell, and agents report of them; its begin and end
 *   elastic_actions.c  what the state machine of a world wants done
 *   elastic_end.c      the end of a world
 *   elastic_roles.c    roles: which hosts each world has, and in which order the worlds start
 *   elastic_agents.c   the node agents, which serve all worlds on a host
 */
#ifndef HVD_ELASTIC_INTERNAL_H
#define HVD_ELASTIC_INTERNAL_H

#include "elastic.h"
#include "elastic_roles.h"
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

/* What decides about the ranks of one world, and what it uses for that. */
struct elastic_part {
	struct elastic *el;
	unsigned number; /* of the world */
	const struct hvd_driver_opts *opts;
	struct hvd_world *world;
	const struct hvd_log *log; /* the next, with the name of the world in front */
	struct hvd_log own_log;
	struct hvd_machine *machine;
	struct hvd_elastic_rv *erv;
	struct hvd_gloo_peers *peers;
	struct hvd_event_queue *events;
	struct hvd_unresponsive_ranks *silent;
	struct hvd_restart_history history;
	int failed_generation;             /* the last one in which a rank has failed */
	struct hvd_progress_file progress; /* of a world with restarts */
	bool restart;                      /* PyTorch's policy (machine.h) */
	bool ends_all;                     /* its failure ends the other worlds */
	bool service;                      /* it ends with the last world that is none */
	bool over;                         /* its machine has finished, */
	int status;                        /* with this status */
};

/* All machines have the same hosts, with the same numbers. */
struct elastic {
	struct hvd_job_policy policy; /* first, so that a pointer to it is one to all */
	struct hvd_launcher_process *launcher;
	const struct hvd_log *log;
	struct hvd_discovery_opts discovery_opts;
	struct hvd_discovery *discovery;
	struct hvd_strv gpus; /* hvd_launch.gpus */
	bool no_hosts;        /* discovery has found none, and Slurm is asked whether the job has ended */
	struct hvd_stuck_procs stuck;
	struct elastic_part *parts[HVD_MAX_WORLDS]; /* by number of the world */
	unsigned n_parts;
	struct hvd_elastic_roles *roles; /* NULL: there are none */
	uint64_t *wanted;                /* by host: a bit for each world whose machine has asked for its agent */
	uint32_t n_wanted;
	int status; /* the highest of the worlds that are over */
};
_Static_assert(HVD_MAX_WORLDS <= 64, "a set of worlds is bits of 64");

static inline struct elastic *elastic_of(const struct hvd_job_policy *policy)
{
	return (struct elastic *)policy;
}

/* That has the hosts of the launch, by number. */
static inline const struct hvd_machine *hvd_elastic_hosts(const struct elastic *el)
{
	return el->parts[0]->machine;
}

/* An error about this world, for those who know of several. */
static inline struct hvd_err hvd_elastic_named(const struct elastic_part *part, const struct hvd_err *why)
{
	struct hvd_err named = *why;

	if (why->code && part->opts->role)
		hvd_err_prefix(&named, "%s", part->opts->role);
	return named;
}

/* ---- elastic_part.c ---- */

/* Of the next world; `opts` as in elastic.h. */
void hvd_elastic_part_create(struct elastic *el, struct hvd_driver_opts *opts, bool ends_all);
int hvd_elastic_part_open(struct elastic_part *part, struct hvd_err *err); /* the job has its agents */
void hvd_elastic_part_destroy(struct elastic_part *part);
/* A function of struct hvd_job_policy. */
void hvd_elastic_rank_ended(struct hvd_job_policy *policy, const struct hvd_rank_exit *exited);

/* ---- elastic_actions.c ---- */

extern const struct hvd_machine_ops hvd_elastic_machine_ops; /* the argument is the struct elastic_part */

/* ---- elastic_end.c ---- */

/* The ranks of the world have ended, or are not started again after this failure. */
void hvd_elastic_part_over(struct elastic_part *part, const struct hvd_err *why, int status);

/* What --json has of each role (job_result.h), a new reference; NULL: there are none. */
json_t *hvd_elastic_result(const struct elastic *el);

/* ---- elastic_agents.c ---- */

/* The world wants the host's agent, or no longer. The agent is started for the first of them, and ended with the last;
 * `ask`: its process is, too, for there may be ranks that do not end. */
void hvd_elastic_host_begin(struct elastic_part *part, uint32_t host);
void hvd_elastic_host_end(struct elastic_part *part, uint32_t host, bool ask);
/* The host is gone for all worlds. */
void hvd_elastic_host_gone(struct elastic *el, uint32_t host, enum hvd_event_kind how);
/* A function of struct hvd_job_policy. */
void hvd_elastic_host_lost(struct hvd_job_policy *policy, const char *name, const char *how);
/* A host is bad for this reason: a requeued job is to avoid it. */
void hvd_elastic_host_bad(struct elastic *el, uint32_t host, const char *why);

extern const struct hvd_agent_registry_ops hvd_elastic_agent_registry_ops; /* the argument is the job */

#endif
