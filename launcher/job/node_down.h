/* SPDX-License-Identifier: Apache-2.0 */
/*
 * node_down.h - notices hosts that Slurm has given up while their shims, or agents, are still connected.
 *
 * On a host that hangs all processes stand still, but the kernel still answers the network, so that connections do not
 * break. Slurm gets no answer from slurmd there, declares the node down, and ends the job's tasks on all other nodes;
 * srun goes on waiting. So when all ranks of one host have ended and ranks of another have not, Slurm is asked about
 * the other host: at once, and then more and more rarely, because ranks may well end at different times. When all ranks
 * have ended and srun goes on, Slurm is asked about all hosts every eight seconds.
 */
#ifndef HVD_NODE_DOWN_H
#define HVD_NODE_DOWN_H

#include "job_policy.h"

#include <event2/event.h>

struct hvd_node_down;

/* `down` is called with the name of a host that Slurm has given up; again, where hosts come and go. Nothing that is
 * passed is owned. */
struct hvd_node_down *hvd_node_down_watch(struct event_base *base, const struct hvd_job_policy *policy,
					  void (*down)(const char *host, void *arg), void *arg);
/* The starter has gone: is a host down on which a rank has not ended? Then `down` is called as above, before the return,
 * unless it was called before. Waits for Slurm, for two seconds at most. */
void hvd_node_down_ask(struct hvd_node_down *watch);
/* All ranks have ended, as far as is known, and srun goes on: ask about all hosts of the job from now on. */
void hvd_node_down_ask_of_all(struct hvd_node_down *watch);
void hvd_node_down_destroy(struct hvd_node_down *down); /* NULL is fine */

#endif
