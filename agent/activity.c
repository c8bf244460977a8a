/* SPDX-License-Identifier: Apache-2.0 */
/*
 * activity.c - see activity.h. A look at the ranks reads all of /proc once, some processes per turn of the event loop,
 * and adds up what the processes of each rank have used. The increase since the last look shows whether the rank makes
 * progress.
 */
#include "activity.h"

#include "input_wait.h"
#include "lib/base/deadline.h"
#include "lib/base/timer.h"
#include "lib/base/xalloc.h"
#include "lib/process/process_usage.h"
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

struct hvd_activity {
	void (*send)(json_t *msg, void *arg);
	void *arg;
	struct watched_rank *ranks;
	size_t n;
	size_t output; /* since the last look */
	struct hvd_timer *timer;
	hvd_time every;          /* 0: nobody has asked */
	hvd_time due;            /* when the timer fires */
	bool inspected, after;   /* the ranks' stacks are being taken; were since the last look */
	hvd_time looked, active; /* when the last look began; the last at which there was progress */
	/* The look that is under way. */
	struct hvd_processes processes;
	bool listed;     /* all processes are there */
	size_t added;    /* so many of them are in the sums */
	bool input_seen; /* one of those waits for input */
	/* The state of the last report. */
	bool idle, input;
	size_t told_ranks;
};

/* ---- what the ranks have used ---- */

/* To which rank a process belongs: it is the rank's, in its group or session, or the child of one that is. */
static struct watched_rank *rank_of(const struct hvd_activity *a, const struct hvd_process *process)
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
static bool add_some(struct hvd_activity *a, size_t most)
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
static bool any_progress(struct hvd_activity *a, double seconds)
{
	bool progress = a->output > 0, inspected = a->inspected || a->after;

	for (size_t i = 0; i < a->n; i++) {
		struct watched_rank *rank = &a->ranks[i];

		progress |= !rank->seen || made_progress(rank, seconds, inspected);
		rank->last = rank->now;
		rank->seen = true;
		memset(&rank->now, 0, sizeof(rank->now));
	}
	a->output = 0;
	a->after = a->inspected;
	return progress;
}

/* ---- looking ---- */

static void tell(struct hvd_activity *a, hvd_time now)
{
	a->told_ranks = a->n;
	a->send(json_pack("{s:s, s:f, s:b, s:I}", "t", "activity", "idle",
			  a->idle ? (double)(now - a->active) / 1e9 : 0.0, "input", a->input, "ranks",
			  (json_int_t)a->n),
		a->arg);
}

static void conclude(struct hvd_activity *a)
{
	hvd_time now = hvd_now();
	bool idle, input = a->input_seen;

	if (any_progress(a, (double)(now - a->looked) / 1e9))
		a->active = now;
	/* One look without progress may lie between two steps of the program. */
	idle = now - a->active >= a->every + a->every / 2;
	a->looked = now;
	if (idle == a->idle && (input == a->input || !idle) && (a->told_ranks == 0) == (a->n == 0))
		return;
	a->idle = idle;
	a->input = input;
	tell(a, now);
}

static void wait_for(struct hvd_activity *a, hvd_time ns)
{
	a->due = hvd_now() + ns;
	hvd_timer_at(a->timer, a->due);
}

static void on_timer(void *arg)
{
	struct hvd_activity *a = arg;

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

static void stop(struct hvd_activity *a)
{
	hvd_timer_stop(a->timer);
	hvd_processes_clear(&a->processes);
	a->every = 0;
}

static void begin(struct hvd_activity *a)
{
	for (size_t i = 0; i < a->n; i++) {
		a->ranks[i].seen = false;
		memset(&a->ranks[i].now, 0, sizeof(a->ranks[i].now));
	}
	a->looked = a->active = hvd_now();
	a->listed = a->idle = a->input = a->input_seen = false;
	a->added = a->output = 0;
	wait_for(a, 0); /* what has been used until now */
}

void hvd_activity_watch(struct hvd_activity *a, const json_t *msg)
{
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
		begin(a);
	tell(a, hvd_now());
}

/* ---- which ranks ---- */

void hvd_activity_add(struct hvd_activity *a, uint32_t rank, pid_t pid)
{
	size_t i = 0;

	while (i < a->n && a->ranks[i].rank != rank)
		i++;
	if (i == a->n)
		a->ranks = hvd_xrealloc(a->ranks, ++a->n, sizeof(*a->ranks));
	a->ranks[i] = (struct watched_rank){.rank = rank, .pid = pid};
}

void hvd_activity_remove(struct hvd_activity *a, uint32_t rank)
{
	for (size_t i = 0; i < a->n; i++)
		if (a->ranks[i].rank == rank) {
			a->ranks[i] = a->ranks[--a->n];
			a->active = hvd_now(); /* that a rank ends is progress */
			return;
		}
}

void hvd_activity_inspected(struct hvd_activity *a, bool inspected)
{
	a->inspected = inspected;
	a->after = true;
}

void hvd_activity_output(struct hvd_activity *a, size_t bytes)
{
	a->output += bytes;
}

/* ---- life ---- */

struct hvd_activity *hvd_activity_create(struct event_base *base, void (*send)(json_t *msg, void *arg), void *arg)
{
	struct hvd_activity *a = hvd_xcalloc(1, sizeof(*a));

	*a = (struct hvd_activity){.send = send, .arg = arg};
	a->timer = hvd_timer_new(base, on_timer, a);
	return a;
}

void hvd_activity_destroy(struct hvd_activity *a)
{
	if (!a)
		return;
	hvd_processes_clear(&a->processes);
	hvd_timer_free(a->timer);
	free(a->ranks);
	free(a);
}
