/* SPDX-License-Identifier: Apache-2.0 */
#include "ends.h"

#include "xalloc.h"

#include <stdlib.h>
#include <string.h>

void hvd_ends_begin(struct hvd_ends *ends, uint32_t n)
{
	*ends = (struct hvd_ends){.ended = hvd_xcalloc(n, sizeof(*ends->ended)), .n = n, .left = n};
}

bool hvd_ends_add(struct hvd_ends *ends, uint32_t rank)
{
	if (rank >= ends->n || ends->ended[rank])
		return false;
	ends->ended[rank] = true;
	return --ends->left == 0;
}

void hvd_ends_without_munge(struct hvd_ends *ends, const char *host)
{
	for (size_t i = 0; i < ends->without_munge.n; i++)
		if (strcmp(ends->without_munge.v[i], host) == 0)
			return;
	hvd_strv_add(&ends->without_munge, host);
}

void hvd_ends_clear(struct hvd_ends *ends)
{
	free(ends->ended);
	hvd_strv_free(&ends->without_munge);
	*ends = (struct hvd_ends){0};
}
