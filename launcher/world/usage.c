/* SPDX-License-Identifier: Apache-2.0 */
#include "usage.h"

#include "lib/base/median.h"
#include "lib/base/xalloc.h"
#include "lib/protocol/wire.h"

#include <stdlib.h>
#include <string.h>

/* More than a host has ranks. */
#define MOST_RANKS 65536
/* Least values of memory: so many, of so many seconds each; the slope needs LEAST of them. */
#define WINDOWS        10
#define LEAST          5
#define WINDOW_SECONDS 30
#define WINDOW         ((hvd_time)WINDOW_SECONDS * 1000000000)

struct entry {
	uint32_t id;                 /* of the process */
	struct hvd_usage_rank shown; /* .heard = 0: not known */
	hvd_time window;             /* the begin of the last one */
	int64_t least;               /* in it, so far */
	int64_t leasts[WINDOWS];     /* of those before it, the oldest first */
	unsigned n;
};

struct hvd_usage {
	unsigned world;
	struct hvd_event_log *events;
	const struct hvd_layout *layout;
	struct entry *ranks; /* by number */
	size_t n;
};

/* ---- growth ---- */

/* The median of the slopes between any two values: what a rank takes once, as for its start, does not count. */
static double slope(const int64_t *v, unsigned n)
{
	double slopes[WINDOWS * (WINDOWS - 1) / 2] = {0};
	unsigned pairs = 0;

	for (unsigned i = 0; i < n; i++)
		for (unsigned j = i + 1; j < n; j++)
			slopes[pairs++] = ((double)v[j] - (double)v[i]) / (j - i) / WINDOW_SECONDS;
	return hvd_median(slopes, pairs);
}

static void close_window(struct entry *entry)
{
	if (entry->n == WINDOWS)
		memmove(entry->leasts, entry->leasts + 1, --entry->n * sizeof(entry->leasts[0]));
	entry->leasts[entry->n++] = entry->least;
	entry->window += WINDOW;
	entry->least = entry->shown.uses.memory; /* an agent reports what has changed */
	entry->shown.has_growth = entry->n >= LEAST;
	entry->shown.growth = entry->shown.has_growth ? slope(entry->leasts, entry->n) : 0;
}

/* ---- what agents report ---- */

void hvd_usage_take(struct hvd_usage *usage, uint32_t host, const struct hvd_rank_usage *uses, hvd_time at)
{
	const struct hvd_layout *layout = usage->layout;
	const int rank = layout ? hvd_layout_rank_of(layout, host, uses->rank) : -1;
	struct entry *entry;

	if (rank < 0)
		return;
	entry = &usage->ranks[rank];
	if (!entry->shown.heard || at - entry->window > WINDOWS * WINDOW)
		*entry = (struct entry){.id = uses->rank, .window = at, .least = uses->memory};
	while (at - entry->window >= WINDOW)
		close_window(entry);
	if (uses->memory < entry->least)
		entry->least = uses->memory;
	entry->shown.uses = *uses;
	entry->shown.uses.rank = (uint32_t)rank;
	entry->shown.host = host;
	entry->shown.host_name = layout->hosts[host].name;
	entry->shown.heard = at;
}

void hvd_usage_message(struct hvd_usage *usage, const struct hvd_client *cl, const json_t *msg)
{
	const hvd_time now = hvd_now();
	json_t *ranks, *element;
	struct hvd_rank_usage uses;
	size_t i;

	if (hvd_get_array(msg, "ranks", MOST_RANKS, &ranks, NULL) != 0)
		return;
	json_array_foreach(ranks, i, element)
	{
		if (hvd_rank_usage_parse(element, &uses, NULL) == 0)
			hvd_usage_take(usage, cl->host, &uses, now);
	}
}

static void forget(struct hvd_usage *usage, uint32_t rank)
{
	usage->ranks[rank].shown.heard = 0;
}

void hvd_usage_gone(struct hvd_usage *usage, uint32_t host)
{
	const struct hvd_layout *layout = usage->layout;

	for (int i = 0; host < hvd_usage_hosts(usage) && i < layout->hosts[host].n; i++)
		forget(usage, (uint32_t)layout->hosts[host].ranks[i]);
}

/* The end of a rank of the last generation may be reported late; then one of another host has its number. */
static void on_event(const struct hvd_event *event, void *arg)
{
	struct hvd_usage *usage = arg;
	const struct hvd_layout *layout = usage->layout;
	const char *host;

	if (event->name != HVD_EV_RANK_ENDED || event->world != usage->world || !layout || event->rank < 0 ||
	    event->rank >= layout->size)
		return;
	host = layout->hosts[layout->rank_slots[event->rank].host].name;
	if (host && event->host && strcmp(host, event->host) == 0)
		forget(usage, (uint32_t)event->rank);
}

/* ---- what is known ---- */

uint32_t hvd_usage_size(const struct hvd_usage *usage)
{
	return usage->layout ? (uint32_t)usage->layout->size : 0;
}

static bool is_known(const struct entry *entry, hvd_time now)
{
	return entry->shown.heard && now - entry->shown.heard <= (hvd_time)HVD_USAGE_SECONDS * 1000000000;
}

const struct hvd_usage_rank *hvd_usage_get(const struct hvd_usage *usage, uint32_t rank)
{
	return rank < hvd_usage_size(usage) && is_known(&usage->ranks[rank], hvd_now()) ? &usage->ranks[rank].shown
											: NULL;
}

const struct hvd_usage_rank *hvd_usage_next(const struct hvd_usage *usage, const struct hvd_usage_rank *after)
{
	const uint32_t size = hvd_usage_size(usage);
	const hvd_time now = hvd_now();

	for (uint32_t rank = after ? after->uses.rank + 1 : 0; rank < size; rank++)
		if (is_known(&usage->ranks[rank], now))
			return &usage->ranks[rank].shown;
	return NULL;
}

static void add(int64_t *sum, int64_t figure)
{
	if (figure == HVD_USAGE_UNKNOWN)
		return;
	if (*sum == HVD_USAGE_UNKNOWN)
		*sum = 0;
	*sum = figure > INT64_MAX - *sum ? INT64_MAX : *sum + figure;
}

int64_t hvd_usage_output(const struct hvd_usage_rank *rank, hvd_time now)
{
	const int64_t output = rank->uses.output;

	return output < 0 ? output : output + (now - rank->heard) / 1000000000;
}

static void add_rank(struct hvd_usage_host *host, const struct hvd_usage_rank *rank, hvd_time now)
{
	struct hvd_rank_usage its = rank->uses, *const uses = &its;
	const int64_t output = host->uses.output, awaited = host->uses.awaited;

	its.output = hvd_usage_output(rank, now);
	if (host->ranks++ == 0) {
		host->name = rank->host_name;
		host->uses = *uses;
		return;
	}
#define ADD(member, least, most) add(&host->uses.member, uses->member);
	HVD_RANK_USAGE_FIELDS(ADD)
#undef ADD
	host->uses.output = output < 0 || (uses->output >= 0 && uses->output < output) ? uses->output : output;
	host->uses.awaited = uses->awaited > awaited ? uses->awaited : awaited;
}

uint32_t hvd_usage_hosts(const struct hvd_usage *usage)
{
	return usage->layout ? (uint32_t)usage->layout->n_hosts : 0;
}

void hvd_usage_host_add(const struct hvd_usage *usage, uint32_t host, struct hvd_usage_host *sum)
{
	const struct hvd_layout *layout = usage->layout;
	const hvd_time now = hvd_now();

	for (int i = 0; host < hvd_usage_hosts(usage) && i < layout->hosts[host].n; i++) {
		const struct entry *entry = &usage->ranks[layout->hosts[host].ranks[i]];

		if (is_known(entry, now))
			add_rank(sum, &entry->shown, now);
	}
}

struct hvd_usage_host hvd_usage_host(const struct hvd_usage *usage, uint32_t host)
{
	struct hvd_usage_host sum = {0};

	hvd_usage_host_add(usage, host, &sum);
	return sum;
}

/* ---- life ---- */

static int by_id(const void *a, const void *b)
{
	const struct entry *x = a, *y = b;

	return (x->id > y->id) - (x->id < y->id);
}

/* Leave those that are known, in the order of their ids. */
static void sort_known(struct hvd_usage *usage)
{
	size_t kept = 0;

	for (size_t i = 0; i < usage->n; i++)
		if (usage->ranks[i].shown.heard)
			usage->ranks[kept++] = usage->ranks[i];
	usage->n = kept;
	if (kept)
		qsort(usage->ranks, kept, sizeof(*usage->ranks), by_id);
}

void hvd_usage_begin(struct hvd_usage *usage, const struct hvd_layout *layout)
{
	struct entry *ranks = hvd_xcalloc((size_t)layout->size + 1, sizeof(*ranks));

	sort_known(usage);
	for (uint32_t r = 0; r < (uint32_t)layout->size && usage->n; r++) {
		const struct entry key = {.id = layout->rank_slots[r].id};
		const struct entry *known = bsearch(&key, usage->ranks, usage->n, sizeof(*usage->ranks), by_id);

		if (!known || known->shown.host != (uint32_t)layout->rank_slots[r].host)
			continue;
		ranks[r] = *known;
		ranks[r].shown.uses.rank = r;
		ranks[r].shown.host_name = layout->hosts[known->shown.host].name;
	}
	free(usage->ranks);
	usage->ranks = ranks;
	usage->n = (size_t)layout->size;
	usage->layout = layout;
}

unsigned hvd_usage_world(const struct hvd_usage *usage)
{
	return usage->world;
}

struct hvd_usage *hvd_usage_create(unsigned world, struct hvd_event_log *events)
{
	struct hvd_usage *usage = hvd_xcalloc(1, sizeof(*usage));

	usage->world = world;
	usage->events = events;
	hvd_event_log_listen(events, on_event, usage);
	return usage;
}

void hvd_usage_destroy(struct hvd_usage *usage)
{
	if (!usage)
		return;
	hvd_event_log_unlisten(usage->events, usage);
	free(usage->ranks);
	free(usage);
}
