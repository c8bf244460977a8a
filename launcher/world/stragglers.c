/* SPDX-License-Identifier: Apache-2.0 */
#include "stragglers.h"

#include "lib/base/median.h"
#include "lib/base/xalloc.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ALL        1000 /* thousandths */
#define DEVIATIONS 5
#define IN_A_ROW   3
/* Of an evaluation in the figures that explain, which change from look to look. */
#define WEIGHT 0.25

/* A share, and how far it is above the others' median: both at least, or one of both below. And how unlikely an even job must
 * be, as a logarithm, besides the number of ranks. */
struct limits {
	int64_t share, above;
	double unlikely;
};
/* Of ranks in general, and of one that lacks processors: that is evidence, too. */
static const struct limits slow_from[] = {{500, 300, 10}, {300, 200, 4}}, even_below[] = {{400, 200, 0}, {240, 130, 0}};

struct state {
	struct hvd_straggler *slow;   /* NULL: it is not */
	uint8_t in_a_row;             /* evaluations that contradict that */
	bool seen;                    /* `recent` is known */
	double steps;                 /* in which it was far above the others, without an evaluation that it was not */
	struct hvd_rank_usage recent; /* its figures, those of the last evaluations together */
};

struct hvd_stragglers {
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
	const struct hvd_rank_usage *ranks;
	uint32_t count[ALL + 1]; /* how many ranks have this share */
	uint32_t n;
	struct {
		bool known;
		int64_t others, deviation;
	} beside[ALL + 1];               /* a rank with this share: the median of the others, and their deviation */
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

/* The median of small shares of few steps lies below their mean, by up to about half a step. */
static bool is_chance(const struct shares *shares, int64_t own, int64_t others, double steps, double unlikely)
{
	const double n = shares->n, p = (double)own / ALL, rest = fmin(p, (double)others / ALL + 0.6 / steps),
		     all = (p + (n - 1) * rest) / n;

	return steps * (divergence(p, all) + (n - 1) * divergence(rest, all)) < log(n) + unlikely;
}

static void compare(struct shares *shares, int64_t own)
{
	if (shares->beside[own].known)
		return;
	shares->beside[own].known = true;
	shares->beside[own].others = median(shares, own);
	shares->beside[own].deviation = deviation(shares, shares->beside[own].others, own);
}

/* ---- why ---- */

static struct figures sort_figures(const struct shares *shares, size_t member)
{
	struct figures figures = {.v = hvd_xcalloc((size_t)shares->n + 1, sizeof(*figures.v))};

	for (uint32_t i = 0; i < shares->n; i++) {
		const struct state *state = &shares->stragglers->ranks[shares->ranks[i].rank];
		int64_t figure;

		memcpy(&figure, (const char *)&state->recent + member, sizeof(figure));
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

static void sort_all(struct shares *shares)
{
	if (shares->cpu.v)
		return;
	shares->cpu = sort_figures(shares, offsetof(struct hvd_rank_usage, cpu));
	shares->delay = sort_figures(shares, offsetof(struct hvd_rank_usage, delay));
	shares->read = sort_figures(shares, offsetof(struct hvd_rank_usage, read));
}

/* Is it ready to run for much of the time, and waits for a processor, more than the others? Those wait for it, and should
 * hardly need any; but other processes may take theirs, too. */
static bool lacks_processors(struct shares *shares, const struct hvd_rank_usage *r)
{
	sort_all(shares);
	return r->delay > 0 && r->delay * 4 >= r->cpu + r->delay &&
	       (double)r->delay >= 1.5 * of_others(&shares->delay, r->delay) + 100;
}

/* What its other figures say. */
static void explain(struct shares *shares, const struct hvd_rank_usage *r, char *text, size_t size)
{
	const bool lacks = lacks_processors(shares, r);
	const double cpu = of_others(&shares->cpu, r->cpu), read = of_others(&shares->read, r->read);

	if (lacks)
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

/* ---- evaluations ---- */

static void set_slow(struct shares *shares, struct state *state, int64_t share)
{
	char what[120];

	state->slow = hvd_xcalloc(1, sizeof(*state->slow));
	*state->slow = (struct hvd_straggler){
		.rank = state->recent.rank, .awaited = share, .others = shares->beside[share].others};
	explain(shares, &state->recent, what, sizeof(what));
	snprintf(state->slow->why, sizeof(state->slow->why),
		 "its peers wait for it %.0f %% of the time, and for the others %.0f %%: %s", (double)share / 10,
		 (double)state->slow->others / 10, what);
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

static void follow(int64_t *recent, int64_t now)
{
	if (*recent == HVD_USAGE_UNKNOWN || now == HVD_USAGE_UNKNOWN)
		*recent = now;
	else
		*recent += (int64_t)(WEIGHT * (double)(now - *recent));
}

static void take(struct state *state, const struct hvd_rank_usage *rank)
{
	if (!state->seen)
		state->recent = *rank;
	state->seen = true;
	follow(&state->recent.cpu, rank->cpu);
	follow(&state->recent.delay, rank->delay);
	follow(&state->recent.read, rank->read);
}

/* The limits that a share reaches; NULL: none. */
static const struct limits *reaches(struct shares *shares, const struct state *state, int64_t share,
				    const struct limits limits[2])
{
	const int64_t above = share - shares->beside[share].others;

	if (share < limits[1].share || above < limits[1].above)
		return NULL;
	if (lacks_processors(shares, &state->recent))
		return &limits[1];
	return share >= limits[0].share && above >= limits[0].above ? &limits[0] : NULL;
}

/* Is the rank's share far above the others, and no chance? */
static bool is_far(struct shares *shares, struct state *state, const struct hvd_rank_usage *rank, int64_t share)
{
	const struct limits *limits = reaches(shares, state, share, slow_from);
	const int64_t others = shares->beside[share].others;

	if (!limits || (shares->n > 2 && share < others + DEVIATIONS * shares->beside[share].deviation)) {
		state->steps = 0;
		return false;
	}
	state->steps += (double)rank->steps * HVD_STRAGGLERS_SECONDS / 60;
	return rank->steps > 0 &&
	       !is_chance(shares, share, others, fmax((double)rank->steps, state->steps), limits->unlikely);
}

static void evaluate_one(struct shares *shares, const struct hvd_rank_usage *rank, hvd_straggler_fn *fn, void *arg)
{
	struct state *state = &shares->stragglers->ranks[rank->rank];
	const int64_t share = share_of(rank);
	bool contradicts;

	compare(shares, share);
	contradicts = state->slow ? !reaches(shares, state, share, even_below) : is_far(shares, state, rank, share);
	state->in_a_row = contradicts ? state->in_a_row + 1 : 0;
	if (state->in_a_row < IN_A_ROW)
		return;
	state->in_a_row = 0;
	state->steps = 0;
	if (!state->slow) {
		set_slow(shares, state, share);
		fn(state->slow, true, arg);
		return;
	}
	state->slow->awaited = share;
	state->slow->others = shares->beside[share].others;
	fn(state->slow, false, arg);
	free(state->slow);
	state->slow = NULL;
}

void hvd_stragglers_evaluate(struct hvd_stragglers *s, const struct hvd_rank_usage *ranks, size_t n,
			     hvd_straggler_fn *fn, void *arg)
{
	struct shares *shares = hvd_xcalloc(1, sizeof(*shares));
	uint32_t next = 0;

	shares->stragglers = s;
	shares->ranks = ranks;
	for (; shares->n < n && ranks[shares->n].rank < s->n; shares->n++) {
		const struct hvd_rank_usage *rank = &ranks[shares->n];

		for (; next < rank->rank; next++)
			forget(&s->ranks[next]);
		next = rank->rank + 1;
		shares->count[share_of(rank)]++;
		take(&s->ranks[rank->rank], rank);
	}
	for (; next < s->n; next++)
		forget(&s->ranks[next]);
	for (uint32_t i = 0; i < shares->n && shares->n > 1; i++)
		evaluate_one(shares, &ranks[i], fn, arg);
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

struct hvd_stragglers *hvd_stragglers_create(void)
{
	return hvd_xcalloc(1, sizeof(struct hvd_stragglers));
}

void hvd_stragglers_destroy(struct hvd_stragglers *s)
{
	if (!s)
		return;
	forget_all(s);
	free(s);
}
