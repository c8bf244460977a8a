/* SPDX-License-Identifier: Apache-2.0 */
/*
 * spawned_ranks_end.c - how ranks are ended.
 *
 * From SIGTERM until it was reaped a rank has a timer, `grace`: it is killed when its time is over, and then looked at
 * again and again, since the kernel may not be able to end it. So are processes that a rank has left in its group.
 */
#include "lib/base/timer.h"
#include "lib/host/unkillable.h"
#include "lib/process/procfs.h"
#include "lib/process/spawn.h"
#include "spawned_ranks_internal.h"

#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

/* How often a rank that is being ended is looked at: do all of its processes ignore SIGTERM, and has SIGKILL ended it? */
#define LOOK_MS 250

/* Signal the processes below this one that are in the group. The list grows while it is worked through. */
static void signal_below(pid_t group, int sig)
{
	struct hvd_pids pids = {0};
	struct hvd_process process;

	hvd_pids_add_children(&pids, getpid());
	for (size_t i = 0; i < pids.n; i++) {
		hvd_pids_add_children(&pids, pids.v[i]);
		if (hvd_process_read(pids.v[i], &process) == 0 && process.group == group)
			kill(pids.v[i], sig);
	}
	free(pids.v);
}

void hvd_spawned_rank_signal(const struct hvd_spawned_rank *rank, int sig)
{
	pid_t own = rank->pid > 0 ? getpgid(rank->pid) : -1;

	if (rank->at_terminal && rank->group > 0)
		signal_below(rank->group, sig);
	else if (rank->group > 0)
		kill(-rank->group, sig);
	if (own > 0 && own != rank->group)
		kill(own == getpgrp() ? rank->pid : -own, sig);
}

/* Does the signal end, stop or continue processes? Any other means something to the rank itself, such as "write a
 * checkpoint", and would end the processes that it has started: data loaders do not handle it. */
static bool is_for_all(int sig)
{
	static const int signals[] = {SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGKILL, SIGSTOP, SIGTSTP, SIGCONT};

	for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++)
		if (signals[i] == sig)
			return true;
	return false;
}

void hvd_spawned_ranks_signal(struct hvd_spawned_ranks *ranks, int sig)
{
	for (size_t i = 0; i < ranks->n; i++)
		if (is_for_all(sig))
			hvd_spawned_rank_signal(ranks->v[i], sig);
		else if (ranks->v[i]->pid > 0)
			kill(ranks->v[i]->pid, sig);
}

void hvd_spawned_rank_tell_end(struct hvd_spawned_rank *rank, pid_t pid, int status)
{
	struct hvd_rank_end end = {
		.rank = (uint32_t)rank->of.number, .local_rank = (uint32_t)rank->slot, .pid = pid, .status = status};

	if (rank->ended_here && (WIFSIGNALED(status) || status == 0))
		end.cause = HVD_END_WITH_ALL;
	hvd_crash_info_end(rank->crash_info, &end);
	hvd_crash_info_destroy(rank->crash_info);
	rank->crash_info = NULL;
	rank->all->ops->exited(&rank->of, &end, rank->all->agent->ranks);
	hvd_rank_end_clear(&end);
}

void hvd_spawned_rank_forget_pending(struct hvd_spawned_rank *rank)
{
	rank->pending = false;
	json_decref(rank->plan);
	rank->plan = NULL;
}

int hvd_spawned_ranks_kill_children(const struct hvd_spawned_ranks *ranks)
{
	const pid_t helper = ranks->agent->helper;
	struct hvd_process process;
	bool there = helper > 0 && hvd_process_read(helper, &process) == 0 && process.parent == getpid();

	return hvd_kill_children() - there;
}

void hvd_spawned_ranks_check_gone(struct hvd_spawned_ranks *ranks)
{
	int unkillable = 0;

	if (ranks->agent->elastic && !ranks->ending)
		return;
	for (size_t i = 0; i < ranks->n; i++) {
		const struct hvd_spawned_rank *rank = ranks->v[i];

		if (!rank->unkillable && (rank->pid > 0 || rank->pending || !hvd_streams_ended(&rank->streams)))
			return;
		unkillable += rank->unkillable;
	}
	if (ranks->gone)
		return;
	/* End all processes that the ranks have left in their groups, and also those that have left the groups: such
	 * processes became children of this process when their parents ended. */
	hvd_spawned_ranks_signal(ranks, SIGKILL);
	hvd_preload_end(ranks->preload);
	if (hvd_spawned_ranks_kill_children(ranks) > unkillable)
		return; /* their SIGCHLD leads to another call */
	ranks->gone = true;
	ranks->ops->all_gone(ranks->agent->ranks);
}

static void stop_ending(struct hvd_spawned_rank *rank)
{
	hvd_timer_free(rank->grace);
	rank->grace = NULL;
	rank->killed_at = rank->quiet_at = 0;
	rank->unkillable = false;
}

/* A process that the rank has left in its group, and that has become a child of this process; 0: none. A child's pid is
 * no other process's, as long as it was not waited for. */
static pid_t left_of(const struct hvd_spawned_rank *rank)
{
	struct hvd_pids pids = {0};
	struct hvd_process process;
	pid_t found = 0;

	if (rank->group <= 0 || kill(-rank->group, 0) != 0)
		return 0;
	hvd_pids_add_children(&pids, getpid());
	for (size_t i = 0; i < pids.n && !found; i++)
		if (hvd_process_read(pids.v[i], &process) == 0 && process.group == rank->group && process.state != 'Z')
			found = pids.v[i];
	free(pids.v);
	return found;
}

/* The process that SIGKILL should end: the rank, or one that it has left. */
static pid_t victim_of(const struct hvd_spawned_rank *rank)
{
	return rank->pid > 0 ? rank->pid : left_of(rank);
}

static void look_again(struct hvd_spawned_rank *rank)
{
	hvd_timer_in_ms(rank->grace, LOOK_MS);
}

/* It has SIGKILL, and is still there: report it when it has done nothing for some time. */
static void check_killed(struct hvd_spawned_rank *rank, pid_t pid)
{
	struct hvd_unkillable what = {.left = rank->pid <= 0};
	struct hvd_process process;
	hvd_time now = hvd_now();

	if (rank->unkillable || hvd_process_read(pid, &process) != 0)
		return;
	if (!rank->killed_at)
		rank->killed_at = now;
	if (!rank->quiet_at || process.cpu_ns != rank->cpu_ns)
		rank->quiet_at = now;
	rank->cpu_ns = process.cpu_ns;
	if (now < rank->killed_at + HVD_UNKILLABLE_SECONDS * 1000000000LL ||
	    now < rank->quiet_at + HVD_UNKILLABLE_QUIET_SECONDS * 1000000000LL)
		return;
	rank->unkillable = true;
	hvd_unkillable_look(&what, pid);
	rank->all->ops->unkillable(&rank->of, &what, rank->all->agent->ranks);
}

static void on_grace(void *arg)
{
	struct hvd_spawned_rank *rank = arg;
	pid_t pid = victim_of(rank);

	if (pid <= 0) {
		stop_ending(rank);
		rank->group = 0;
		return;
	}
	if (hvd_left(rank->kill_at) <= 0 || (rank->heeding && hvd_all_ignore(rank->pid, SIGTERM))) {
		if (rank->pid > 0)
			hvd_spawned_rank_signal(rank, SIGKILL);
		else
			kill(pid, SIGKILL);
		check_killed(rank, pid);
	}
	look_again(rank);
	if (rank->unkillable)
		hvd_spawned_ranks_check_gone(rank->all);
}

void hvd_spawned_rank_end_left(struct hvd_spawned_rank *rank)
{
	stop_ending(rank);
	if (!left_of(rank)) {
		rank->group = 0; /* it may become another one's */
		return;
	}
	rank->grace = hvd_timer_new(rank->all->agent->base, on_grace, rank);
	rank->kill_at = 0;
	look_again(rank);
}

/* A signal to end is about to be sent to the rank. A rank that is already ending by itself, though the kernel is not
 * done with it, does not react to the signal: on a busy host the others may have noticed its end before. */
static void note_end(struct hvd_spawned_rank *rank)
{
	struct hvd_process process;

	if (rank->pid > 0 && hvd_process_read(rank->pid, &process) == 0 && !process.ending)
		rank->ended_here = true;
}

/* End a rank that is pending; false: it is not. */
static bool end_pending(struct hvd_spawned_rank *rank)
{
	if (!rank->pending)
		return false;
	hvd_preload_forget(rank->all->preload, rank);
	hvd_spawned_rank_forget_pending(rank);
	hvd_streams_close(&rank->streams);
	rank->ended_here = true;
	hvd_spawned_rank_tell_end(rank, 0, SIGTERM);
	return true;
}

/* Ask the rank to end, and have it killed at `kill_at`; `kill_at` 0: kill it now. A rank that is being ended keeps the
 * earlier time. */
static void end_rank(struct hvd_spawned_rank *rank, hvd_time kill_at, bool heeding)
{
	if (end_pending(rank) || rank->pid <= 0)
		return;
	note_end(rank);
	rank->kill_at = rank->grace ? hvd_earlier(rank->kill_at, kill_at) : kill_at;
	rank->heeding = heeding;
	hvd_spawned_rank_signal(rank, rank->kill_at ? SIGTERM : SIGKILL);
	hvd_spawned_rank_signal(rank, SIGCONT); /* a stopped process does not handle SIGTERM */
	if (!rank->grace)
		rank->grace = hvd_timer_new(rank->all->agent->base, on_grace, rank);
	if (heeding || !rank->kill_at)
		hvd_timer_in_ms(rank->grace, LOOK_MS / 25);
	else
		hvd_timer_at(rank->grace, rank->kill_at);
}

void hvd_spawned_ranks_end_one(struct hvd_spawned_ranks *ranks, unsigned world, int id, bool kill)
{
	for (size_t i = 0; i < ranks->n; i++)
		if (ranks->v[i]->of.world == world && ranks->v[i]->of.id == id)
			end_rank(ranks->v[i], kill ? 0 : hvd_deadline_in(ranks->agent->settings.kill_wait), !kill);
}

void hvd_spawned_ranks_end(struct hvd_spawned_ranks *ranks)
{
	hvd_time kill_at = hvd_deadline_in(ranks->agent->settings.kill_wait);

	if (ranks->gone || ranks->ending)
		return;
	ranks->ending = true;
	for (size_t i = 0; i < ranks->n; i++)
		end_rank(ranks->v[i], kill_at, ranks->opts->ignore_ends);
	hvd_signal_soon(ranks->child); /* if there is no rank, no SIGCHLD will come */
}

void hvd_spawned_ranks_end_on_request(struct hvd_spawned_ranks *ranks)
{
	for (size_t i = 0; i < ranks->n && ranks->end_requested && !ranks->gone; i++)
		end_rank(ranks->v[i], 0, false);
	ranks->end_requested = true;
	hvd_spawned_ranks_end(ranks);
}
