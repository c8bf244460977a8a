/* SPDX-License-Identifier: Apache-2.0 */
/*
 * procs_internal.h - what the files of the table of processes share.
 *
 *   procs.c        the table: processes come, are reaped, and go
 *   proc_start.c   how one is started: its key, stdin and output
 *   proc_end.c     how one is ended: its deadline
 */
#ifndef HVD_PROCS_INTERNAL_H
#define HVD_PROCS_INTERNAL_H

#include "agent_pool.h"
#include "lib/base/timer.h"
#include "lib/host/stage.h"
#include "procs.h"

/* A node agent that was told to end gives its ranks opts->kill_wait, and then gets this long to end itself. */
#define HVD_PROC_RELEASE_SECONDS 3

struct hvd_started_proc {
	struct hvd_procs *procs;
	struct hvd_started_proc *next;
	uint32_t host;
	struct hvd_launch launch; /* elastic: the launch of this one host */
	struct hvd_proc *proc;    /* in this launch, or in that of the whole job */
	/* COMING until its host has registered; HERE; LEAVING: it was released, and its end is no loss; AWAY: it was
	 * reaped, and its end was reported. */
	enum hvd_stage stage;
	pid_t pid;      /* 0 when it has been reaped or was not started, and of a self-registering agent */
	int status;     /* then: as from waitpid(2) */
	int ranks_left; /* of its host, which have not been reported yet; 0 where it belongs to no host */
	struct hvd_stdin_forward *stdin_forward;
	struct hvd_timer *late; /* tells of the end; what the node agent said last may still be on its way */
	/* proc_end.c */
	struct hvd_timer *deadline;
	bool asked;      /* it was asked to end, so that SIGKILL follows */
	bool agent_left; /* it has only output to pass on */
	bool stuck;      /* it waits for the end of ranks or of an agent, and will not learn of it */
	bool cut_short;
	int quiet; /* deadlines in a row at which it was not our own reader that it waited for */
};

struct hvd_procs {
	struct event_base *base;
	struct hvd_launch *launch;
	const struct hvd_backend *backend;
	const struct hvd_procs_opts *opts;
	const struct hvd_procs_ops *ops;
	void *arg;
	struct hvd_output_mux *out[2]; /* stdout, stderr; NULL where processes write to ours themselves */
	struct hvd_pool_agent_opts agents;
	struct hvd_started_proc *first, **last; /* in the order of their starts */
	size_t next, n;                         /* of the launch's processes: the next to start; those to be started */
	unsigned running;
	unsigned under_way; /* running processes whose hosts have not registered */
	struct hvd_timer *sweep, *wake;
	bool ending, output_dropped;
};

/* Start this process; `first`: with hvdrun's stdin, where that goes to a process. -1 with err set. */
int hvd_proc_start(struct hvd_started_proc *p, bool first, struct hvd_err *err);
void hvd_proc_signal(const struct hvd_started_proc *p, int sig);
/* Have hvd_proc_deadline_passed() be called after so many seconds. */
void hvd_proc_set_deadline(struct hvd_started_proc *p, int seconds);
void hvd_proc_deadline_passed(void *proc);

#endif
