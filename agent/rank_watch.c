/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rank_watch.c - answers the driver's questions about the ranks of a world on this host while they run.
 *
 * The watch only looks at ranks: it sends nothing to their processes, and changes nothing of them.
 *
 * A message of the driver, and its answer:
 *   {"t":"stacks", "id":I, "seconds":S, "nccl":B, "stop":B}
 *                                            where are the ranks, and what does their NCCL say (stacks.h)? stop: a tool may
 *                                            stop a rank while it looks. Answered within S seconds (60 at most) and one by
 *   {"t":"stacks", "id":I, "ranks":[…], "nccl":{…}}
 *                                            stacks.h has the format. Without "nccl" it was not asked for, or there is
 *                                            none. A question that arrives during another one is
 *                                            answered by {"t":"stacks", "id":I, "busy":true}
 *
 *   {"t":"owners", "id":I, "pids":[PID,…]}   which ranks are these processes part of?
 *   {"t":"answer", "id":I, "ranks":[RANK,…]} in the same order; -1: of none
 * RANK is what the driver calls the process (agent.h).
 */
#include "agent.h"
#include "child_answer.h"
#include "lib/base/cleanup.h"
#include "lib/base/strv.h"
#include "lib/base/xalloc.h"
#include "lib/process/spawn.h"
#include "lib/protocol/wire.h"
#include "rank_scan.h"
#include "stacks.h"

#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define STACKS_RANKS 4096 /* as many as fit into an argument */
#define OWNERS_MOST  4096 /* processes that the driver asks about */

struct rank_watch {
	struct hvd_of_world of;
	struct hvd_child_answer *stacks; /* NULL: nobody asks */
	int64_t asked;
};

/* Takes the reference of `ranks`; `nccl` may be NULL. */
static void answer(struct rank_watch *watch, int64_t id, json_t *ranks, json_t *nccl)
{
	hvd_of_world_send(&watch->of, json_pack("{s:s, s:I, s:o, s:O*}", "t", "stacks", "id", (json_int_t)id, "ranks",
						ranks, "nccl", nccl));
}

static void on_answer(json_t *object, void *arg)
{
	struct rank_watch *watch = arg;
	json_t *ranks = json_object_get(object, "ranks");

	answer(watch, watch->asked, json_is_array(ranks) ? json_incref(ranks) : json_array(),
	       json_object_get(object, "nccl"));
	hvd_child_answer_destroy(watch->stacks);
	watch->stacks = NULL;
	watch->of.agent->inspections++;
	watch->of.agent->inspecting--;
}

/* "RANK:PID,…", which the caller frees; NULL: there are no ranks. */
static char *list_ranks(const struct rank_watch *watch)
{
	const struct hvd_rank_sum *rank;
	char *list = NULL;

	for (size_t i = 0, n = 0;
	     n < STACKS_RANKS && (rank = hvd_rank_scan_next(watch->of.agent->scan, watch->of.world, &i)); n++)
		hvd_xappendf(&list, "%s%u:%d", list ? "," : "", (unsigned)rank->id.rank, (int)rank->pid);
	return list;
}

/* Start a process that finds out where the ranks are (stacks.h). Processes that it starts end with it. */
static pid_t inspect(const char *ranks, double seconds, const char *wishes, int out, struct hvd_err *err)
{
	HVD_CLEANUP(hvd_strv_free) struct hvd_strv argv = {0};
	struct hvd_spawn sp = {.path = "/proc/self/exe", .new_group = 1, .parent_death_signal = SIGKILL};

	hvd_strv_add(&argv, "hvd-agent");
	hvd_strv_add(&argv, "inspect");
	hvd_strv_addf(&argv, "%s@%.3f%s", ranks, seconds, wishes);
	sp.argv = argv.v;
	hvd_spawn_fd(&sp, -1, STDIN_FILENO);
	hvd_spawn_fd(&sp, out, STDOUT_FILENO);
	hvd_spawn_fd(&sp, -1, STDERR_FILENO);
	return hvd_spawn(&sp, err);
}

static struct hvd_child_answer *ask_stacks(struct rank_watch *watch, const char *ranks, double seconds,
					   const char *wishes, struct hvd_err *err)
{
	const hvd_time latest = hvd_deadline_in(seconds + 0.5);
	int fds[2];
	pid_t pid;

	if (pipe2(fds, O_CLOEXEC) != 0) {
		hvd_err_sys(err, "cannot make a pipe");
		return NULL;
	}
	pid = inspect(ranks, seconds, wishes, fds[1], err);
	close(fds[1]);
	if (pid > 0)
		return hvd_child_answer_begin(watch->of.agent->base, pid, fds[0], 2 * HVD_STACKS_MAX_OUTPUT, latest,
					      on_answer, watch);
	close(fds[0]);
	return NULL;
}

static void on_stacks(void *arg, const json_t *msg)
{
	struct rank_watch *watch = arg;
	double seconds = json_number_value(json_object_get(msg, "seconds"));
	hvd_cleanup_free char *ranks = NULL;
	struct hvd_err err = {0};
	char wishes[32];
	int64_t id;

	if (hvd_get_int(msg, "id", 0, INT64_MAX, &id, NULL) != 0 || !(seconds > 0))
		return;
	if (watch->stacks) {
		hvd_of_world_send(&watch->of,
				  json_pack("{s:s, s:I, s:b}", "t", "stacks", "id", (json_int_t)id, "busy", 1));
		return;
	}
	ranks = list_ranks(watch);
	if (!ranks) {
		answer(watch, id, json_array(), NULL);
		return;
	}
	seconds = seconds < HVD_STACKS_MAX_SECONDS ? seconds : HVD_STACKS_MAX_SECONDS;
	watch->asked = id;
	snprintf(wishes, sizeof(wishes), "%s%s", json_is_true(json_object_get(msg, "nccl")) ? HVD_STACKS_NCCL : "",
		 json_is_true(json_object_get(msg, "stop")) ? "" : HVD_STACKS_NO_STOP);
	watch->stacks = ask_stacks(watch, ranks, seconds, wishes, &err);
	if (watch->stacks) {
		watch->of.agent->inspections++;
		watch->of.agent->inspecting++;
		return;
	}
	hvd_log_err(watch->of.agent->log, &err);
	answer(watch, id, json_array(), NULL);
}

/* ---- owners ---- */

/* -1: it is part of no rank of this world. */
static json_int_t owner_of(const struct rank_watch *watch, json_int_t pid)
{
	const struct hvd_rank_sum *owner =
		pid > 0 && pid <= INT_MAX ? hvd_rank_scan_owner(watch->of.agent->scan, (pid_t)pid) : NULL;

	return owner && owner->id.world == watch->of.world ? (json_int_t)owner->id.rank : -1;
}

static void on_owners(void *arg, const json_t *msg)
{
	const struct rank_watch *watch = arg;
	json_t *pids, *pid, *ranks;
	size_t i;

	if (hvd_get_array(msg, "pids", OWNERS_MOST, &pids, NULL) != 0)
		return;
	ranks = json_array();
	json_array_foreach(pids, i, pid)
	{
		json_array_append_new(ranks, json_integer(owner_of(watch, json_integer_value(pid))));
	}
	hvd_of_world_send(&watch->of, json_pack("{s:s, s:O, s:o}", "t", "answer", "id", json_object_get(msg, "id"),
						"ranks", ranks));
}

/* ---- life ---- */

static void end(void *arg)
{
	struct rank_watch *watch = arg;

	hvd_child_answer_destroy(watch->stacks);
}

const struct hvd_feature hvd_rank_watch_feature = {
	.size = sizeof(struct rank_watch),
	.by_world = true,
	.messages = (const struct hvd_agent_message[]){{"stacks", on_stacks}, {"owners", on_owners}, {NULL, NULL}},
	.end = end,
};
