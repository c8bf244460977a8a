/* SPDX-License-Identifier: Apache-2.0 */
/*
 * worker_notify.h - the agent notifies an elastic worker on its host that the hosts of the job have changed.
 *
 * The launcher does not do so itself, because a worker listens only on the job's network, to which the launcher's host
 * may not belong.
 *
 *   from the launcher   {"t":"notify", "id":N, "to":TEXT, "time":T}   to: the worker's addresses, as the worker has
 *                                                                         published them
 *                                                                         (lib/frameworks/worker_addrs.h)
 *   to the launcher     {"t":"notified", "id":N, "why":TEXT}          why the worker was not reached, or ""
 */
#ifndef HVD_WORKER_NOTIFY_H
#define HVD_WORKER_NOTIFY_H

#include "agent.h"

extern const struct hvd_feature hvd_worker_notify_feature;

#endif
