/* SPDX-License-Identifier: Apache-2.0 */
/*
 * activity.c - do the ranks of a world on this host make progress? The driver asks, for --hang-timeout.
 *
 *   {"t":"watch", "every":SEC}                               look at this interval; 0: no longer
 *   {"t":"activity", "idle":SEC, "quiet":SEC, "input":B, "ranks":N}
 *                                                            the answer, at once, and again whenever it has changed
 *
 * idle: how long the ranks have made no progress; 0: they make progress. quiet: how long they have made none but by using
 * their processors, if that is QUIET_LOOKS intervals or more, else 0; nothing is sent for it while they are idle. input: one of them waits for input of its user. ranks:
 * how many there are. Before the driver has asked, nothing is looked at.
 *
 * A rank makes progress if its process and the processes below it
 *   - use more than 2 % of a processor (threads of idle ranks that poll use less), or 0.5 % if they want more at that
 *     moment, or
 *   - write anything except the 8 bytes or fewer by which threads wake each other, or their output arrives here, or
 *   - read more than 10 kB/s, or have waited for pages from a file.
 * So a rank that waits for others by polling without a pause, as NCCL does, is not idle, but it is quiet. A rank is neither
 * while one of its processes is stopped, by SIGSTOP or by a debugger: somebody has done that, and may undo it; not if
 * it is the launch's own look at its stacks that has stopped it. The time in which the agent was stopped itself, as
 * Slurm does with all processes of a job that it suspends, does not count.
 *
 * The increase of what the processes of each rank have used since the last look (rank_scan.h) shows whether the rank makes
 * progress.
 */
#include "agent.h"
#include "lib/base/deadline.h"
#include "lib/base/xalloc.h"
#include "lib/protocol/wire.h"
#include "rank_scan.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define CPU_SHARE     0.02
#define RUNNING_SHARE 0.005    /* of a rank that was just about to run: other processes may leave it little */
#define MIN_CPU_NS    20000000 /* of what the kernel counts by ticks of 10 ms */
#define READ_RATE     10000    /* bytes a second */
#define WAKE_BYTES    8        /* eventfd(2) */
#define QUIET_LOOKS   4        /* programs that print each second would be quiet again and again */
#define MOST_SECONDS  86400
#define LEAST_SECONDS 0.1

struct watched_rank {
	uint32_t rank;
	pid_t pid;
	bool seen; /* `last` is from the last look */
	bool held; /* it was stopped while its stacks were taken, and is since */
	struct hvd_rank_sum last;
};

struct activity {
	struct hvd_of_world of;
	struct watched_rank *ranks;
	size_t n;
	size_t output; /* since the last look */
	struct hvd_rank_reader reader;
	hvd_time every;             /* 0: nobody has asked */
	unsigned inspections;       /* those of the agent at the last look */
	hvd_time last_look, active; /* when the last look began; the last at which there was progress */
	hvd_time moved;             /* the last at which there was other progress than processor time */
	/* The state of the last report. */
	bool idle, quiet, input;
	size_t reported_ranks;
};

/* ---- what the ranks have used ---- */

/* What has ended in between may make a sum smaller. */
static uint64_t more(uint64_t now, uint64_t last)
{
	return now > last ? now - last : 0;
}

/* Tools that take stacks stop a process, and leave it stopped if they are killed at the wrong moment. This is nobody's
 * wish that it wait, as SIGSTOP of somebody else is. */
static bool stopped_by_others(struct watched_rank *rank, const struct hvd_rank_sum *now, bool inspected)
{
	if (!now->stopped)
		rank->held = false;
	else if (inspected && !rank->last.stopped)
		rank->held = true;
	return now->stopped && !rank->held;
}

enum progress {
	NONE,
	PROCESSOR, /* processor time, and nothing else */
	OTHER
};

/* inspected: the stacks were taken in that time. To be stopped for it, and go on, costs a rank a little. */
static enum progress progress_of(struct watched_rank *rank, const struct hvd_rank_sum *now, double seconds,
				 bool inspected)
{
	const struct hvd_rank_sum *last = &rank->last;
	double cpu = (double)(now->cpu_ns - last->cpu_ns);

	if (stopped_by_others(rank, now, inspected) || (!inspected && more(now->faults, last->faults) > 0) ||
	    (double)more(now->io.bytes, last->io.bytes) > READ_RATE * seconds ||
	    more(now->io.written, last->io.written) > WAKE_BYTES * more(now->io.writes, last->io.writes))
		return OTHER;
	return (cpu > CPU_SHARE * 1e9 * seconds && cpu > MIN_CPU_NS) ||
			       (!inspected && now->runs && cpu > RUNNING_SHARE * 1e9 * seconds)
		       ? PROCESSOR
		       : NONE;
}

/* The most that a rank has made. */
static enum progress progress_of_all(struct activity *a, const struct hvd_rank_look *look)
{
	const unsigned inspections = a->of.agent->inspections;
	const double seconds = (double)(look->at - a->last_look) / 1e9;
	const bool inspected = a->of.agent->inspecting > 0 || inspections != a->inspections;
	enum progress most = a->output > 0 ? OTHER : NONE;

	for (size_t i = 0; i < a->n; i++) {
		struct watched_rank *rank = &a->ranks[i];
		const struct hvd_rank_sum *now = hvd_rank_look_find(look, rank->pid, i);

		enum progress its = now && rank->seen ? progress_of(rank, now, seconds, inspected) : OTHER;

		most = its > most ? its : most;
		rank->seen = now != NULL;
		if (now)
			rank->last = *now;
	}
	a->output = 0;
	a->inspections = inspections;
	return most;
}

/* ---- looking ---- */

static void tell(struct activity *a, hvd_time now)
{
	a->reported_ranks = a->n;
	hvd_of_world_send(&a->of, json_pack("{s:s, s:f, s:f, s:b, s:I}", "t", "activity", "idle",
					    a->idle ? (double)(now - a->active) / 1e9 : 0.0, "quiet",
					    a->quiet ? (double)(now - a->moved) / 1e9 : 0.0, "input", a->input, "ranks",
					    (json_int_t)a->n));
}

static void looked(const struct hvd_rank_look *look, void *arg)
{
	struct activity *a = arg;
	const hvd_time now = hvd_now();
	enum progress progress = progress_of_all(a, look);
	bool idle, quiet, changed, input = false;

	for (size_t i = 0; i < look->n; i++)
		input = input || (look->ranks[i].input && look->ranks[i].id.world == a->of.world);
	if (look->late)
		progress = OTHER;
	if (progress != NONE)
		a->active = now;
	if (progress == OTHER)
		a->moved = now;
	/* One look without progress may lie between two steps of the program. */
	idle = now - a->active >= a->every + a->every / 2;
	a->last_look = look->at;
	quiet = now - a->moved >= QUIET_LOOKS * a->every;
	changed = idle != a->idle || (quiet != a->quiet && !idle) || (input != a->input && (idle || quiet)) ||
		  (a->reported_ranks == 0) != (a->n == 0);
	a->quiet = quiet;
	if (!changed)
		return;
	a->idle = idle;
	a->input = input;
	tell(a, now);
}

static void stop(struct activity *a)
{
	a->every = 0;
	hvd_rank_scan_every(a->of.agent, &a->reader, 0);
}

static void begin_looks(struct activity *a)
{
	for (size_t i = 0; i < a->n; i++)
		a->ranks[i].seen = false;
	a->last_look = a->active = a->moved = hvd_now();
	a->idle = a->quiet = a->input = false;
	a->output = 0;
}

static void on_watch(void *arg, const json_t *msg)
{
	struct activity *a = arg;
	const json_t *value = json_object_get(msg, "every");
	double every = json_is_number(value) ? json_number_value(value) : 0;
	bool on = a->every > 0;

	if (!(every > 0)) {
		stop(a);
		return;
	}
	every = every < LEAST_SECONDS ? LEAST_SECONDS : every > MOST_SECONDS ? MOST_SECONDS : every;
	a->every = (hvd_time)(every * 1e9);
	if (!on)
		begin_looks(a);
	hvd_rank_scan_every(a->of.agent, &a->reader, a->every);
	tell(a, hvd_now());
}

/* ---- which ranks ---- */

static void rank_began(void *arg, struct hvd_world_rank rank, pid_t pid)
{
	struct activity *a = arg;
	size_t i = 0;

	while (i < a->n && a->ranks[i].rank != rank.rank)
		i++;
	if (i == a->n)
		a->ranks = hvd_xrealloc(a->ranks, ++a->n, sizeof(*a->ranks));
	a->ranks[i] = (struct watched_rank){.rank = rank.rank, .pid = pid};
}

static void rank_ended(void *arg, struct hvd_world_rank rank)
{
	struct activity *a = arg;

	for (size_t i = 0; i < a->n; i++)
		if (a->ranks[i].rank == rank.rank) {
			a->ranks[i] = a->ranks[--a->n];
			a->active = a->moved = hvd_now(); /* that a rank ends is progress */
			return;
		}
}

static void rank_output(void *arg, struct hvd_world_rank rank, size_t bytes)
{
	(void)rank;
	((struct activity *)arg)->output += bytes;
}

/* ---- life ---- */

static void begin(void *arg)
{
	struct activity *a = arg;

	a->reader = (struct hvd_rank_reader){.wants = HVD_SCAN_INPUT, .looked = looked, .arg = a};
}

static void end(void *arg)
{
	free(((struct activity *)arg)->ranks);
}

const struct hvd_feature hvd_activity_feature = {
	.size = sizeof(struct activity),
	.by_world = true,
	.messages = (const struct hvd_agent_message[]){{"watch", on_watch}, {NULL, NULL}},
	.begin = begin,
	.rank_began = rank_began,
	.rank_output = rank_output,
	.rank_ended = rank_ended,
	.end = end,
};
