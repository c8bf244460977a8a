/* SPDX-License-Identifier: Apache-2.0 */
#include "rank_ends.h"

#include "lib/base/xalloc.h"

#include <stdlib.h>
#include <string.h>

void hvd_rank_ends_begin(struct hvd_rank_ends *ends, const struct hvd_layout *layout)
{
	uint32_t n = (uint32_t)layout->size;

	*ends = (struct hvd_rank_ends){
		.layout = layout, .ended = hvd_xcalloc(n, sizeof(*ends->ended)), .n = n, .left = n};
}

bool hvd_rank_ends_add(struct hvd_rank_ends *ends, uint32_t rank)
{
	if (rank >= ends->n || ends->ended[rank])
		return false;
	ends->ended[rank] = true;
	ends->left--;
	return true;
}

void hvd_rank_ends_add_host(struct hvd_rank_ends *ends, const char *host)
{
	for (uint32_t r = 0; r < ends->n; r++)
		if (strcmp(ends->layout->hosts[ends->layout->rank_slots[r].host].name, host) == 0)
			hvd_rank_ends_add(ends, r);
}

/* *any_over: have all ranks of some host ended? A spare host has none. */
static char *hosts_left(const struct hvd_rank_ends *ends, bool *any_over)
{
	const struct hvd_layout *l = ends->layout;
	struct hvd_strv left = {0};
	char *text = NULL;

	*any_over = false;
	for (int h = 0; ends->left && h < l->n_hosts; h++) {
		bool over = true;

		for (int i = 0; i < l->hosts[h].n; i++)
			over &= ends->ended[l->hosts[h].ranks[i]];
		*any_over |= over && l->hosts[h].n > 0;
		if (!over)
			hvd_strv_add(&left, l->hosts[h].name);
	}
	if (left.n)
		text = hvd_strv_join(&left, ",");
	hvd_strv_free(&left);
	return text;
}

char *hvd_rank_ends_hosts_left(const struct hvd_rank_ends *ends)
{
	bool any_over;

	return hosts_left(ends, &any_over);
}

char *hvd_rank_ends_behind(const struct hvd_rank_ends *ends)
{
	bool any_over;
	char *text = hosts_left(ends, &any_over);

	if (any_over && ends->left < ends->n)
		return text;
	free(text);
	return NULL;
}

void hvd_rank_ends_without_munge(struct hvd_rank_ends *ends, const char *host)
{
	for (size_t i = 0; i < ends->without_munge.n; i++)
		if (strcmp(ends->without_munge.v[i], host) == 0)
			return;
	hvd_strv_add(&ends->without_munge, host);
}

void hvd_rank_ends_clear(struct hvd_rank_ends *ends)
{
	free(ends->ended);
	hvd_strv_free(&ends->without_munge);
	*ends = (struct hvd_rank_ends){0};
}
