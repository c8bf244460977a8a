/* SPDX-License-Identifier: Apache-2.0 */
/*
 * spawned_ranks.h - the processes of a host's ranks: start them, watch them, end them.
 *
 * Each rank is in a process group of its own. To end a rank, its group gets SIGTERM and, after the setting `kill_wait`,
 * SIGKILL. Processes that a rank has left behind become children of this process (PR_SET_CHILD_SUBREAPER), and get
 * SIGKILL. If this process dies, the kernel kills the ranks (PR_SET_PDEATHSIG).
 *
 * With `preload` ranks start from the event loop, as soon as the modules are imported. A rank that is to end before that
 * counts as ended by SIGTERM.
 */
#ifndef HVD_SPAWNED_RANKS_H
#define HVD_SPAWNED_RANKS_H

#include "agent.h"
#include "lib/base/err.h"
#include "lib/host/host_share.h"
#include "lib/host/rank_end.h"
#include "lib/host/unkillable.h"
#include "lib/net/name_service.h"
#include "output.h"

#include <event2/event.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

struct hvd_spawned_ranks;

#define HVD_TERMINAL_HIDDEN (-1)

struct hvd_spawned_ranks_opts {
	char *const *argv; /* the user's command, of ranks without one of their own */
	/* How ranks are bound (rank_binding.h) of which the driver does not say it. */
	bool bind, near;
	const char *preload; /* modules that are imported before the ranks are forked (preload.h); NULL = none */
	const char *cpus;    /* the CPUs of each rank, see hvd_bind_listed(); NULL = divide all that there are */
	/* Standard input is the terminal of this session: rank 0 becomes a member of this process group, the launcher's, which
	 * the shell knows. So the shell decides when it may read from the terminal, and Ctrl-C and Ctrl-Z reach it together
	 * with the launcher. HVD_TERMINAL_HIDDEN: there is a terminal, but its group cannot be joined. A process of another
	 * group that reads from it would be stopped, so rank 0 has /dev/null. 0: standard input is no such terminal. */
	pid_t terminal_group;
	bool step; /* srun has started this agent, as the only task of a step */
	/* Ranks start with SIGTERM, SIGINT and SIGHUP ignored. If all processes of a rank still ignore SIGTERM when it is
	 * to end, SIGKILL follows at once. */
	bool ignore_ends;
	struct hvd_output_style output;
};

/* The process of a rank, as the driver knows it. */
struct hvd_rank_process {
	unsigned world;
	int id;                 /* among those of its world (launcher/world/world.h) */
	int number;             /* of the rank */
	char of[HVD_OUTPUT_OF]; /* in the labels and files of its output */
};

/* Where on the host a rank is. */
struct hvd_rank_place {
	int slot, slots;             /* it is bound as rank `slot` of so many of its world */
	struct hvd_host_share share; /* what these have of the host */
	const char *bind;            /* "none", "cores", or another word for `near`; NULL: as the options say */
};

/* `arg` is agent->ranks. */
struct hvd_spawned_ranks_ops {
	/* A rank has ended. */
	void (*exited)(const struct hvd_rank_process *of, const struct hvd_rank_end *end, void *arg);
	/* A rank cannot be started after all; only with `preload`. */
	void (*not_started)(const struct hvd_rank_process *of, struct hvd_err *why, void *arg);
	/* SIGKILL has not ended the rank, or a process that it has left, for some seconds. `exited` may still follow. */
	void (*unkillable)(const struct hvd_rank_process *of, const struct hvd_unkillable *what, void *arg);
	/* Called when the first rank starts, with what is known of the name service. */
	void (*names)(const struct hvd_name_service *names, void *arg);
	/* Called once, when no process is left but those that were reported as unkillable. */
	void (*all_gone)(void *arg);
};

/* Start a rank of world 0 for each object of `plans` ({NAME:VALUE,…}); the id of such a rank is its number, by the order of
 * agent->info. `commands` has the own command of each ([WORD,…]); NULL: all run that of `opts`. `agent` has its plan, and
 * hears of beginnings and output. If its job is elastic, ranks come and go by hvd_spawned_ranks_add() and
 * hvd_spawned_ranks_end_one(), and there may be none. `agent`, `opts` and `ops` must outlive the ranks. NULL with err set
 * if one cannot be started; all others were then ended. */
struct hvd_spawned_ranks *hvd_spawned_ranks_start(struct hvd_agent *agent, const json_t *plans, const json_t *commands,
						  const struct hvd_spawned_ranks_opts *opts,
						  const struct hvd_spawned_ranks_ops *ops, struct hvd_err *err);
/* Start one more rank, with a command of its own unless `command` is NULL. -1 with err set, also if the host does not have
 * the share of the place. */
int hvd_spawned_ranks_add(struct hvd_spawned_ranks *ranks, const struct hvd_rank_process *of, const json_t *plan,
			  const json_t *command, const struct hvd_rank_place *place, struct hvd_err *err);
/* End one rank, as above. If all of its processes ignore SIGTERM, or with `kill`, SIGKILL follows at once. Does nothing
 * if the rank has ended. */
void hvd_spawned_ranks_end_one(struct hvd_spawned_ranks *ranks, unsigned world, int id, bool kill);
/* What has the rank written last? */
void hvd_spawned_ranks_lines(const struct hvd_spawned_ranks *ranks, struct hvd_world_rank of,
			     struct hvd_rank_lines *lines);
/* Begin to end all ranks; all_gone is called soon after `kill_wait` at the latest. A second call changes nothing. */
void hvd_spawned_ranks_end(struct hvd_spawned_ranks *ranks);
/* The same at the request of the launcher, whose second request sends SIGKILL at once. A signal to this process does
 * not count as a request: a scheduler may send signals to the launcher and to this process at the same time. */
void hvd_spawned_ranks_end_on_request(struct hvd_spawned_ranks *ranks);
/* How many ranks have not ended. */
size_t hvd_spawned_ranks_running(const struct hvd_spawned_ranks *ranks);
/* Send a signal to all ranks, and to their process groups if it ends, stops or continues processes. */
void hvd_spawned_ranks_signal(struct hvd_spawned_ranks *ranks, int sig);
void hvd_spawned_ranks_destroy(struct hvd_spawned_ranks *ranks); /* kills what is left; NULL is fine */

#endif
