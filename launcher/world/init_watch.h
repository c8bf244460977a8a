/* SPDX-License-Identifier: Apache-2.0 */
/*
 * init_watch.h - waits for the ranks that have not called torch.distributed's init_process_group(), and names them.
 *
 * It names them when all others have waited for a minute, and then ever less often. When the launch's time has passed
 * (launch_spec.h: deadlines.init), the job fails. While no rank has called it, nothing is reported.
 *
 * The watch also reports ranks that wait for a server at an address of their program's own, where nobody listens.
 *
 * It asks the rendezvous (lib/rendezvous/service.h) what the other ranks wait for, and logs the answer with --verbose.
 */
#ifndef HVD_DRIVER_INIT_WATCH_H
#define HVD_DRIVER_INIT_WATCH_H

#include "init_barrier.h"
#include "lib/base/log.h"
#include "lib/rendezvous/service.h"

struct hvd_init_watch;

/* `patience`: seconds from the first rank that arrives until `failed` is called; 0 = never. It is called at most once,
 * and may not destroy the watch. `service`, `log` and `arg` are not owned. */
struct hvd_init_watch *hvd_init_watch_create(struct event_base *base, double patience, struct hvd_rv_service *service,
					     void (*failed)(const struct hvd_err *why, void *arg), void *arg,
					     const struct hvd_log *log);
void hvd_init_watch_destroy(struct hvd_init_watch *watch); /* NULL is fine */

/* The ranks of this layout were started, or are about to be: watch for them, and for no others. The layout must stay
 * until hvd_init_watch_stop() or the next call. Host I of the layout is host I of the table. */
void hvd_init_watch_begin(struct hvd_init_watch *watch, const struct hvd_layout *layout,
			  const struct hvd_host_table *table);
void hvd_init_watch_stop(struct hvd_init_watch *watch);

/* No rank can reach the rendezvous any longer, on any host (-1) or on this one. Returns the ranks that were still
 * expected, as hvd_init_barrier_missing() names them; the caller frees it. NULL: none, as far as is known. If no rank
 * at all has arrived within ten minutes, they are not of PyTorch, and need no store. */
char *hvd_init_watch_expected(const struct hvd_init_watch *watch, int32_t host);

/* The call of hvd_rv_service_ops. Returns true when by this call all ranks have called it for the first time. */
bool hvd_init_watch_joined(struct hvd_init_watch *watch, const struct hvd_rv_init_event *join);

/* The message {"t":"refused", …} of agent/refused_ranks.c, from this host: log once for each port what is probably
 * wrong. */
void hvd_init_watch_refused(struct hvd_init_watch *watch, const char *host, const json_t *msg);

#endif
