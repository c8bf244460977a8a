/* SPDX-License-Identifier: Apache-2.0 */
/* rank_numbers.c - the numbers of the ranks after hosts were left out (launcher/hosts/spares.c). */
#include "world_internal.h"

#include "lib/base/cleanup.h"
#include "lib/base/xalloc.h"

#include <stdlib.h>

struct numbered {
	uint32_t number, host, at; /* number: that its host has registered */
};

static int by_registered_number(const void *a, const void *b)
{
	const struct numbered *x = a, *y = b;

	return x->number < y->number ? -1 : x->number > y->number;
}

void hvd_rank_numbers_make(uint32_t most, void *arg)
{
	struct hvd_host_table *table = ((struct hvd_world *)arg)->table;
	hvd_cleanup_free struct numbered *all = NULL;
	uint32_t n = 0, i = 0;

	for (uint32_t h = 0; h < table->n; h++)
		n += table->hosts[h].node.n_ranks;
	all = hvd_xcalloc(n, sizeof(*all));
	for (uint32_t h = 0; h < table->n; h++) {
		struct hvd_host_info *node = &table->hosts[h].node;

		for (uint32_t r = 0; r < node->n_ranks; r++)
			all[i++] = (struct numbered){.number = node->ranks[r], .host = h, .at = r};
		node->n_ranks = 0;
	}
	qsort(all, n, sizeof(*all), by_registered_number);
	table->size = most && most < n ? most : n;
	for (i = 0; i < table->size; i++) {
		struct hvd_host_info *node = &table->hosts[all[i].host].node;

		node->ranks[all[i].at] = i;
		node->n_ranks++;
	}
}
