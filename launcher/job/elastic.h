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
 * elastic.c connects them: it carries out the machine's decisions, and puts the events of the others into the queue.
 */
#ifndef HVD_ELASTIC_H
#define HVD_ELASTIC_H

#include "job_policy.h"
#include "launcher_process.h"

/* For --dry-run: the hosts that are known before the start, and the processes for their shims. */
int hvd_elastic_preview(struct hvd_launch *launch, const struct hvd_backend *backend, struct hvd_err *err);

/* The hosts are chosen; launcher->backend starts their node agents. ops->destroy is due after the job's end. `launcher` must outlive
 * the policy. NULL with err set. */
struct hvd_job_policy *hvd_elastic_create(struct hvd_launcher_process *launcher, struct hvd_err *err);

#endif
