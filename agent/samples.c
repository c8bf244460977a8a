/* SPDX-License-Identifier: Apache-2.0 */
/*
 * samples.c - what the ranks of this host use (lib/host/rank_usage.h), every `sample` seconds from the plan on.
 *
 *   {"t":"usage", "ranks":[…]}       from the second look on, with the ranks of which a figure has changed noticeably
 *
 * A figure has changed noticeably since the rank's last message if it has become known or unknown, or differs
 *   cpu, delay, gpu     by more than 5 points and 10 %
 *   memory, gpu_memory  by more than 2 %
 *   read, written       by a factor of 2 and 10 kB/s
 *   output              by more than 20 s from what follows from the last message
 *   awaited             by 100 thousandths or more
 *   steps               by more than 5 and 20 %
 * Each rank is in a message at least once in HVD_RANK_USAGE_SECONDS.
 *
 * The rates of a look are those since the look before. The time of the last output is known where all output of a rank
 * passes here. Looking takes less than half a percent of a processor: if looks at /proc (rank_scan.h) or at connections
 * (awaited.h) cost more they become rarer, and a GPU's figures come from a process of their own (gpu_usage.h).
 */
#include "agent.h"
#include "awaited.h"
#include "gpu_usage.h"
#include "lib/base/xalloc.h"
#include "lib/host/rank_usage.h"
#include "rank_scan.h"

#include <stdlib.h>
#include <string.h>

#define SHARE         400 /* a look at /proc may cost one part in so many of a processor */
#define LEAST_NS      100000000LL
#define LEAST_SOCKETS 200000000LL /* between two looks at connections */
#define SOCKETS       5           /* so many looks at connections for one at /proc */
#define OUTPUT_OFF    20          /* seconds */
#define RATE_OFF      10000       /* bytes a second */

struct sampled_rank {
	struct hvd_world_rank id;
	pid_t pid;
	hvd_time output; /* its last output, or its begin */
	bool all_output; /* all of its output passes here */
	bool seen;       /* `last` is that of the last look */
	struct hvd_rank_sum last;
	hvd_time told_at; /* 0: not yet */
	struct hvd_rank_usage told;
};

struct samples {
	struct hvd_agent *agent;
	struct hvd_rank_reader reader;
	struct hvd_awaited *awaited; /* NULL: nothing is looked at, or the kernel does not say */
	struct hvd_gpu_usage *gpu;   /* NULL: the same */
	hvd_time every;              /* 0: nothing is looked at */
	hvd_time last_look;
	struct sampled_rank *ranks;
	size_t n;
};

/* ---- figures ---- */

/* What has ended since the last look makes a sum smaller. */
static int64_t rate(int64_t now, int64_t last, int64_t unit, hvd_time elapsed, int64_t most)
{
	const double value = now > last && elapsed > 0 ? (double)(now - last) * (double)unit / (double)elapsed : 0;

	return value < (double)most ? (int64_t)value : most;
}

#define MOST_THOUSANDTHS 100000000

static struct hvd_rank_usage figures(const struct samples *samples, const struct sampled_rank *rank,
				     const struct hvd_rank_sum *now, const struct hvd_rank_look *look)
{
	const struct hvd_rank_sum *last = &rank->last;
	const hvd_time elapsed = look->at - samples->last_look;
	const bool io = now->io_known && last->io_known, delay = now->delay_ns >= 0 && last->delay_ns >= 0;
	const int64_t quiet = (hvd_now() - rank->output) / 1000000000;
	int64_t steps;
	const int64_t awaited = hvd_awaited_of(samples->awaited, rank->pid, &steps);

	return (struct hvd_rank_usage){
		.rank = rank->id.rank,
		.cpu = rate(now->cpu_ns, last->cpu_ns, 1000, elapsed, MOST_THOUSANDTHS),
		.delay = delay ? rate(now->delay_ns, last->delay_ns, 1000, elapsed, MOST_THOUSANDTHS)
			       : HVD_USAGE_UNKNOWN,
		.memory = now->memory < INT64_MAX ? (int64_t)now->memory : INT64_MAX,
		.read = io ? rate((int64_t)now->io.read, (int64_t)last->io.read, 1000000000, elapsed, INT64_MAX / 2)
			   : HVD_USAGE_UNKNOWN,
		.written = io ? rate((int64_t)now->io.written, (int64_t)last->io.written, 1000000000, elapsed,
				     INT64_MAX / 2)
			      : HVD_USAGE_UNKNOWN,
		.output = rank->all_output ? (quiet < INT32_MAX ? quiet : INT32_MAX) : HVD_USAGE_UNKNOWN,
		.awaited = awaited,
		.steps = steps,
		.gpu = HVD_USAGE_UNKNOWN,
		.gpu_memory = HVD_USAGE_UNKNOWN};
}

/* Do they differ by more than this, and by more than this share of the larger one? Unknown differs from all else. */
static bool differs(int64_t a, int64_t b, int64_t most, double share)
{
	const int64_t larger = a > b ? a : b, smaller = a > b ? b : a;

	if (smaller < 0)
		return larger >= 0;
	return larger - smaller > most && (double)(larger - smaller) > share * (double)larger;
}

static bool has_changed(const struct hvd_rank_usage *told, const struct hvd_rank_usage *now, int64_t seconds)
{
	const int64_t output = told->output < 0 ? told->output : told->output + seconds;

	return differs(told->cpu, now->cpu, 50, 0.1) || differs(told->delay, now->delay, 50, 0.1) ||
	       differs(told->memory, now->memory, 0, 0.02) || differs(told->read, now->read, RATE_OFF, 0.5) ||
	       differs(told->written, now->written, RATE_OFF, 0.5) || differs(output, now->output, OUTPUT_OFF, 0) ||
	       differs(told->awaited, now->awaited, 99, 0) || differs(told->steps, now->steps, 5, 0.2) ||
	       differs(told->gpu, now->gpu, 50, 0.1) || differs(told->gpu_memory, now->gpu_memory, 0, 0.02);
}

/* ---- looks ---- */

static struct sampled_rank *find(struct samples *samples, struct hvd_world_rank rank)
{
	for (size_t i = 0; i < samples->n; i++)
		if (hvd_world_rank_same(samples->ranks[i].id, rank))
			return &samples->ranks[i];
	return NULL;
}

/* What the last look at the GPUs has found, and begin the next one. */
static void add_gpu(const struct samples *samples, const struct hvd_rank_look *look, struct hvd_rank_usage *usages)
{
	const struct hvd_processes *processes = look->processes;
	pid_t *pids;
	size_t n = 0;

	if (!samples->gpu)
		return;
	pids = hvd_xcalloc(processes->n + 1, sizeof(*pids));
	for (size_t i = 0; i < processes->n; i++) {
		const size_t owner = look->owners[i];

		if (owner == HVD_SCAN_NO_RANK)
			continue;
		pids[n++] = processes->v[i].pid;
		hvd_gpu_usage_add(samples->gpu, processes->v[i].pid, &usages[owner].gpu, &usages[owner].gpu_memory);
	}
	hvd_gpu_usage_look(samples->gpu, pids, n);
	samples->agent->helper = hvd_gpu_usage_pid(samples->gpu);
	free(pids);
}

/* Into the list of the rank's world. */
static void tell(struct samples *samples, struct sampled_rank *rank, const struct hvd_rank_usage *usage,
		 json_t *ranks[HVD_MAX_WORLDS])
{
	const hvd_time now = hvd_now(), since = now - rank->told_at;
	/* The next look may be late. */
	const hvd_time most = (hvd_time)HVD_RANK_USAGE_SECONDS * 1000000000 - 2 * samples->every;

	if (rank->told_at && since < most && !has_changed(&rank->told, usage, since / 1000000000))
		return;
	rank->told = *usage;
	rank->told_at = now;
	if (!ranks[rank->id.world])
		ranks[rank->id.world] = json_array();
	json_array_append_new(ranks[rank->id.world], hvd_rank_usage_json(usage));
}

/* Looks cost more where there are more processes. */
static void choose_interval(struct samples *samples, const struct hvd_rank_look *look)
{
	const hvd_time least = look->cost_ns * SHARE;

	hvd_rank_scan_every(samples->agent, &samples->reader, least > samples->every ? least : samples->every);
}

static void looked(const struct hvd_rank_look *look, void *arg)
{
	struct samples *samples = arg;
	struct hvd_rank_usage *usages = hvd_xcalloc(look->n + 1, sizeof(*usages));
	json_t *ranks[HVD_MAX_WORLDS] = {NULL};

	for (size_t i = 0; i < look->n; i++) {
		struct sampled_rank *rank = find(samples, look->ranks[i].id);

		usages[i].gpu = usages[i].gpu_memory = HVD_USAGE_UNKNOWN;
		if (rank && rank->seen && rank->pid == look->ranks[i].pid)
			usages[i] = figures(samples, rank, &look->ranks[i], look);
	}
	add_gpu(samples, look, usages);
	for (size_t i = 0; i < look->n; i++) {
		struct sampled_rank *rank = find(samples, look->ranks[i].id);

		if (!rank || rank->pid != look->ranks[i].pid)
			continue;
		if (rank->seen)
			tell(samples, rank, &usages[i], ranks);
		rank->seen = true;
		rank->last = look->ranks[i];
	}
	hvd_awaited_ranks(samples->awaited, look);
	samples->last_look = look->at;
	for (unsigned w = 0; w < HVD_MAX_WORLDS; w++)
		if (ranks[w])
			hvd_driver_client_send(
				samples->agent->driver,
				hvd_world_mark(json_pack("{s:s, s:o}", "t", "usage", "ranks", ranks[w]), w));
	free(usages);
	choose_interval(samples, look);
}

/* ---- events ---- */

static int on_plan(void *arg, const json_t *plan, struct hvd_err *err)
{
	struct samples *samples = arg;
	const hvd_time every = (hvd_time)(samples->agent->settings.sample * 1e9);
	hvd_time sockets = every / SOCKETS;

	(void)plan;
	(void)err;
	if (samples->every > 0 || every <= 0)
		return 0;
	samples->every = every > LEAST_NS ? every : LEAST_NS;
	samples->awaited = hvd_awaited_create(samples->agent->base, sockets > LEAST_SOCKETS ? sockets : LEAST_SOCKETS);
	samples->gpu = hvd_gpu_usage_create(samples->agent->base, "", HVD_GPU_USAGE_SECONDS);
	hvd_rank_scan_every(samples->agent, &samples->reader, samples->every);
	return 0;
}

static void rank_ended(void *arg, struct hvd_world_rank rank)
{
	struct samples *samples = arg;
	struct sampled_rank *known = find(samples, rank);

	if (known)
		*known = samples->ranks[--samples->n];
}

static void rank_began(void *arg, struct hvd_world_rank rank, pid_t pid)
{
	struct samples *samples = arg;

	rank_ended(samples, rank); /* its process was another one */
	samples->ranks = hvd_xrealloc(samples->ranks, samples->n + 1, sizeof(*samples->ranks));
	samples->ranks[samples->n++] = (struct sampled_rank){.id = rank, .pid = pid, .output = hvd_now()};
}

static void rank_output(void *arg, struct hvd_world_rank rank, size_t bytes)
{
	struct sampled_rank *known = find(arg, rank);

	if (!known)
		return;
	known->output = hvd_now();
	known->all_output = known->all_output || bytes == 0;
}

/* ---- life ---- */

static void begin(void *arg)
{
	struct samples *samples = arg;

	samples->reader = (struct hvd_rank_reader){.wants = HVD_SCAN_DELAY, .looked = looked, .arg = samples};
}

static void end(void *arg)
{
	struct samples *samples = arg;

	hvd_awaited_destroy(samples->awaited);
	hvd_gpu_usage_destroy(samples->gpu);
	free(samples->ranks);
}

const struct hvd_feature hvd_samples_feature = {
	.size = sizeof(struct samples),
	.plan = on_plan,
	.begin = begin,
	.rank_began = rank_began,
	.rank_output = rank_output,
	.rank_ended = rank_ended,
	.end = end,
};
