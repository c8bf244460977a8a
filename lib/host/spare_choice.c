/* SPDX-License-Identifier: Apache-2.0 */
#include "spare_choice.h"

#include "lib/base/cleanup.h"
#include "lib/base/median.h"
#include "lib/base/xalloc.h"
#include "switch_path.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

/* A host with this part of the median rate is as good as the others. */
#define SIMILAR 0.9

static double median_rate(const struct hvd_spare_host *v, size_t n)
{
	hvd_cleanup_free double *rates = hvd_xcalloc(n + 1, sizeof(*rates));
	size_t measured = 0;

	for (size_t i = 0; i < n; i++)
		if (v[i].ranks > 0 && v[i].mbps > 0)
			rates[measured++] = v[i].mbps;
	return measured ? hvd_median(rates, measured) : 0;
}

/* The rates of similar hosts count as equal. */
static double rate(const struct hvd_spare_host *h, double median)
{
	return h->mbps > 0 && h->mbps < median * SIMILAR ? h->mbps : INFINITY;
}

static bool is_worse(const struct hvd_spare_host *a, const struct hvd_spare_host *b, double median)
{
	return a->links != b->links ? a->links < b->links : rate(a, median) < rate(b, median);
}

size_t hvd_spare_worst(const struct hvd_spare_host *v, size_t n, uint32_t wanted)
{
	double median = median_rate(v, n);
	uint64_t ranks = 0;
	size_t worst = n;

	for (size_t i = 0; i < n; i++)
		ranks += v[i].ranks;
	for (size_t i = n; i-- > 0;)
		if (v[i].ranks > 0 && v[i].ranks < ranks && ranks - v[i].ranks >= wanted &&
		    (worst == n || is_worse(&v[i], &v[worst], median)))
			worst = i;
	return worst;
}

const char *hvd_spare_slowness(const struct hvd_spare_host *v, size_t n, size_t i, char text[128])
{
	double median = median_rate(v, n);
	char own[32], others[32];

	text[0] = '\0';
	if (rate(&v[i], median) < median)
		snprintf(text, 128, "the slowest, %s to its neighbours, median %s", hvd_rate_text(v[i].mbps, own),
			 hvd_rate_text(median, others));
	return text;
}

size_t hvd_spare_nearest(const struct hvd_spare_host *v, size_t n, const char *to)
{
	size_t best = 0;

	for (size_t i = 1; i < n; i++)
		if (hvd_switch_path_shared(to, v[i].switch_path) > hvd_switch_path_shared(to, v[best].switch_path))
			best = i;
	return best;
}

const char *hvd_rate_text(double mbps, char text[32])
{
	if (mbps >= 1000)
		snprintf(text, 32, "%.1f Gbit/s", mbps / 1000);
	else
		snprintf(text, 32, mbps < 10 ? "%.1f Mbit/s" : "%.0f Mbit/s", mbps);
	return text;
}
