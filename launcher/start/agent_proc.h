/* SPDX-License-Identifier: Apache-2.0 */
/*
 * agent_proc.h - an agent that came by itself, in the place of a process of the job.
 *
 * What its host's ranks write is passed on as it comes. While the reader of hvdrun's output is slow, the agent is not
 * told that its bytes were taken, and after some it sends no more; its other messages go on.
 */
#ifndef HVD_AGENT_PROC_H
#define HVD_AGENT_PROC_H

#include "backend.h"
#include "launcher/hosts/clients.h"
#include "output_mux.h"

#include <event2/event.h>

struct hvd_agent_proc;

struct hvd_agent_proc_opts {
	const char *boot;              /* what it is to know of the driver */
	struct hvd_output_mux *out[2]; /* where stdout and stderr go */
	/* The driver is to take the connection over. Sets io->client. */
	void (*joined)(struct hvd_conn *conn, struct hvd_client_io *io, void *arg);
	void *arg;
};

/* Have the agent of proc->host, which was taken (agent_pool.h), run `proc`. `input`: its rank 0 reads hvdrun's stdin.
 * `ended` is called once, from the event loop, when its connection has ended; status: the exit status of the node
 * agent, -1: it was lost, which the user was told. `launch`, `proc` and `opts` must outlive it. NULL with err set. */
struct hvd_agent_proc *hvd_agent_proc_start(struct event_base *base, struct hvd_launch *launch,
					    const struct hvd_proc *proc, const struct hvd_agent_proc_opts *opts,
					    bool input, void (*ended)(int status, void *arg), void *arg,
					    struct hvd_err *err);
/* SIGKILL: end its connection, and so its ranks. Another signal does so when it has not registered. */
void hvd_agent_proc_signal(struct hvd_agent_proc *j, int sig);
/* Tell the agent of what was passed on since; to be called when an output is full no longer. */
void hvd_agent_proc_acknowledge(struct hvd_agent_proc *j);
/* Leaves the connection to the driver. NULL is fine. */
void hvd_agent_proc_destroy(struct hvd_agent_proc *j);

#endif
