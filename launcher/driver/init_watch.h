/* SPDX-License-Identifier: Apache-2.0 */
/*
 * init_watch.h - waits for the ranks that have not called torch.distributed's init_process_group(), and says who they
 * are: when all others have waited for a minute, then ever less often, and once the launch's time for it has passed
 * (launch_spec.h: deadlines.init), which is a failure. Nothing is said while no rank has called it.
 *
 * Says too when ranks seem to wait for a server that none of them starts: that of init_method="tcp://…", before PyTorch
 * 2.14.
 *
 * What the ranks that have come wait for is asked of the rendezvous (lib/rendezvous/service.h), and logged if the user
 * wants to know more.
 */
#ifndef HVD_DRIVER_INIT_WATCH_H
#define HVD_DRIVER_INIT_WATCH_H

#include "init_barrier.h"
#include "lib/base/log.h"
#include "lib/rendezvous/service.h"

struct hvd_init_watch;

/* `patience`: seconds from the first rank that comes until `failed` is called; 0 = never. It is called once in a watch,
 * and may not destroy it. `service`, `log` and `arg` are not owned. */
struct hvd_init_watch *hvd_init_watch_create(struct event_base *base, double patience, struct hvd_rv_service *service,
					     void (*failed)(const struct hvd_err *why, void *arg), void *arg,
					     const struct hvd_log *log);
void hvd_init_watch_destroy(struct hvd_init_watch *watch); /* NULL is fine */

/* The ranks of this layout were started, or are about to be: watch for them, and for no others. The layout must stay
 * until hvd_init_watch_stop() or the next call. Host I of the layout is host I of the table. */
void hvd_init_watch_begin(struct hvd_init_watch *watch, const struct hvd_layout *layout,
			  const struct hvd_host_table *table);
void hvd_init_watch_stop(struct hvd_init_watch *watch);

/* Nobody can come to the rendezvous any longer, on any host (-1) or on this one: who was still expected there, as
 * hvd_init_barrier_missing() has it; the caller frees it. NULL: nobody is, as far as can be told. Where no rank at all
 * has come for ten minutes they are not of PyTorch, and need no store. */
char *hvd_init_watch_expected(const struct hvd_init_watch *watch, int32_t host);

/* What the service tells (hvd_rv_service_ops). */
void hvd_init_watch_joined(struct hvd_init_watch *watch, const struct hvd_rv_init_event *join);
void hvd_init_watch_waits(const struct hvd_init_watch *watch, const char *text);

/* {"t":"refused", …} of agent/rank_watch.h, from this host: says once of each port what is likely to be wrong. */
void hvd_init_watch_refused(struct hvd_init_watch *watch, const char *host, const json_t *msg);

#endif
