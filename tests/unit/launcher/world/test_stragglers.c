/* SPDX-License-Identifier: Apache-2.0 */
/* Which ranks hold up the others: by figures, and that chance finds none. */
#include "launcher/world/stragglers.h"

#include "tests/unit/unit.h"

#include <math.h>

#define MOST 1000

struct world {
	struct hvd_stragglers *stragglers;
	struct hvd_rank_usage v[MOST];
	size_t n;
	int slow, even; /* calls */
	struct hvd_straggler last;
};

static void on_change(const struct hvd_straggler *straggler, bool slow, void *arg)
{
	struct world *w = arg;

	w->slow += slow;
	w->even += !slow;
	w->last = *straggler;
}

static void begin(struct world *w, size_t n)
{
	hvd_stragglers_destroy(w->stragglers);
	w->stragglers = hvd_stragglers_create();
	hvd_stragglers_begin(w->stragglers, (uint32_t)n);
	w->n = n;
	w->slow = w->even = 0;
	for (size_t i = 0; i < n; i++)
		w->v[i] = (struct hvd_rank_usage){.rank = (uint32_t)i, .cpu = 400, .awaited = 20, .steps = 60};
}

static void set_steps(struct world *w, int64_t steps)
{
	for (size_t i = 0; i < w->n; i++)
		w->v[i].steps = steps;
}

SETUP(up, struct world, w)
{
	begin(w, 8);
}

TEARDOWN(down, struct world, w)
{
	hvd_stragglers_destroy(w->stragglers);
}

static void evaluate(struct world *w, int times)
{
	while (times-- > 0)
		hvd_stragglers_evaluate(w->stragglers, w->v, w->n, on_change, w);
}

TEST_IN(test_slow_after_three_evaluations, struct world *w)
{
	w->v[3].awaited = 916;
	evaluate(w, 2);
	assert_int_equal(w->slow, 0);
	assert_null(hvd_stragglers_get(w->stragglers, 3));
	evaluate(w, 1);
	assert_int_equal(w->slow, 1);
	assert_int_equal(w->last.rank, 3);
	assert_int_equal(w->last.awaited, 916);
	assert_int_equal(w->last.others, 20);
	assert_int_equal(hvd_stragglers_get(w->stragglers, 3)->rank, 3);
	evaluate(w, 3);
	assert_int_equal(w->slow, 1);
	assert_int_equal(w->even, 0);
}

TEST_IN(test_not_slow_in_two_evaluations_of_three, struct world *w)
{
	for (int i = 0; i < 9; i++) {
		w->v[3].awaited = i % 3 ? 916 : 20;
		evaluate(w, 1);
	}
	assert_int_equal(w->slow, 0);
}

TEST_IN(test_even_again, struct world *w)
{
	w->v[3].awaited = 916;
	evaluate(w, 3);
	w->v[3].awaited = 450; /* below where it became slow */
	evaluate(w, 4);
	assert_int_equal(w->even, 0);
	w->v[3].awaited = 333;
	evaluate(w, 2);
	assert_int_equal(w->even, 0);
	evaluate(w, 1);
	assert_int_equal(w->even, 1);
	assert_int_equal(w->last.awaited, 333);
	assert_null(hvd_stragglers_get(w->stragglers, 3));
}

TEST_IN(test_two_ranks, struct world *w)
{
	begin(w, 2);
	w->v[1].awaited = 1000;
	evaluate(w, 3);
	assert_int_equal(w->slow, 1);
	begin(w, 2); /* as two that are slow in turn */
	w->v[0].awaited = 250;
	w->v[1].awaited = 750;
	set_steps(w, 12);
	evaluate(w, 9);
	assert_int_equal(w->slow, 0);
	begin(w, 1);
	w->v[0].awaited = 1000;
	evaluate(w, 9);
	assert_int_equal(w->slow, 0);
}

TEST_IN(test_several_are_slow, struct world *w)
{
	w->v[1].awaited = w->v[2].awaited = w->v[6].awaited = 880;
	evaluate(w, 3);
	assert_int_equal(w->slow, 3);
	begin(w, 8); /* most of them: these are the world */
	for (int i = 0; i < 5; i++)
		w->v[i].awaited = 880;
	evaluate(w, 9);
	assert_int_equal(w->slow, 0);
}

TEST_IN(test_ranks_that_differ_anyway, struct world *w)
{
	for (size_t i = 0; i < 8; i++)
		w->v[i].awaited = (int64_t)i * 130;
	evaluate(w, 9);
	assert_int_equal(w->slow, 0);
}

TEST_IN(test_ranks_that_are_not_known, struct world *w)
{
	struct hvd_rank_usage all[8];

	w->v[3].awaited = 950;
	evaluate(w, 3);
	assert_int_equal(w->slow, 1);
	w->v[3].awaited = HVD_USAGE_UNKNOWN;
	evaluate(w, 3);
	assert_int_equal(w->even, 1);
	w->v[3].awaited = 950;
	evaluate(w, 3);
	/* It has ended: the list is without it. */
	memcpy(all, w->v, sizeof(all));
	memmove(w->v + 3, all + 4, 4 * sizeof(all[0]));
	w->n = 7;
	evaluate(w, 1);
	assert_int_equal(w->even, 1);
	assert_null(hvd_stragglers_get(w->stragglers, 3));
	assert_null(hvd_stragglers_get(w->stragglers, 8));
	w->n = 0;
	evaluate(w, 1);
}

static const char *why(struct world *w, struct hvd_rank_usage r)
{
	begin(w, 8);
	r.rank = 5;
	r.awaited = 920;
	r.steps = 60;
	w->v[5] = r;
	evaluate(w, 3);
	assert_int_equal(w->slow, 1);
	assert_in(w->last.why, "its peers wait for it 92 % of the time, and for the others 2 %: ");
	return w->last.why;
}

TEST_IN(test_why, struct world *w)
{
	assert_in(why(w, (struct hvd_rank_usage){.cpu = 370, .delay = 630}),
		  "its processors are taken by other processes (63 % of the time it waits for one)");
	assert_in(why(w, (struct hvd_rank_usage){.cpu = 990}), "it computes while the others wait");
	assert_in(why(w, (struct hvd_rank_usage){.cpu = 300, .read = 120000000}), "it reads 120 MB/s");
	assert_in(why(w, (struct hvd_rank_usage){.cpu = 20, .delay = HVD_USAGE_UNKNOWN, .read = HVD_USAGE_UNKNOWN}),
		  "it waits outside of the collectives");
}

/* It waits for a processor much more than its peers, and need not be awaited for half of the time. */
TEST_IN(test_a_rank_that_lacks_processors, struct world *w)
{
	for (size_t i = 0; i < 8; i++)
		w->v[i].delay = 100;
	w->v[5].awaited = 350;
	evaluate(w, 9);
	assert_int_equal(w->slow, 0);
	for (size_t i = 0; i < 8; i++)
		w->v[i].delay = 400; /* all of them do, on a busy machine */
	w->v[5].delay = 600;
	evaluate(w, 9);
	assert_int_equal(w->slow, 0);
	w->v[5].delay = 900; /* what explains is no single figure */
	evaluate(w, 1);
	w->v[5].delay = 500;
	evaluate(w, 9);
	assert_int_equal(w->slow, 0);
	w->v[5].delay = 900;
	evaluate(w, 9);
	assert_int_equal(w->slow, 1);
	assert_in(w->last.why,
		  "its peers wait for it 35 % of the time, and for the others 2 %: its processors are taken");
	w->v[5].awaited = 250;
	evaluate(w, 9);
	assert_int_equal(w->even, 0);
	w->v[5].delay = 400;
	evaluate(w, 9);
	assert_int_equal(w->even, 1);
}

/* All looks may have shown the same wait, as for a checkpoint. */
TEST_IN(test_looks_at_one_step_show_one_step, struct world *w)
{
	begin(w, 4);
	set_steps(w, 3);
	w->v[1].awaited = 900;
	evaluate(w, 6);
	assert_int_equal(w->slow, 0);
	set_steps(w, 0);
	evaluate(w, 100);
	assert_int_equal(w->slow, 0);
}

/* Steps of many seconds: always the same rank is the last one, for minutes. */
TEST_IN(test_slow_in_long_steps, struct world *w)
{
	begin(w, 4);
	set_steps(w, 6);
	w->v[1].awaited = 900;
	evaluate(w, 12);
	assert_int_equal(w->slow, 0);
	w->v[1].awaited = 400;
	evaluate(w, 1);
	w->v[1].awaited = 900;
	evaluate(w, 12);
	assert_int_equal(w->slow, 0);
	evaluate(w, 24);
	assert_int_equal(w->slow, 1);
}

TEST_IN(test_many_at_once, struct world *w)
{
	begin(w, MOST);
	for (size_t i = 0; i < MOST; i += 3)
		w->v[i].awaited = 800 + (int64_t)(i % 200);
	evaluate(w, 3);
	assert_int_equal(w->slow, (MOST + 2) / 3);
}

/* ---- chance ---- */

#define PARTS 12 /* of a minute, as in an agent */
#define PART  5  /* looks, one a second */

/* A rank of a simulated training. */
struct trainee {
	double arrival, last; /* when it begins the collective of this step; of the step before */
	struct {
		int awaited, steps;
	} parts[PARTS];
};

/* A factor by which a step of a rank is longer than the others, whose logarithm is about normal. */
static double factor(double spread, uint32_t *seed)
{
	double sum = -2;

	for (int i = 0; i < 4; i++)
		sum += dice(seed) / (double)UINT32_MAX;
	return exp(spread * sum * 1.7);
}

/* Even ranks train for ten minutes, in steps of so many seconds. Each begins the collective when it has computed; the step ends
 * when the last one has. A look finds a rank awaited when another one has begun the collective, and it has not. */
static void even_job(struct world *w, size_t n, double step, double spread, uint32_t *seed)
{
	static struct trainee ranks[MOST];
	double end = 0, first = 0;

	begin(w, n);
	memset(ranks, 0, sizeof(ranks));
	for (int second = 1; second < 11 * 60; second++) {
		const int part = second / PART % PARTS;

		while (end < second) {
			const double start = end;

			first = INFINITY;
			for (size_t i = 0; i < n; i++) {
				ranks[i].last = ranks[i].arrival;
				ranks[i].arrival = start + step * factor(spread, seed);
				first = fmin(first, ranks[i].arrival);
				end = fmax(end, ranks[i].arrival);
			}
		}
		for (size_t i = 0; i < n; i++) {
			struct trainee *rank = &ranks[i];

			if (second % PART == 0)
				memset(&rank->parts[part], 0, sizeof(rank->parts[part]));
			rank->parts[part].awaited += first < second && second < rank->arrival;
			rank->parts[part].steps += (rank->arrival < second ? rank->arrival : rank->last) > second - 1;
		}
		if (second % HVD_STRAGGLERS_SECONDS || second < 60)
			continue;
		for (size_t i = 0; i < n; i++) {
			w->v[i].awaited = w->v[i].steps = 0;
			for (int p = 0; p < PARTS; p++) {
				w->v[i].awaited += ranks[i].parts[p].awaited;
				w->v[i].steps += ranks[i].parts[p].steps;
			}
			w->v[i].awaited = 1000 * w->v[i].awaited / ((PARTS - 1) * PART + second % PART + 1);
		}
		evaluate(w, 1);
	}
}

/* HVD_STRAGGLER_JOBS=N: N times as many jobs. */
TEST_IN(test_an_even_job_marks_nobody, struct world *w)
{
	static const size_t sizes[] = {2, 3, 4, 8, 64, MOST};
	static const double steps[] = {0.2, 1, 5, 20}, spreads[] = {0.1, 0.3, 0.6};
	const char *more = getenv("HVD_STRAGGLER_JOBS");
	uint32_t seed = 20240607;

	for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++)
		for (size_t d = 0; d < sizeof(steps) / sizeof(steps[0]); d++)
			for (size_t p = 0; p < sizeof(spreads) / sizeof(spreads[0]); p++) {
				const size_t one = sizes[s] < 10 ? 4 : 1,
					     jobs = one * (more ? strtoul(more, NULL, 10) : 1);

				for (size_t j = 0; j < jobs; j++) {
					even_job(w, sizes[s], sizes[s] == MOST ? 5 * steps[d] : steps[d], spreads[p],
						 &seed);
					if (w->slow)
						fail_msg("one of %zu ranks is slow, steps of %g s, spread %g, job %zu",
							 sizes[s], steps[d], spreads[p], j);
				}
			}
}

RUN_TESTS(.setup = up, .teardown = down)
