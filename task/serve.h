/* SPDX-License-Identifier: Apache-2.0 */
/*
 * serve.h - the rendezvous on a host of the job: where the launcher runs on a login host.
 *
 * The node agent of the first host starts it as a process of its own, which
 * connects to the driver, says where it listens, and lives as long as that
 * connection and the task of the agent's rank. Without this rank no ranks can meet; and Slurm waits a second, at the
 * least, for a process that is there when a host's tasks have ended and is tracked by a control group.
 *   to the driver     {"t":"serving", "node":I, "port":P}
 *                     {"t":"done"}    the task has ended
 *   from the driver   {"t":"allow", "hosts":[ADDR,…]}   who may connect, and nobody else
 *                     {"t":"keep", "addrs":[ADDR,…]}    listen on these addresses only from now on
 *                     {"t":"size", "sizes":[[SCOPE,N],…]}   so many ranks meet in these scopes
 */
#ifndef HVD_SERVE_H
#define HVD_SERVE_H

#include "lib/base/log.h"
#include "lib/protocol/boot.h"
#include "taskinfo.h"

/* Node agent: start it (this same program), detached from `task`, which is to be there as long as the rank is. A key
 * that came to this shim by a descriptor is handed on by one. What is started is its watchdog. */
int hvd_serve_spawn(pid_t task, const struct hvd_boot *boot, struct hvd_err *err);

/* The watchdog: starts the server, which dies with it, and kills it when the task has ended and the server has not; for
 * one that somebody has stopped, or that hangs, would stay on the host with its port where Slurm does not find it
 * (proctrack/linuxproc). Returns when the server has gone: 0, or -1 with err set. Where the kernel cannot tell of the
 * end of processes it becomes the server. */
int hvd_serve_watch(pid_t task, struct hvd_err *err);

/* The process itself: returns when the driver or the task has gone. 0, or -1 with err set when it could not serve. */
int hvd_serve_run(const struct hvd_boot *boot, const struct hvd_taskinfo *info, pid_t task, const struct hvd_log *log,
		  struct hvd_err *err);

#endif
