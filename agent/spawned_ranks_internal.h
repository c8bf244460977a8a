/* SPDX-License-Identifier: Apache-2.0 */
/*
 * spawned_ranks_internal.h - what the files of the spawned ranks share: spawned_ranks.c (they are started, and reaped) and
 * spawned_ranks_end.c (they are ended).
 */
#ifndef HVD_SPAWNED_RANKS_INTERNAL_H
#define HVD_SPAWNED_RANKS_INTERNAL_H

#include "crash_info.h"
#include "lib/base/deadline.h"
#include "lib/base/strv.h"
#include "lib/base/timer.h"
#include "lib/frameworks/command_facts.h"
#include "lib/net/name_service.h"
#include "preload.h"
#include "rank_binding.h"
#include "spawned_ranks.h"
#include "streams.h"

struct hvd_spawned_rank {
	struct hvd_spawned_ranks *all;
	struct hvd_rank_process of; /* .id is -1 if it cannot be started */
	int slot;
	struct hvd_share gpus; /* which it sees */
	struct hvd_strv own;   /* its own command; empty: that of all ranks */
	pid_t pid;             /* 0 when it has been reaped, or is pending */
	pid_t group;
	bool at_terminal; /* `group` is the launcher's, with processes that are not this rank's */
	struct hvd_streams streams;
	struct hvd_crash_info *crash_info;
	bool ended_here;         /* this process has sent it a signal to end, before it had ended */
	struct hvd_timer *grace; /* runs while this rank, or what it has left, is being ended; else NULL */
	hvd_time kill_at;        /* when it gets SIGKILL */
	bool heeding;            /* it gets SIGKILL sooner when all of its processes ignore SIGTERM */
	hvd_time killed_at;      /* when it got SIGKILL; 0 = not yet */
	hvd_time quiet_at;       /* since when, after SIGKILL, it has used no processor time */
	int64_t cpu_ns;          /* how much processor time it had used until then */
	bool unkillable;         /* this was reported */
	bool pending;            /* it will be forked (preload.h) */
	bool plainly;            /* it could not be forked, so it is spawned */
	json_t *plan;            /* while it is pending */
	bool bound;
	cpu_set_t cpus; /* if it is bound */
	int host_cpus;  /* how many CPUs all ranks of its world may run on here */
};

struct hvd_spawned_ranks {
	struct hvd_agent *agent;
	const struct hvd_spawned_ranks_opts *opts;
	const struct hvd_spawned_ranks_ops *ops;
	struct hvd_spawned_rank **v;
	size_t n;
	struct hvd_rank_binding binding;
	struct hvd_name_service names; /* asked when the first rank starts */
	bool names_asked;
	struct hvd_command_facts command; /* of the rank that was started last, whose command `looked_at` is */
	struct hvd_strv looked_at;
	unsigned long nofile;        /* the ranks' soft limit of open files; 0 = this process's */
	struct hvd_preload *preload; /* NULL = none */
	struct hvd_preload_opts preload_opts;
	struct hvd_signal_watch *child;
	bool ending;        /* hvd_spawned_ranks_end() was called */
	bool end_requested; /* the launcher has asked for it */
	bool advised;       /* what the user should know of the environment of rank 0 was logged */
	bool gone;          /* all_gone was called */
};

/* ---- spawned_ranks_end.c ---- */

/* Signal the rank's process group, and the group that the rank has made for itself, perhaps with a session (setsid).
 * This is safe for a rank that has ended but was not waited for: its groups cannot have become another process's
 * yet. */
void hvd_spawned_rank_signal(const struct hvd_spawned_rank *rank, int sig);
/* Tell how the rank has ended. */
void hvd_spawned_rank_tell_end(struct hvd_spawned_rank *rank, pid_t pid, int status);
/* It is pending no longer. */
void hvd_spawned_rank_forget_pending(struct hvd_spawned_rank *rank);
/* The rank was reaped. If it has left processes in its group, which have got SIGKILL by then, see to it that they end. */
void hvd_spawned_rank_end_left(struct hvd_spawned_rank *rank);
/* Kill all children of this process. Returns how many there were besides the agent's helper, which may not end. */
int hvd_spawned_ranks_kill_children(const struct hvd_spawned_ranks *ranks);
/* All ranks are to end, and one has: call all_gone if nothing is left. */
void hvd_spawned_ranks_check_gone(struct hvd_spawned_ranks *ranks);

#endif
