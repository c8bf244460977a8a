/* SPDX-License-Identifier: Apache-2.0 */
/*
 * serve.h - the process that has the rendezvous on the host of rank 0, when the launcher runs elsewhere.
 *
 * The node agent of that host starts the process. It connects to the driver, says at which port it listens, and applies
 * the driver's messages to its rendezvous (lib/rendezvous/service.h). It ends when that connection ends, and when all
 * of the step's tasks on its host have ended (step_tasks.h). It cannot stay longer, for ranks on other hosts:
 * slurmstepd waits at least a second for a process that is still in the step's control group then, and kills it. Where
 * no Slurm runs the ranks it stays until the launch is over.
 *
 *   to the driver     {"t":"serving", "node":I, "port":P, "relay_port":R}   R: for relays; 0 where none will come
 *                                                           relay_port: 0 where no relays will come
 *                     {"t":"cannot", "host":NAME, "why":TEXT, "hint":TEXT}    instead, when it cannot listen
 *                     {"t":"done"}                          the tasks have ended
 *   from the driver   see lib/rendezvous/service.h
 */
#ifndef HVD_SERVE_H
#define HVD_SERVE_H

#include "lib/base/log.h"
#include "lib/protocol/boot.h"
#include "taskinfo.h"

/* For the node agent: start the watchdog, which starts the process. Both are this program, detached from `task`, the
 * process that lives as long as the rank. A key that came to this process in a descriptor is passed on in one. */
int hvd_serve_spawn(pid_t task, const struct hvd_boot *boot, bool tcpstore, struct hvd_err *err);

/* The same where the node agent starts the ranks: the process is neither a child of this one nor in its session, and
 * ends when the driver does. */
int hvd_serve_spawn_detached(const struct hvd_boot *boot, const struct hvd_taskinfo *info, bool tcpstore,
			     struct hvd_err *err);

/* The watchdog: start the server, kill it when it outlives the tasks, and tell the driver how it has ended if that was
 * before. A server that hangs, or that somebody has stopped, would otherwise stay on the host with its port, because
 * Slurm with proctrack/linuxproc does not find it. A server that is stopped is sent
 * SIGCONT after a while (stopped_child.h). It goes on without a watchdog that was killed. Returns when
 * the server has ended: 0, or -1 with err set. On a kernel without pidfds this process becomes the server. */
int hvd_serve_watch(const struct hvd_boot *boot, const struct hvd_taskinfo *info, pid_t task, bool tcpstore,
		    struct hvd_err *err);

/* The server: returns when the connection to the driver or the last task has ended. `task` 0: there is none; the
 * process leaves its parent first. 0, or -1 with err set when it could not serve. */
int hvd_serve_run(const struct hvd_boot *boot, const struct hvd_taskinfo *info, pid_t task, bool tcpstore,
		  const struct hvd_log *log, struct hvd_err *err);

#endif
