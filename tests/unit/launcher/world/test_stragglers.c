/* SPDX-License-Identifier: Apache-2.0 */
/* Which ranks hold up the others: by figures, and that chance finds none. */
#include "launcher/world/stragglers.h"

#include "tests/unit/unit.h"

#define MOST  1000
#define LOOKS 12

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

static void begin(struct world *w, size_t n, unsigned looks)
{
	hvd_stragglers_destroy(w->stragglers);
	w->stragglers = hvd_stragglers_create(looks);
	hvd_stragglers_begin(w->stragglers, (uint32_t)n);
	w->n = n;
	w->slow = w->even = 0;
	for (size_t i = 0; i < n; i++)
		w->v[i] = (struct hvd_rank_usage){.rank = (uint32_t)i, .cpu = 400, .awaited = 20};
}

SETUP(up, struct world, w)
{
	begin(w, 8, LOOKS);
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

TEST_IN(test_slow_after_two_evaluations, struct world *w)
{
	w->v[3].awaited = 916;
	evaluate(w, 1);
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

TEST_IN(test_not_slow_in_one_evaluation_of_two, struct world *w)
{
	for (int i = 0; i < 6; i++) {
		w->v[3].awaited = i % 2 ? 20 : 916;
		evaluate(w, 1);
	}
	assert_int_equal(w->slow, 0);
}

TEST_IN(test_even_again, struct world *w)
{
	w->v[3].awaited = 916;
	evaluate(w, 2);
	w->v[3].awaited = 450; /* below where it became slow */
	evaluate(w, 4);
	assert_int_equal(w->even, 0);
	w->v[3].awaited = 333;
	evaluate(w, 1);
	assert_int_equal(w->even, 0);
	evaluate(w, 1);
	assert_int_equal(w->even, 1);
	assert_int_equal(w->last.awaited, 333);
	assert_null(hvd_stragglers_get(w->stragglers, 3));
}

TEST_IN(test_two_ranks, struct world *w)
{
	begin(w, 2, LOOKS);
	w->v[1].awaited = 1000;
	evaluate(w, 2);
	assert_int_equal(w->slow, 1);
	begin(w, 2, LOOKS); /* as two that are slow in turn */
	w->v[0].awaited = 250;
	w->v[1].awaited = 750;
	evaluate(w, 9);
	assert_int_equal(w->slow, 0);
	begin(w, 1, LOOKS);
	w->v[0].awaited = 1000;
	evaluate(w, 9);
	assert_int_equal(w->slow, 0);
}

TEST_IN(test_several_are_slow, struct world *w)
{
	w->v[1].awaited = w->v[2].awaited = w->v[6].awaited = 880;
	evaluate(w, 2);
	assert_int_equal(w->slow, 3);
	begin(w, 8, LOOKS); /* most of them: these are the world */
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
	evaluate(w, 2);
	assert_int_equal(w->slow, 1);
	w->v[3].awaited = HVD_USAGE_UNKNOWN;
	evaluate(w, 2);
	assert_int_equal(w->even, 1);
	w->v[3].awaited = 950;
	evaluate(w, 2);
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
	begin(w, 8, LOOKS);
	r.rank = 5;
	r.awaited = 920;
	w->v[5] = r;
	evaluate(w, 2);
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

TEST_IN(test_many_at_once, struct world *w)
{
	begin(w, MOST, LOOKS);
	for (size_t i = 0; i < MOST; i += 3)
		w->v[i].awaited = 800 + (int64_t)(i % 200);
	evaluate(w, 2);
	assert_int_equal(w->slow, (MOST + 2) / 3);
}

/* ---- chance ---- */

/* Ranks of an even job for ten minutes: each look finds each of them awaited with the same probability. */
static void even_job(struct world *w, size_t n, unsigned looks, double probability, uint32_t *seed)
{
	static uint64_t window[MOST]; /* the last looks, a bit each */
	const uint32_t limit = (uint32_t)(probability * UINT32_MAX);

	begin(w, n, looks);
	memset(window, 0, sizeof(window));
	for (unsigned look = 0; look < 11 * looks; look++) {
		for (size_t i = 0; i < n; i++)
			window[i] = window[i] << 1 | (dice(seed) < limit);
		if (look < looks - 1 || look % (looks / 4))
			continue;
		for (size_t i = 0; i < n; i++)
			w->v[i].awaited = 1000 * __builtin_popcountll(window[i] & ((1ULL << looks) - 1)) / looks;
		evaluate(w, 1);
	}
}

TEST_IN(test_an_even_job_marks_nobody, struct world *w)
{
	static const size_t sizes[] = {2, 3, 4, 5, 8, 16, 64, 1000};
	static const unsigned looks[] = {12, 20, 60};
	static const double probabilities[] = {0.01, 0.03, 0.05, 0.08, 0.1, 0.15, 0.2, 0.3, 0.4};
	const char *more = getenv("HVD_STRAGGLER_JOBS"); /* for each 1000 ranks */
	uint32_t seed = 20240607;

	for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++)
		for (size_t l = 0; l < sizeof(looks) / sizeof(looks[0]); l++)
			for (size_t p = 0; p < sizeof(probabilities) / sizeof(probabilities[0]); p++) {
				size_t jobs = (more ? strtoul(more, NULL, 10) : 1) * MOST / sizes[s];
				int marked = 0;

				for (size_t j = 0; j < (jobs > 100 && !more ? 100 : jobs); j++) {
					even_job(w, sizes[s], looks[l], probabilities[p], &seed);
					marked += w->slow;
				}
				if (marked)
					print_error("%d marked of %zu jobs of %zu ranks, %u looks, probability %g\n",
						    marked, jobs, sizes[s], looks[l], probabilities[p]);
				if (!more)
					assert_int_equal(marked, 0);
			}
}

RUN_TESTS(.setup = up, .teardown = down)
