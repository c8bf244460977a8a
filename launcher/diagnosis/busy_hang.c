/* SPDX-License-Identifier: Apache-2.0 */
#include "busy_hang.h"

#include "lib/base/json_text.h"
#include "lib/base/xalloc.h"
#include "nccl_evidence.h"
#include "stack_groups_internal.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Of a processor: more than threads use that wake up now and then, and less than what a busy rank gets on a host with far
 * more of them than processors. */
#define BUSY_SHARE  0.05
#define SHOWN_RANKS 4
/* Operations of NCCL that a rank has called in a second, on average over the job: if there are as many, a minute without
 * one is something else than the job's usual work. */
#define OFTEN 0.2

enum state {
	WAITS,
	COLLECTIVE,
	SPINS,
	GPU,
	COMPUTES,
	UNKNOWN,
	STATES
};

struct judged {
	const char *host;
	const json_t *rank; /* in the second sample */
	json_int_t number;
	enum state state;
	bool behind; /* by NCCL's counts */
	char place[HVD_STACK_TEXT];
};

struct judgement {
	struct judged *v;
	size_t n, count[STATES];
	size_t silent; /* hosts */
	bool moves;
	enum hvd_nccl_evidence nccl;
	bool often;                /* operations of NCCL were called all the time */
	bool knows_behind;         /* all ranks that are behind are among `v` */
	json_int_t called, others; /* operations, by the last one that is behind, and by others */
};

/* ---- a rank ---- */

static const json_t *rank_of(const json_t *host, json_int_t number)
{
	json_t *rank;
	size_t r;

	json_array_foreach(json_object_get(host, "ranks"), r, rank)
	{
		if (json_is_integer(json_object_get(rank, "rank")) &&
		    json_integer_value(json_object_get(rank, "rank")) == number)
			return rank;
	}
	return NULL;
}

static bool same(const json_t *a, const json_t *b, const char *key)
{
	const json_t *x = json_object_get(a, key), *y = json_object_get(b, key);

	return (!x && !y) || json_equal(x, y);
}

static bool same_process(const json_t *a, const json_t *b)
{
	return same(a, b, "pid") && same(a, b, "frames") && same(a, b, "threads");
}

/* Are the rank's processes the same, and at the same lines? */
static bool same_place(const json_t *a, const json_t *b)
{
	const json_t *others = json_object_get(a, "others"), *those = json_object_get(b, "others");

	if (!same_process(a, b) || json_array_size(others) != json_array_size(those))
		return false;
	for (size_t i = 0; i < json_array_size(others); i++)
		if (!same_process(json_array_get(others, i), json_array_get(those, i)))
			return false;
	return true;
}

/* Is the main thread in a function by which ranks wait for each other? */
static bool in_collective(const json_t *rank)
{
	const json_t *frames = json_object_get(rank, "frames");
	json_t *frame;
	size_t i;

	json_array_foreach(frames, i, frame)
	{
		const char *file = hvd_stack_frame_text(frame, 1);

		if (strstr(file, "/torch/distributed/distributed_c10d.py") || strstr(file, "/horovod/"))
			return true;
	}
	return false;
}

/* Is the main thread in a function that waits for the rank's GPU? */
static bool in_gpu_wait(const json_t *rank)
{
	const char *file = hvd_stack_frame_text(json_array_get(json_object_get(rank, "frames"), 0), 1);

	return strstr(file, "/torch/cuda/") || strstr(file, "/torch/accelerator/");
}

static enum state state_of(const json_t *a, const json_t *b, double used, double seconds)
{
	if (used < BUSY_SHARE * seconds)
		return WAITS;
	if (strcmp(hvd_json_text(b, "how"), "py-spy") != 0)
		return UNKNOWN;
	if (in_collective(b))
		return COLLECTIVE;
	if (json_is_true(json_object_get(a, "gil")) && json_is_true(json_object_get(b, "gil")))
		return SPINS;
	return in_gpu_wait(b) ? GPU : COMPUTES;
}

/* ---- all of them ---- */

/* The hosts of an answer by their names; NULL in JSON is one that is silent. */
static json_t *hosts_of(const json_t *answers)
{
	json_t *hosts = json_object(), *one;
	size_t i;

	json_array_foreach(json_object_get(answers, "silent"), i, one)
	{
		if (json_is_string(one))
			json_object_set_new(hosts, json_string_value(one), json_null());
	}
	json_array_foreach(json_object_get(answers, "hosts"), i, one)
	{
		json_object_set(hosts, hvd_json_text(one, "host"), one);
	}
	return hosts;
}

static void judge_rank(struct judgement *all, const char *host, const json_t *a, const json_t *b, double seconds)
{
	const json_t *before = json_object_get(a, "cpu"), *after = json_object_get(b, "cpu");
	const double used = json_number_value(after) - json_number_value(before);
	struct judged *one;

	/* What has ended in between may make the sum smaller. */
	if (!a || !same_place(a, b) || used < 0) {
		all->moves = true;
		return;
	}
	all->v = hvd_xrealloc(all->v, all->n + 1, sizeof(*all->v));
	one = &all->v[all->n++];
	*one = (struct judged){.host = host, .rank = b, .number = json_integer_value(json_object_get(b, "rank"))};
	one->state = before && after ? state_of(a, b, used, seconds) : UNKNOWN;
	all->count[one->state]++;
	hvd_stack_place(b, one->place);
}

static void judge_nccl(struct judgement *all, const json_t *first, const json_t *second, double age)
{
	all->nccl = hvd_nccl_evidence(first, second);
	all->moves |= all->nccl == HVD_NCCL_MOVES;
	all->often = (double)hvd_nccl_called(second) >= OFTEN * age;
	if (all->nccl != HVD_NCCL_BEHIND)
		return;
	all->knows_behind = hvd_nccl_knows_behind(second) && !all->silent;
	hvd_nccl_counts(second, &all->called, &all->others);
	for (size_t i = 0; i < all->n; i++)
		all->v[i].behind = hvd_nccl_is_behind(second, all->v[i].number);
}

static void judge_hosts(struct judgement *all, const json_t *first, const json_t *second, double seconds)
{
	json_auto_t *earlier = hosts_of(first), *later = hosts_of(second);
	json_t *host, *rank;
	size_t h, r;

	json_array_foreach(json_object_get(second, "hosts"), h, host)
	{
		const char *name = hvd_json_text(host, "host");
		const json_t *before = json_object_get(earlier, name);

		all->moves |= json_array_size(json_object_get(before, "ranks")) !=
			      json_array_size(json_object_get(host, "ranks"));
		json_array_foreach(json_object_get(host, "ranks"), r, rank)
		{
			if (json_is_integer(json_object_get(rank, "rank")) && !all->moves)
				judge_rank(all, name,
					   rank_of(before, json_integer_value(json_object_get(rank, "rank"))), rank,
					   seconds);
		}
	}
	json_array_foreach(json_object_get(first, "hosts"), h, host)
	{
		all->moves |= !json_object_get(later, hvd_json_text(host, "host"));
	}
	all->silent = json_array_size(json_object_get(second, "silent"));
}

/* Are all ranks in the same call? */
static bool one_place(const struct judgement *all)
{
	for (size_t i = 1; i < all->n; i++)
		if (!same(all->v[0].rank, all->v[i].rank, "frames"))
			return false;
	return true;
}

/* Of the ranks that are behind, which may come to their operation: some compute, or that is not known. */
static bool behind_computes(const struct judgement *all)
{
	bool some = !all->knows_behind && all->count[GPU] + all->count[COMPUTES] > 0;

	for (size_t i = 0; i < all->n; i++)
		some |= all->v[i].behind && (all->v[i].state == GPU || all->v[i].state == COMPUTES);
	return some;
}

static enum hvd_busy_verdict verdict_of(const struct judgement *all)
{
	const size_t *n = all->count;
	const size_t own = n[SPINS] + n[GPU] + n[COMPUTES];
	const bool some_wait = n[WAITS] + n[COLLECTIVE] + all->silent > 0;

	if (all->moves || own + n[COLLECTIVE] + n[UNKNOWN] == 0)
		return HVD_BUSY_WORKS;
	if (n[UNKNOWN])
		return all->nccl == HVD_NCCL_BEHIND ? HVD_BUSY_MAY_HANG : HVD_BUSY_UNKNOWN;
	if (n[SPINS] && some_wait)
		return HVD_BUSY_HANGS;
	if (all->nccl == HVD_NCCL_BEHIND)
		return behind_computes(all) ? HVD_BUSY_MAY_HANG : HVD_BUSY_HANGS;
	if (all->nccl == HVD_NCCL_EVEN && (!own || all->often))
		return n[SPINS] + n[COMPUTES] ? HVD_BUSY_MAY_HANG : HVD_BUSY_HANGS_TOGETHER;
	if (own)
		return !some_wait && one_place(all) ? HVD_BUSY_WORKS : HVD_BUSY_MAY_HANG;
	return n[WAITS] + all->silent ? HVD_BUSY_HANGS : HVD_BUSY_MAY_HANG;
}

/* ---- words ---- */

/* "rank 3 (n2) in spin (train.py:41)" for the ranks in one of these states, a few of them; behind: only those. Returns how
 * many there are. */
static size_t put_ranks(FILE *out, const struct judgement *all, unsigned states, bool behind)
{
	size_t shown = 0, n = 0;

	for (size_t i = 0; i < all->n; i++) {
		const struct judged *one = &all->v[i];

		if (!(states >> one->state & 1U) || (behind && !one->behind))
			continue;
		n++;
		if (shown == SHOWN_RANKS)
			continue;
		fprintf(out, "%srank %lld (", shown++ ? ", " : "", (long long)one->number);
		hvd_stack_put(out, one->host);
		fputs(one->state == UNKNOWN ? ")" : ") in ", out);
		if (one->state != UNKNOWN)
			hvd_stack_put(out, one->place);
	}
	if (n > shown)
		fprintf(out, " and %zu more", n - shown);
	return n;
}

/* The ranks that the others wait for, as far as is known. */
static void put_culprits(FILE *out, const struct judgement *all)
{
	const unsigned own = 1U << SPINS | 1U << GPU | 1U << COMPUTES;

	if (all->nccl == HVD_NCCL_BEHIND && put_ranks(out, all, (1U << STATES) - 1, true) > 0)
		fprintf(out, ", behind with %lld operations of NCCL, %lld of others; ", (long long)all->called,
			(long long)all->others);
	else if (put_ranks(out, all, own, false) > 0 || put_ranks(out, all, 1U << WAITS, false) > 0)
		fputs("; ", out);
	if (all->nccl == HVD_NCCL_EVEN)
		fputs("all ranks have called as many operations of NCCL, and call no further ones; ", out);
}

static void describe(FILE *out, const struct judgement *all, enum hvd_busy_verdict verdict)
{
	const size_t *n = all->count;
	const size_t busy = n[SPINS] + n[GPU] + n[COMPUTES] + n[UNKNOWN] + n[COLLECTIVE];
	const size_t waiting = n[WAITS] + n[COLLECTIVE];

	switch (verdict) {
	case HVD_BUSY_WORKS:
		fputs(all->nccl == HVD_NCCL_MOVES ? "ranks call operations of NCCL"
		      : all->moves                ? "the stacks of ranks change"
		      : busy                      ? "all ranks compute in the same call"
						  : "processes below the ranks are busy",
		      out);
		return;
	case HVD_BUSY_UNKNOWN:
		fputs("without py-spy it is not known whether they hang: ", out);
		put_ranks(out, all, 1U << UNKNOWN, false);
		return;
	default:
		put_culprits(out, all);
		fprintf(out, "%zu %s busy", busy, busy == 1 ? "is" : "are");
		if (waiting)
			fprintf(out, ", %zu wait%s", waiting, waiting == 1 ? "s" : "");
		if (n[COLLECTIVE])
			fprintf(out, ", %zu of them busily, in a collective", n[COLLECTIVE]);
	}
}

enum hvd_busy_verdict hvd_busy_hang_judge(const json_t *first, const json_t *second, double seconds, double age,
					  char **text)
{
	struct judgement all = {0};
	enum hvd_busy_verdict verdict;
	size_t len;
	FILE *out = open_memstream(text, &len);

	judge_hosts(&all, first, second, seconds);
	judge_nccl(&all, first, second, age);
	verdict = verdict_of(&all);
	describe(out, &all, verdict);
	fclose(out);
	free(all.v);
	return verdict;
}
