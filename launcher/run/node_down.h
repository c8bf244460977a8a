/* SPDX-License-Identifier: Apache-2.0 */
/*
 * node_down.h - hosts that Slurm has given up while their ranks' shims are still connected.
 *
 * A host whose processes all stand still answers the network, and so its connections do not end. Slurm, which misses
 * its slurmd's answers, takes such a node for down and ends the job's tasks on all others; srun waits on. So when all
 * ranks of one host have ended and those of another have not, Slurm is asked after that one: at once, then more and
 * more rarely, for ranks may well have different ends.
 */
#ifndef HVD_NODE_DOWN_H
#define HVD_NODE_DOWN_H

#include "launcher/driver/driver.h"

struct hvd_node_down;

/* `down` is called with the name of such a host, once. Nothing that is passed is owned. Slurm is asked by sinfo, for
 * which the loop stands still for two seconds at most. */
struct hvd_node_down *hvd_node_down_watch(struct event_base *base, const struct hvd_driver *driver,
					  void (*down)(const char *host, void *arg), void *arg);
void hvd_node_down_destroy(struct hvd_node_down *down); /* NULL is fine */

#endif
