/* SPDX-License-Identifier: Apache-2.0 */
#include "rank_list.h"

#include "lib/base/xalloc.h"

#include <stdlib.h>

/* Of the list. */
#define MAX_ITEMS 16

static int compare_ranks(const void *a, const void *b)
{
	int x = *(const int *)a, y = *(const int *)b;

	return (x > y) - (x < y);
}

char *hvd_rank_list(int *ranks, size_t n)
{
	char *text = hvd_xstrdup(n == 1 ? "rank " : "ranks ");
	int items = 0;

	qsort(ranks, n, sizeof(*ranks), compare_ranks);
	for (size_t i = 0, next; i < n; i = next) {
		const char *between = items ? ", " : "";

		if (items++ == MAX_ITEMS) {
			hvd_xappendf(&text, " and %zu more", n - i);
			break;
		}
		for (next = i + 1; next < n && ranks[next] == ranks[next - 1] + 1; next++)
			;
		if (next - i > 3) {
			hvd_xappendf(&text, "%s%d-%d", between, ranks[i], ranks[next - 1]);
		} else {
			next = i + 1;
			hvd_xappendf(&text, "%s%d", between, ranks[i]);
		}
	}
	return text;
}
