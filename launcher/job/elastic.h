/* SPDX-License-Identifier: Apache-2.0 */
/*
 * elastic.h - the policy of an elastic job of hvdrun: generation follows generation, and hosts come and go.
 *
 *   discovery.h            finds the hosts
 *   event_queue.h          passes events to the state machine
 *   machine.h              the state machine decides what is done next
 *   procs.h                runs a process for each host: ssh, a Slurm step, …, which starts the host's node agent
 *   agent_registry.h       admits the node agents that register, and has them start and stop workers
 *   elastic_rendezvous.h   answers the workers that ask for their next rank, and notifies rank 0
 *   gloo_peers.h           knows the connections between workers, which are killed after a failure
 *
 * A job may have several worlds of ranks on its hosts. The parts above from discovery to agents it has once, and each world has
 * the others for itself; elastic_internal.h describes the files that connect them. The job is over when all of its worlds are,
 * with the highest of their exit statuses.
 */
#ifndef HVD_ELASTIC_H
#define HVD_ELASTIC_H

#include "job_policy.h"
#include "launcher_process.h"

/* For --dry-run: the hosts that are known before the start, and the processes for their shims. */
int hvd_elastic_preview(struct hvd_launch *launch, const struct hvd_backend *backend, struct hvd_err *err);

/* The hosts are chosen; launcher->backend starts their node agents. ops->destroy is due after the job's end. `launcher` must outlive
 * the policy. NULL with err set. It has one world, with launcher->opts. */
struct hvd_job_policy *hvd_elastic_create(struct hvd_launcher_process *launcher, struct hvd_err *err);
/* Before the job is created: add a world on the same hosts. `opts` are as the launch's, except for what its ranks run, and
 * must outlive the policy. When it has failed for good, that ends the job at once, with its status (`ends_all`), or the
 * others go on. -1 with err set. */
int hvd_elastic_add_world(struct hvd_job_policy *policy, struct hvd_driver_opts *opts, bool ends_all,
			  struct hvd_err *err);

#endif
