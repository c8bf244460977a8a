/* SPDX-License-Identifier: Apache-2.0 */
/*
 * activity.c - do the ranks of this host make progress? The driver asks, for --hang-timeout.
 *
 *   {"t":"watch", "every":SEC}                               look at this interval; 0: no longer
 *   {"t":"activity", "idle":SEC, "input":B, "ranks":N}       the answer, at once, and again whenever it has changed
 *
 * idle: how long the ranks have made no progress; 0: they make progress. input: one of them waits for input of its
 * user. ranks: how many there are. Before the driver has asked, nothing is looked at.
 *
 * A rank makes progress if its process and the processes below it
 *   - use more than 2 % of a processor (threads of idle ranks that poll use less), or 0.5 % if they want more at that
 *     moment, or
 *   - write anything except the 8 bytes or fewer by which threads wake each other, or their output arrives here, or
 *   - read more than 10 kB/s, or have waited for pages from a file.
 * So a rank that waits for others by polling without a pause, as NCCL does, seems to make progress. A rank is not idle
 * while one of its processes is stopped, by SIGSTOP or by a debugger: somebody has done that, and may undo it; not if
 * it is the launch's own look at its stacks that has stopped it. The time in which the agent was stopped itself, as
 * Slurm does with all processes of a job that it suspends, does not count.
 *
 * A look at the ranks reads all of /proc once, some processes per turn of the event loop, and adds up what the processes
 * of each rank have used. The increase since the last look shows whether the rank makes progress.
 */
#include "agent.h"
#include "lib/base/deadline.h"
#include "lib/base/timer.h"
#include "lib/base/xalloc.h"
#include "lib/process/procfs.h"
#include "lib/protocol/wire.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define CPU_SHARE     0.02
#define RUNNING_SHARE 0.005    /* of a rank that was just about to run: other processes may leave it little */
#define MIN_CPU_NS    20000000 /* of what the kernel counts by ticks of 10 ms */
#define READ_RATE     10000    /* bytes a second */
#define WAKE_BYTES    8        /* eventfd(2) */
#define PER_TURN      256
#define LATE_SECONDS  2.0 /* a look that is so late: this process was stopped */
#define MOST_SECONDS  86400
#define LEAST_SECONDS 0.1

struct usage {
	bool runs;    /* one of the processes does, or would if it had a processor */
	bool stopped; /* one of the processes is stopped */
	int64_t cpu_ns;
	uint64_t faults;
	struct hvd_process_io io;
};

struct watched_rank {
	uint32_t rank;
	pid_t pid;
	bool seen; /* `last` is from the last look */
	bool held; /* it was stopped while its stacks were taken, and is since */
	struct usage last, now;
};

struct activity {
	struct hvd_agent *agent;
	struct watched_rank *ranks;
	size_t n;
	size_t output; /* since the last look */
	struct hvd_timer *timer;
	hvd_time every;             /* 0: nobody has asked */
	hvd_time due;               /* when the timer fires */
	unsigned inspections;       /* those of the agent at the last look */
	hvd_time last_look, active; /* when the last look began; the last at which there was progress */
	/* The look that is under way. */
	struct hvd_processes processes;
	bool listed;     /* all processes are there */
	size_t added;    /* so many of them are in the sums */
	bool input_seen; /* one of those waits for input */
	/* The state of the last report. */
	bool idle, input;
	size_t reported_ranks;
};

/* ---- what the ranks have used ---- */

/* To which rank a process belongs: it is the rank's, in its group or session, or the child of one that is. */
static struct watched_rank *rank_of(const struct activity *a, const struct hvd_process *process)
{
	for (int depth = 0; process && depth < 64; depth++) {
		for (size_t i = 0; i < a->n; i++)
			if (process->pid == a->ranks[i].pid || process->group == a->ranks[i].pid ||
			    process->session == a->ranks[i].pid)
				return &a->ranks[i];
		process = process->parent > 1 ? hvd_processes_find(&a->processes, process->parent) : NULL;
	}
	return NULL;
}

static void add_usage(struct usage *usage, const struct hvd_process *process)
{
	struct hvd_process_io io;

	usage->runs |= process->state == 'R';
	usage->stopped |= process->state == 'T' || process->state == 't';
	usage->cpu_ns += process->cpu_ns;
	usage->faults += process->faults;
	if (hvd_process_io(process->pid, &io) == 0) {
		usage->io.bytes += io.bytes;
		usage->io.written += io.written;
		usage->io.writes += io.writes;
	}
}

/* What has ended in between may make a sum smaller. */
static uint64_t more(uint64_t now, uint64_t last)
{
	return now > last ? now - last : 0;
}

/* Tools that take stacks stop a process, and leave it stopped if they are killed at the wrong moment. This is nobody's
 * wish that it wait, as SIGSTOP of somebody else is. */
static bool stopped_by_others(struct watched_rank *rank, bool inspected)
{
	if (!rank->now.stopped)
		rank->held = false;
	else if (inspected && !rank->last.stopped)
		rank->held = true;
	return rank->now.stopped && !rank->held;
}

/* inspected: the stacks were taken in that time. To be stopped for it, and go on, costs a rank a little. */
static bool made_progress(struct watched_rank *rank, double seconds, bool inspected)
{
	const struct usage *now = &rank->now, *last = &rank->last;
	double cpu = (double)(now->cpu_ns - last->cpu_ns);

	return stopped_by_others(rank, inspected) || (cpu > CPU_SHARE * 1e9 * seconds && cpu > MIN_CPU_NS) ||
	       (!inspected &&
		((now->runs && cpu > RUNNING_SHARE * 1e9 * seconds) || more(now->faults, last->faults) > 0)) ||
	       (double)more(now->io.bytes, last->io.bytes) > READ_RATE * seconds ||
	       more(now->io.written, last->io.written) > WAKE_BYTES * more(now->io.writes, last->io.writes);
}

/* Add up what the next processes have used. True when all are added. */
static bool add_some(struct activity *a, size_t most)
{
	for (; a->added < a->processes.n && most > 0; a->added++, most--) {
		const struct hvd_process *process = &a->processes.v[a->added];
		struct watched_rank *rank = rank_of(a, process);

		if (!rank)
			continue;
		add_usage(&rank->now, process);
		a->input_seen =
			a->input_seen || (process->state == 'S' && hvd_waits_for_input(process->pid, rank->pid));
	}
	return a->added == a->processes.n;
}

/* All is added up. */
static bool any_progress(struct activity *a, double seconds)
{
	const unsigned inspections = a->agent->inspections;
	bool progress = a->output > 0, inspected = inspections % 2 || inspections != a->inspections;

	for (size_t i = 0; i < a->n; i++) {
		struct watched_rank *rank = &a->ranks[i];

		progress |= !rank->seen || made_progress(rank, seconds, inspected);
		rank->last = rank->now;
		rank->seen = true;
		memset(&rank->now, 0, sizeof(rank->now));
	}
	a->output = 0;
	a->inspections = inspections;
	return progress;
}

/* ---- looking ---- */

static void tell(struct activity *a, hvd_time now)
{
	a->reported_ranks = a->n;
	hvd_driver_client_send(a->agent->driver, json_pack("{s:s, s:f, s:b, s:I}", "t", "activity", "idle",
							   a->idle ? (double)(now - a->active) / 1e9 : 0.0, "input",
							   a->input, "ranks", (json_int_t)a->n));
}

static void conclude(struct activity *a)
{
	hvd_time now = hvd_now();
	bool idle, input = a->input_seen;

	if (any_progress(a, (double)(now - a->last_look) / 1e9))
		a->active = now;
	/* One look without progress may lie between two steps of the program. */
	idle = now - a->active >= a->every + a->every / 2;
	a->last_look = now;
	if (idle == a->idle && (input == a->input || !idle) && (a->reported_ranks == 0) == (a->n == 0))
		return;
	a->idle = idle;
	a->input = input;
	tell(a, now);
}

static void wait_for(struct activity *a, hvd_time ns)
{
	a->due = hvd_now() + ns;
	hvd_timer_at(a->timer, a->due);
}

static void on_timer(void *arg)
{
	struct activity *a = arg;

	if (hvd_now() - a->due > (hvd_time)(LATE_SECONDS * 1e9))
		a->active = hvd_now();
	if (!a->listed)
		a->listed = hvd_processes_read(&a->processes, PER_TURN);
	else if (add_some(a, PER_TURN)) {
		hvd_processes_clear(&a->processes);
		a->listed = false;
		a->added = 0;
		conclude(a);
		a->input_seen = false;
		wait_for(a, a->every);
		return;
	}
	wait_for(a, 0);
}

static void stop(struct activity *a)
{
	hvd_timer_stop(a->timer);
	hvd_processes_clear(&a->processes);
	a->every = 0;
}

static void begin_looks(struct activity *a)
{
	for (size_t i = 0; i < a->n; i++) {
		a->ranks[i].seen = false;
		memset(&a->ranks[i].now, 0, sizeof(a->ranks[i].now));
	}
	a->last_look = a->active = hvd_now();
	a->listed = a->idle = a->input = a->input_seen = false;
	a->added = a->output = 0;
	wait_for(a, 0); /* what has been used until now */
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
	tell(a, hvd_now());
}

/* ---- which ranks ---- */

static void rank_began(void *arg, uint32_t rank, pid_t pid)
{
	struct activity *a = arg;
	size_t i = 0;

	while (i < a->n && a->ranks[i].rank != rank)
		i++;
	if (i == a->n)
		a->ranks = hvd_xrealloc(a->ranks, ++a->n, sizeof(*a->ranks));
	a->ranks[i] = (struct watched_rank){.rank = rank, .pid = pid};
}

static void rank_ended(void *arg, uint32_t rank)
{
	struct activity *a = arg;

	for (size_t i = 0; i < a->n; i++)
		if (a->ranks[i].rank == rank) {
			a->ranks[i] = a->ranks[--a->n];
			a->active = hvd_now(); /* that a rank ends is progress */
			return;
		}
}

static void rank_output(void *arg, size_t bytes)
{
	((struct activity *)arg)->output += bytes;
}

/* ---- life ---- */

static void begin(void *arg)
{
	struct activity *a = arg;

	a->timer = hvd_timer_new(a->agent->base, on_timer, a);
}

static void end(void *arg)
{
	struct activity *a = arg;

	hvd_processes_clear(&a->processes);
	hvd_timer_free(a->timer);
	free(a->ranks);
}

const struct hvd_feature hvd_activity_feature = {
	.size = sizeof(struct activity),
	.messages = (const struct hvd_agent_message[]){{"watch", on_watch}, {NULL, NULL}},
	.begin = begin,
	.rank_began = rank_began,
	.rank_output = rank_output,
	.rank_ended = rank_ended,
	.end = end,
};
