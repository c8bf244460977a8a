/* SPDX-License-Identifier: Apache-2.0 */
/*
 * elastic_rendezvous.h - what workers of an elastic job ask and tell at the rendezvous, and what rank 0 is told.
 *
 *   GET /rank_and_size/HOST:LOCAL_RANK      "rank,size,local_rank,local_size,cross_rank,cross_size"; it is held until
 *                                           the next generation. All -1: no longer part of the job
 *   PUT /worker_addresses/HOST:LOCAL_RANK   where the worker listens for notifications (lib/frameworks/worker_addrs.h)
 *   PUT /global/rank_N                      a worker's first word in its first generation: it has come
 *
 * A worker whose connection broke while it waited asks again, and is not taken for one that wants yet another place.
 */
#ifndef HVD_ELASTIC_RENDEZVOUS_H
#define HVD_ELASTIC_RENDEZVOUS_H

#include "lib/base/log.h"
#include "lib/job/layout.h"
#include "lib/rendezvous/server.h"
#include "machine.h"

struct hvd_elastic_rv_ops {
	void (*arrived)(uint32_t worker, void *arg);
	void (*met)(void *arg); /* all members of this generation have met the others */
	void (*ready)(uint32_t worker, void *arg);
	/* Tell this worker that hosts have changed, where it has said that it listens (lib/frameworks/worker_addrs.h).
	 */
	void (*pass)(const struct hvd_worker *worker, const char *to, int64_t when, void *arg);
};

struct hvd_elastic_rv;

/* `machine` is only looked at. Neither it nor `log` is owned. */
struct hvd_elastic_rv *hvd_elastic_rv_create(const struct hvd_machine *machine, const struct hvd_elastic_rv_ops *ops,
					     void *arg, const struct hvd_log *log);
void hvd_elastic_rv_destroy(struct hvd_elastic_rv *erv); /* before the server; NULL is fine */

/* Take over the three scopes. */
void hvd_elastic_rv_open(struct hvd_elastic_rv *erv, struct hvd_rv *rv);

/* Tell every member of this generation that waits, and those that ask again, their places. */
void hvd_elastic_rv_answer(struct hvd_elastic_rv *erv, const struct hvd_layout *layout);
/* Tell this worker that hosts have changed, as soon as it has said where it listens. */
void hvd_elastic_rv_notify(struct hvd_elastic_rv *erv, uint32_t worker);
/* A new generation begins: what was being told is given up. */
void hvd_elastic_rv_hush(struct hvd_elastic_rv *erv);

#endif
