/* SPDX-License-Identifier: Apache-2.0 */
/*
 * elastic.h - one elastic job of hvdrun, from the first host to the last rank.
 *
 * One event loop holds a source of hosts (discovery.h), the state machine
 * (machine.h), the connections to the hosts' shims (node_agents.h), the workers'
 * requests at the rendezvous (elastic_rendezvous.h), the processes that run the shims, and
 * the signals. It ends when the job has ended and no process is left.
 */
#ifndef HVD_ELASTIC_H
#define HVD_ELASTIC_H

#include "launcher/run/job.h"
#include "machine.h"

/* For --dry-run: the hosts that are known before the start, and the processes for their shims. */
int hvd_elastic_preview(struct hvd_launch *launch, const struct hvd_backend *backend, struct hvd_err *err);

/* Run it on hosts where `backend` starts shims (hvd_backend_add_host()). As hvd_run(). */
int hvd_elastic_run(struct hvd_launch *launch, const struct hvd_backend *backend, struct hvd_driver_opts *opts,
		    struct hvd_result *result, struct hvd_err *err);

#endif
