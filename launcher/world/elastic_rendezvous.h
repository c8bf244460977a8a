/* SPDX-License-Identifier: Apache-2.0 */
/*
 * elastic_rendezvous.h - the requests of elastic Horovod's workers at the rendezvous besides keys and values, and the
 * notification of rank 0.
 *
 *   GET /rank_and_size/HOST:LOCAL_RANK      a worker is ready. The answer, with the next generation, is "rank,size,
 *                                           local_rank,local_size,cross_rank,cross_size"; all of them are -1 when the
 *                                           worker is no longer part of the job
 *   PUT /worker_addresses/HOST:LOCAL_RANK   where the worker listens for notifications (lib/frameworks/worker_addrs.h)
 *   PUT /global/rank_N                      a worker publishes its Gloo address; in its first generation that means
 *                                           that it has arrived
 *
 * When a worker's connection breaks while it waits for the answer, it asks again. Then it gets the answer that it
 * missed, and is not ready a second time.
 */
#ifndef HVD_ELASTIC_RENDEZVOUS_H
#define HVD_ELASTIC_RENDEZVOUS_H

#include "lib/base/log.h"
#include "lib/host/layout.h"
#include "lib/rendezvous/server.h"
#include "machine.h"

struct hvd_elastic_rv_ops {
	void (*arrived)(uint32_t worker, void *arg);
	void (*connected)(void *arg); /* all members of this generation have connected to each other */
	void (*ready)(uint32_t worker, void *arg);
	/* Notify this worker that hosts have changed; `to` is the value that it has put at worker_addresses. */
	void (*notify)(const struct hvd_worker *worker, const char *to, int64_t when, void *arg);
};

struct hvd_elastic_rv;

/* `machine` is only read. Neither it nor `log` is owned. */
struct hvd_elastic_rv *hvd_elastic_rv_create(const struct hvd_machine *machine, const struct hvd_elastic_rv_ops *ops,
					     void *arg, const struct hvd_log *log);
void hvd_elastic_rv_destroy(struct hvd_elastic_rv *erv); /* before the server; NULL is fine */

/* Take over the three scopes of this server. */
void hvd_elastic_rv_open(struct hvd_elastic_rv *erv, struct hvd_rv *rv);

/* Answer every ready member of this generation with its rank. `layout` also serves members that ask again, until the
 * next call. */
void hvd_elastic_rv_answer(struct hvd_elastic_rv *erv, const struct hvd_layout *layout);
/* Notify this worker that hosts have changed, as soon as it has published its address. */
void hvd_elastic_rv_notify(struct hvd_elastic_rv *erv, uint32_t worker);
/* A new generation begins: drop a notification that was not sent yet. */
void hvd_elastic_rv_cancel_notify(struct hvd_elastic_rv *erv);

#endif
