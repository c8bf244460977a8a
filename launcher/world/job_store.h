/* SPDX-License-Identifier: Apache-2.0 */
/*
 * job_store.h - the store that the ranks of all worlds of a launch share: a TCPStore, like that of each world.
 *
 * It takes part in messages as one more world, without ranks, whose number comes after theirs: each host has a relay of it,
 * and the ranks find that of their host in HVD_JOB_STORE. Its values stay until the launch ends, however often ranks
 * restart. Nobody waits until ranks come to it.
 */
#ifndef HVD_JOB_STORE_H
#define HVD_JOB_STORE_H

#include "world.h"

struct hvd_job_store;

/* Become one of the registry's listeners, after all worlds, which tell their ranks of the store from then on. Nothing is owned,
 * and all must outlive the store, except the registry, which is destroyed first. NULL with err set. */
struct hvd_job_store *hvd_job_store_create(struct event_base *base, struct hvd_agent_registry *agents,
					   const struct hvd_driver_opts *opts, struct hvd_world *const *worlds,
					   unsigned n, const struct hvd_log *log, struct hvd_err *err);
void hvd_job_store_destroy(struct hvd_job_store *store); /* NULL is fine */

#endif
