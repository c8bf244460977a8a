/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rank_scan.c - a feature of the agent, whose state the others find as agent->scan. A look begins when a reader is due, lists
 * all processes, then adds up what those of ranks have used, and ends with the calls of the readers that it has served.
 */
#include "rank_scan.h"

#include "agent.h"
#include "lib/base/timer.h"
#include "lib/base/xalloc.h"

#include <stdlib.h>
#include <string.h>

#define PER_TURN     256  /* processes, or threads of ranks */
#define MOST_THREADS 8192 /* of all ranks together, of which the delay is read */
#define SOON         4    /* a reader that is due within this part of its interval is served, too */
#define LATE_SECONDS 2.0  /* a timer that is so late: this process was stopped */
#define ANCESTORS    64   /* that are looked at between a process and its rank */

struct hvd_rank_scan {
	struct hvd_agent *agent;
	struct hvd_timer *timer;
	hvd_time due; /* when the timer fires */
	TAILQ_HEAD(hvd_rank_readers, hvd_rank_reader) readers;
	struct hvd_rank_sum *ranks;
	size_t n;
	/* The look that is under way. */
	bool looking, listed;
	unsigned wants;
	size_t counted; /* so many of the ranks were there when it began */
	size_t added;   /* so many processes are in the sums */
	size_t threads; /* of which the delay may still be read */
	struct hvd_processes processes;
	struct hvd_kernel_threads kernel; /* those of the last look */
	size_t *owners;
	hvd_time at;
	int64_t cost_ns;
};

/* ---- the sums ---- */

static bool is_in_group(const struct hvd_process *process, pid_t rank)
{
	return rank > 0 && (process->group == rank || process->session == rank);
}

typedef const struct hvd_process *find_process(const struct hvd_rank_scan *scan, pid_t pid, struct hvd_process *room);

static const struct hvd_process *find_listed(const struct hvd_rank_scan *scan, pid_t pid, struct hvd_process *room)
{
	(void)room;
	return hvd_processes_find(&scan->processes, pid);
}

static const struct hvd_process *find_now(const struct hvd_rank_scan *scan, pid_t pid, struct hvd_process *room)
{
	(void)scan;
	return hvd_process_read(pid, room) == 0 ? room : NULL;
}

/* Of the first `n` ranks the one whose process it is, or that it is below; else the one whose group or session it, or one above
 * it, is in. Several ranks may be in one group: Slurm puts all tasks of a step on a host into that of the first. */
static size_t owner_of(const struct hvd_rank_scan *scan, size_t n, const struct hvd_process *process,
		       find_process *find)
{
	size_t in_group = HVD_SCAN_NO_RANK;
	struct hvd_process room;

	for (int depth = 0; process && depth < ANCESTORS; depth++) {
		for (size_t i = 0; i < n; i++) {
			if (process->pid == scan->ranks[i].pid)
				return i;
			if (in_group == HVD_SCAN_NO_RANK && is_in_group(process, scan->ranks[i].pid))
				in_group = i;
		}
		process = process->parent > 1 ? find(scan, process->parent, &room) : NULL;
	}
	return in_group;
}

/* A process that has ended since it was listed does not count. */
static void add_delay(struct hvd_rank_scan *scan, struct hvd_rank_sum *sum, const struct hvd_process *process)
{
	const int64_t ns = hvd_process_delay(process, &scan->threads);

	if (ns >= 0)
		sum->delay_ns = (sum->delay_ns > 0 ? sum->delay_ns : 0) + ns;
}

static void add_process(struct hvd_rank_scan *scan, struct hvd_rank_sum *sum, const struct hvd_process *process)
{
	struct hvd_process_io io;

	sum->runs |= process->state == 'R';
	sum->stopped |= process->state == 'T' || process->state == 't';
	sum->cpu_ns += process->cpu_ns;
	sum->faults += process->faults;
	sum->memory += process->memory;
	if (hvd_process_io(process->pid, &io) == 0) {
		sum->io_known = true;
		sum->io.read += io.read;
		sum->io.bytes += io.bytes;
		sum->io.written += io.written;
		sum->io.writes += io.writes;
	}
	if (scan->wants & HVD_SCAN_INPUT)
		sum->input |= process->state == 'S' && hvd_waits_for_input(process->pid, sum->pid);
	if (scan->wants & HVD_SCAN_DELAY && !process->ending)
		add_delay(scan, sum, process);
}

/* Add up what the next processes have used. True when all are added. */
static bool add_some(struct hvd_rank_scan *scan)
{
	for (size_t left = PER_TURN, used; scan->added < scan->processes.n && left > 0;
	     left -= left < used ? left : used) {
		const struct hvd_process *process = &scan->processes.v[scan->added];
		const size_t owner = owner_of(scan, scan->counted, process, find_listed), threads = scan->threads;

		scan->owners[scan->added++] = owner;
		if (owner != HVD_SCAN_NO_RANK)
			add_process(scan, &scan->ranks[owner], process);
		used = 1 + threads - scan->threads;
	}
	return scan->added == scan->processes.n;
}

/* ---- looks ---- */

static void plan_next(struct hvd_rank_scan *scan)
{
	const struct hvd_rank_reader *reader;

	hvd_timer_stop(scan->timer);
	scan->due = INT64_MAX;
	for (reader = TAILQ_FIRST(&scan->readers); reader; reader = TAILQ_NEXT(reader, link))
		if (reader->every > 0 && reader->due < scan->due)
			scan->due = reader->due;
	if (scan->due < INT64_MAX)
		hvd_timer_at(scan->timer, scan->due);
}

static void begin_look(struct hvd_rank_scan *scan)
{
	struct hvd_rank_reader *reader;

	scan->looking = true;
	scan->at = hvd_now();
	scan->wants = 0;
	for (reader = TAILQ_FIRST(&scan->readers); reader; reader = TAILQ_NEXT(reader, link)) {
		reader->served = reader->every > 0 && reader->due - scan->at <= reader->every / SOON;
		scan->wants |= reader->served ? reader->wants : 0;
	}
	for (size_t i = 0; i < scan->n; i++)
		scan->ranks[i] =
			(struct hvd_rank_sum){.id = scan->ranks[i].id, .pid = scan->ranks[i].pid, .delay_ns = -1};
	scan->counted = scan->n;
	scan->threads = MOST_THREADS;
	scan->added = 0;
	scan->cost_ns = 0;
}

static void end_look(struct hvd_rank_scan *scan)
{
	hvd_processes_clear(&scan->processes);
	free(scan->owners);
	scan->owners = NULL;
	scan->looking = scan->listed = false;
	plan_next(scan);
}

/* A rank that has ended during the look has left its place. */
static void remove_ended(struct hvd_rank_scan *scan)
{
	size_t *now = hvd_xcalloc(scan->n + 1, sizeof(*now)), n = 0;

	for (size_t i = 0; i < scan->n; i++) {
		now[i] = scan->ranks[i].pid > 0 ? n : HVD_SCAN_NO_RANK;
		if (scan->ranks[i].pid > 0)
			scan->ranks[n++] = scan->ranks[i];
		if (i + 1 == scan->counted)
			scan->counted = n;
	}
	for (size_t i = 0; i < scan->processes.n; i++)
		scan->owners[i] = scan->owners[i] == HVD_SCAN_NO_RANK ? HVD_SCAN_NO_RANK : now[scan->owners[i]];
	scan->n = n;
	free(now);
}

static void conclude(struct hvd_rank_scan *scan)
{
	const hvd_time now = hvd_now();
	struct hvd_rank_reader *reader;
	struct hvd_rank_look look;

	remove_ended(scan);
	for (size_t i = 0; i < scan->counted && scan->threads == 0; i++)
		scan->ranks[i].delay_ns = -1; /* of some threads it was not read */
	look = (struct hvd_rank_look){.at = scan->at,
				      .cost_ns = scan->cost_ns,
				      .ranks = scan->ranks,
				      .n = scan->counted,
				      .processes = &scan->processes,
				      .owners = scan->owners};
	for (reader = TAILQ_FIRST(&scan->readers); reader; reader = TAILQ_NEXT(reader, link)) {
		if (!reader->served || reader->every == 0)
			continue;
		reader->due = now + reader->every;
		look.late = reader->late;
		reader->late = false;
		reader->looked(&look, reader->arg);
	}
	end_look(scan);
}

/* One turn. True when all has been looked at. */
static bool look_on(struct hvd_rank_scan *scan)
{
	const int64_t began = hvd_thread_cpu_ns();
	bool done = false;

	if (!scan->listed) {
		scan->listed = hvd_processes_read(&scan->processes, PER_TURN);
		if (scan->listed)
			scan->owners = hvd_xcalloc(scan->processes.n + 1, sizeof(*scan->owners));
	} else {
		done = add_some(scan);
	}
	scan->cost_ns += hvd_thread_cpu_ns() - began;
	return done;
}

static void on_timer(void *arg)
{
	struct hvd_rank_scan *scan = arg;
	struct hvd_rank_reader *reader;

	if (hvd_now() - scan->due > (hvd_time)(LATE_SECONDS * 1e9))
		for (reader = TAILQ_FIRST(&scan->readers); reader; reader = TAILQ_NEXT(reader, link))
			reader->late = true;
	if (!scan->looking)
		begin_look(scan);
	if (look_on(scan)) {
		conclude(scan);
	} else {
		scan->due = hvd_now();
		hvd_timer_at(scan->timer, scan->due);
	}
}

void hvd_rank_scan_every(struct hvd_agent *agent, struct hvd_rank_reader *reader, hvd_time every)
{
	struct hvd_rank_scan *scan = agent->scan;

	if (!reader->known)
		TAILQ_INSERT_TAIL(&scan->readers, reader, link);
	reader->known = true;
	if (reader->every == 0) {
		reader->due = hvd_now();
		reader->late = reader->served = false;
	}
	reader->every = every;
	if (!scan->looking)
		plan_next(scan);
}

const struct hvd_rank_sum *hvd_rank_look_find(const struct hvd_rank_look *look, pid_t pid, size_t place)
{
	for (size_t i = 0; i < look->n; i++) {
		const struct hvd_rank_sum *sum = &look->ranks[(place + i) % look->n];

		if (sum->pid == pid)
			return sum;
	}
	return NULL;
}

/* ---- which ranks ---- */

static void rank_ended(void *arg, struct hvd_world_rank rank)
{
	struct hvd_rank_scan *scan = arg;

	for (size_t i = 0; i < scan->n; i++)
		if (hvd_world_rank_same(scan->ranks[i].id, rank) && scan->looking)
			scan->ranks[i].pid = 0;
		else if (hvd_world_rank_same(scan->ranks[i].id, rank))
			scan->ranks[i--] = scan->ranks[--scan->n];
}

static void rank_began(void *arg, struct hvd_world_rank rank, pid_t pid)
{
	struct hvd_rank_scan *scan = arg;

	rank_ended(scan, rank); /* its process was another one */
	scan->ranks = hvd_xrealloc(scan->ranks, scan->n + 1, sizeof(*scan->ranks));
	scan->ranks[scan->n++] = (struct hvd_rank_sum){.id = rank, .pid = pid};
}

const struct hvd_rank_sum *hvd_rank_scan_next(const struct hvd_rank_scan *scan, unsigned world, size_t *i)
{
	while (*i < scan->n) {
		const struct hvd_rank_sum *rank = &scan->ranks[(*i)++];

		if (rank->pid > 0 && rank->id.world == world)
			return rank;
	}
	return NULL;
}

const struct hvd_rank_sum *hvd_rank_scan_owner(const struct hvd_rank_scan *scan, pid_t pid)
{
	struct hvd_process process;
	size_t i = pid > 1 && hvd_process_read(pid, &process) == 0 ? owner_of(scan, scan->n, &process, find_now)
								   : HVD_SCAN_NO_RANK;

	return i == HVD_SCAN_NO_RANK ? NULL : &scan->ranks[i];
}

/* ---- life ---- */

static void begin(void *arg)
{
	struct hvd_rank_scan *scan = arg;

	TAILQ_INIT(&scan->readers);
	scan->timer = hvd_timer_new(scan->agent->base, on_timer, scan);
	scan->agent->scan = scan;
	scan->processes.kernel = &scan->kernel;
}

static void end(void *arg)
{
	struct hvd_rank_scan *scan = arg;

	hvd_processes_clear(&scan->processes);
	hvd_kernel_threads_clear(&scan->kernel);
	hvd_timer_free(scan->timer);
	free(scan->owners);
	free(scan->ranks);
	scan->agent->scan = NULL;
}

const struct hvd_feature hvd_rank_scan_feature = {
	.size = sizeof(struct hvd_rank_scan),
	.begin = begin,
	.rank_began = rank_began,
	.rank_ended = rank_ended,
	.end = end,
};
