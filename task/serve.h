/* SPDX-License-Identifier: Apache-2.0 */
/*
 * serve.h - the rendezvous on a host of the job: where the launcher runs on a login host.
 *
 * The node agent of the first host starts it as a process of its own, which
 * connects to the driver, says where it listens, and lives as long as that
 * connection:
 *   to the driver     {"t":"serving", "node":I, "port":P}
 *   from the driver   {"t":"allow", "hosts":[ADDR,…]}   who may connect
 *                     {"t":"keep", "addrs":[ADDR,…]}    listen on these addresses only from now on
 */
#ifndef HVD_SERVE_H
#define HVD_SERVE_H

#include "boot.h"
#include "log.h"
#include "taskinfo.h"

/* Node agent: start it (this same program), detached from the task. */
int hvd_serve_spawn(struct hvd_err *err);

/* The process itself: returns when the driver has gone. 0, or -1 with err set when it could not serve. */
int hvd_serve_run(const struct hvd_boot *boot, const struct hvd_taskinfo *info, const struct hvd_log *log,
		  struct hvd_err *err);

#endif
