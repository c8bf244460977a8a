/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stacks.h - asks all hosts of a launch where their ranks are, and the store what clients wait for.
 *
 * agent/rank_watch.c has the messages. Several callers may ask at the same time: a caller that asks while the hosts are
 * already being asked gets that answer.
 */
#ifndef HVD_DRIVER_STACKS_H
#define HVD_DRIVER_STACKS_H

#include "launcher/hosts/clients.h"
#include "launcher/hosts/host_table.h"
#include "lib/rendezvous/service.h"

#include <jansson.h>

struct hvd_stacks;

/* The ranks of this world on the admitted hosts. `service` (NULL: none) is the rendezvous that has PyTorch's store. Both are not owned. */
struct hvd_stacks *hvd_stacks_create(struct event_base *base, unsigned world, const struct hvd_host_table *table,
				     struct hvd_rv_service *service);
/* Callers that still wait get no answer. NULL is fine. */
void hvd_stacks_destroy(struct hvd_stacks *stacks);

/* Ask. `done` is called once, from the event loop, when all hosts have answered, at the latest `seconds` and a second
 * from now:
 *   {"hosts":[{"host":NAME, "ranks":[RANK,…]},…], "silent":[NAME,…], "store":TEXT, "nccl":NCCL}
 * RANK is agent/stacks.h's. "silent": hosts with ranks that have not answered, or were not connected; also those that were
 * lost meanwhile. TEXT: a line for
 * each process that waits at the rendezvous (hvd_rv_service_ask_waits()). NCCL: what that of one host's ranks says of all
 * ranks (agent/nccl_comms.h, with nccl_ranks.h); left out if none answers. `answers` stays this object's. */
void hvd_stacks_ask(struct hvd_stacks *stacks, double seconds, void (*done)(json_t *answers, void *arg), void *arg);
/* The same, by tools that do not stop a rank while they look at it; NCCL is asked once. While the hosts are already being
 * asked for another caller, the answer is that one's. */
void hvd_stacks_ask_no_stop(struct hvd_stacks *stacks, double seconds, void (*done)(json_t *answers, void *arg),
			    void *arg);
/* Do not answer the caller that has asked with `arg`. */
void hvd_stacks_forget(struct hvd_stacks *stacks, const void *arg);

/* Messages of the agents, and ends of their connections. */
void hvd_stacks_message(struct hvd_stacks *stacks, const struct hvd_client *cl, const json_t *msg);
void hvd_stacks_gone(struct hvd_stacks *stacks, const struct hvd_client *cl, const struct hvd_err *why);

#endif
