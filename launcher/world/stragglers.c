/* SPDX-License-Identifier: Apache-2.0 */
#include "stragglers.h"

#include "lib/base/median.h"
#include "lib/base/xalloc.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ALL 1000 /* thousandths */
/* A rank becomes slow at LEAST_SHARE and LEAST_ABOVE the others' median, and is no longer slow below one of the others. */
#define LEAST_SHARE 500
#define LEAST_ABOVE 300
#define EVEN_SHARE  400
#define EVEN_ABOVE  200
#define DEVIATIONS  5
#define IN_A_ROW    2
/* How unlikely an even job must be, as a logarithm, besides the number of ranks. */
#define UNLIKELY 10.0

struct state {
	struct hvd_straggler *slow; /* NULL: it is not */
	uint8_t in_a_row;           /* evaluations that contradict that */
};

struct hvd_stragglers {
	double looks;
	uint32_t n;
	struct state *ranks; /* by number */
};

/* A figure of all ranks of which it is known, in order. */
struct figures {
	double *v;
	size_t n;
};

/* An evaluation. */
struct shares {
	const struct hvd_stragglers *stragglers;
	uint32_t count[ALL + 1]; /* how many ranks have this share */
	uint32_t n;
	struct {
		bool known, far;
		int64_t others;
	} verdict[ALL + 1];              /* of a rank with this share */
	struct figures cpu, delay, read; /* NULL: not sorted yet */
};

/* ---- is a share far above the others? ---- */

/* The share at position `at` in the order of all but one rank with the share `own`. */
static int64_t nth(const struct shares *shares, uint32_t at, int64_t own)
{
	int64_t share = 0;

	for (uint32_t seen = 0; share <= ALL; share++) {
		seen += shares->count[share] - (share == own);
		if (seen > at)
			break;
	}
	return share;
}

static int64_t median(const struct shares *shares, int64_t own)
{
	const uint32_t others = shares->n - 1;

	return (nth(shares, (others - 1) / 2, own) + nth(shares, others / 2, own)) / 2;
}

static uint32_t count_at(const struct shares *shares, int64_t share, int64_t own)
{
	return share < 0 || share > ALL ? 0 : shares->count[share] - (share == own);
}

/* The median of the distances from the median. */
static int64_t deviation(const struct shares *shares, int64_t middle, int64_t own)
{
	const uint32_t half = (shares->n - 1) / 2;
	uint32_t seen = count_at(shares, middle, own);
	int64_t distance = 0;

	while (seen <= half && distance < ALL) {
		distance++;
		seen += count_at(shares, middle - distance, own) + count_at(shares, middle + distance, own);
	}
	return distance;
}

/* How much less likely the share p is to look like q than like itself: Kullback and Leibler's divergence. */
static double divergence(double p, double q)
{
	return (p > 0 ? p * log(p / q) : 0) + (p < 1 ? (1 - p) * log((1 - p) / (1 - q)) : 0);
}

/* The median of small shares of few looks lies below their mean, by up to about half a look. */
static bool is_chance(const struct shares *shares, int64_t own, int64_t others)
{
	const double looks = shares->stragglers->looks, n = shares->n, p = (double)own / ALL;
	const double rest = fmin(p, (double)others / ALL + 0.6 / looks), all = (p + (n - 1) * rest) / n;

	return looks * (divergence(p, all) + (n - 1) * divergence(rest, all)) < log(n) + UNLIKELY;
}

static void judge(struct shares *shares, int64_t own)
{
	const int64_t others = median(shares, own);

	shares->verdict[own].known = true;
	shares->verdict[own].others = others;
	shares->verdict[own].far = own >= LEAST_SHARE && own >= others + LEAST_ABOVE &&
				   (shares->n < 3 || own >= others + DEVIATIONS * deviation(shares, others, own)) &&
				   !is_chance(shares, own, others);
}

/* ---- why ---- */

static struct figures sort_figures(const struct hvd_rank_usage *ranks, size_t n, size_t member)
{
	struct figures figures = {.v = hvd_xcalloc(n + 1, sizeof(*figures.v))};

	for (size_t i = 0; i < n; i++) {
		int64_t figure;

		memcpy(&figure, (const char *)&ranks[i] + member, sizeof(figure));
		if (figure != HVD_USAGE_UNKNOWN)
			figures.v[figures.n++] = (double)figure;
	}
	hvd_sort_figures(figures.v, figures.n);
	return figures;
}

/* The median of all ranks but one, which has `own`; 0 if it is not known. */
static double of_others(const struct figures *figures, int64_t own)
{
	size_t known = figures->n - (own != HVD_USAGE_UNKNOWN), at = known / 2;

	if (known == 0)
		return 0;
	return figures->v[own != HVD_USAGE_UNKNOWN && figures->v[at] >= (double)own ? at + 1 : at];
}

/* What its other figures say. */
static void explain(const struct shares *shares, const struct hvd_rank_usage *r, char *text, size_t size)
{
	const double cpu = of_others(&shares->cpu, r->cpu), delay = of_others(&shares->delay, r->delay),
		     read = of_others(&shares->read, r->read);

	if (r->delay > 0 && r->delay * 4 >= r->cpu + r->delay && (double)r->delay >= 2 * delay + 100)
		snprintf(text, size,
			 "its processors are taken by other processes (%.0f %% of the time it waits for one)",
			 100.0 * (double)r->delay / (double)(r->cpu + r->delay));
	else if ((double)r->cpu >= cpu + 250 && 4 * (double)r->cpu >= 5 * cpu)
		snprintf(text, size, "it computes while the others wait");
	else if (r->read >= 1000000 && (double)r->read >= read * 1.5)
		snprintf(text, size, "it reads %.0f MB/s while the others wait", (double)r->read / 1e6);
	else if (r->cpu < 500)
		snprintf(text, size,
			 "it waits outside of the collectives, as for its data loader, a file, or in sleep()");
	else
		snprintf(text, size, "its other figures are like theirs");
}

static void describe(struct shares *shares, const struct hvd_rank_usage *ranks, size_t n, size_t own,
		     struct hvd_straggler *straggler)
{
	char what[120];

	if (!shares->cpu.v) {
		shares->cpu = sort_figures(ranks, n, offsetof(struct hvd_rank_usage, cpu));
		shares->delay = sort_figures(ranks, n, offsetof(struct hvd_rank_usage, delay));
		shares->read = sort_figures(ranks, n, offsetof(struct hvd_rank_usage, read));
	}
	explain(shares, &ranks[own], what, sizeof(what));
	snprintf(straggler->why, sizeof(straggler->why),
		 "its peers wait for it %.0f %% of the time, and for the others %.0f %%: %s",
		 (double)straggler->awaited / 10, (double)straggler->others / 10, what);
}

/* ---- evaluations ---- */

static void set_slow(struct shares *shares, struct state *state, const struct hvd_rank_usage *ranks, size_t n,
		     size_t own)
{
	const int64_t share = ranks[own].awaited;

	state->slow = hvd_xcalloc(1, sizeof(*state->slow));
	*state->slow = (struct hvd_straggler){
		.rank = ranks[own].rank, .awaited = share, .others = shares->verdict[share].others};
	describe(shares, ranks, n, own, state->slow);
}

static void forget(struct state *state)
{
	free(state->slow);
	*state = (struct state){0};
}

static int64_t share_of(const struct hvd_rank_usage *rank)
{
	return rank->awaited == HVD_USAGE_UNKNOWN ? 0 : rank->awaited;
}

static void evaluate_one(struct shares *shares, const struct hvd_rank_usage *ranks, size_t n, size_t own,
			 hvd_straggler_fn *fn, void *arg)
{
	struct state *state = &shares->stragglers->ranks[ranks[own].rank];
	const int64_t share = share_of(&ranks[own]);
	bool contradicts;

	if (!shares->verdict[share].known)
		judge(shares, share);
	if (state->slow)
		contradicts = share < EVEN_SHARE || share < shares->verdict[share].others + EVEN_ABOVE;
	else
		contradicts = shares->verdict[share].far;
	state->in_a_row = contradicts ? state->in_a_row + 1 : 0;
	if (state->in_a_row < IN_A_ROW)
		return;
	state->in_a_row = 0;
	if (!state->slow) {
		set_slow(shares, state, ranks, n, own);
		fn(state->slow, true, arg);
		return;
	}
	state->slow->awaited = share;
	state->slow->others = shares->verdict[share].others;
	fn(state->slow, false, arg);
	forget(state);
}

void hvd_stragglers_evaluate(struct hvd_stragglers *s, const struct hvd_rank_usage *ranks, size_t n,
			     hvd_straggler_fn *fn, void *arg)
{
	struct shares *shares = hvd_xcalloc(1, sizeof(*shares));
	uint32_t next = 0;

	shares->stragglers = s;
	for (size_t i = 0; i < n; i++) {
		shares->count[share_of(&ranks[i])]++;
		shares->n++;
	}
	for (size_t i = 0; i < n && ranks[i].rank < s->n; i++) {
		for (; next < ranks[i].rank; next++)
			forget(&s->ranks[next]);
		next = ranks[i].rank + 1;
		if (shares->n > 1)
			evaluate_one(shares, ranks, n, i, fn, arg);
	}
	for (; next < s->n; next++)
		forget(&s->ranks[next]);
	free(shares->cpu.v);
	free(shares->delay.v);
	free(shares->read.v);
	free(shares);
}

const struct hvd_straggler *hvd_stragglers_get(const struct hvd_stragglers *s, uint32_t rank)
{
	return rank < s->n ? s->ranks[rank].slow : NULL;
}

/* ---- life ---- */

static void forget_all(struct hvd_stragglers *s)
{
	for (uint32_t r = 0; r < s->n; r++)
		forget(&s->ranks[r]);
	free(s->ranks);
	s->ranks = NULL;
	s->n = 0;
}

void hvd_stragglers_begin(struct hvd_stragglers *s, uint32_t ranks)
{
	forget_all(s);
	s->ranks = hvd_xcalloc((size_t)ranks + 1, sizeof(*s->ranks));
	s->n = ranks;
}

struct hvd_stragglers *hvd_stragglers_create(unsigned looks)
{
	struct hvd_stragglers *s = hvd_xcalloc(1, sizeof(*s));

	s->looks = looks ? looks : 1;
	return s;
}

void hvd_stragglers_destroy(struct hvd_stragglers *s)
{
	if (!s)
		return;
	forget_all(s);
	free(s);
}
