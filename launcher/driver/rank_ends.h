/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rank_ends.h - which ranks of a launch have ended.
 *
 * A rank has ended when its shim has said so, or has gone and taken the rank with it, or when the rank's host is lost.
 */
#ifndef HVD_RANK_ENDS_H
#define HVD_RANK_ENDS_H

#include "lib/base/strv.h"
#include "lib/job/layout.h"

#include <stdbool.h>
#include <stdint.h>

struct hvd_rank_ends {
	const struct hvd_layout *layout;
	bool *ended; /* by rank */
	uint32_t n, left;
	struct hvd_strv without_munge; /* hosts where a shim found no munged when its rank had ended */
};

/* No rank of the layout, which is not owned, has ended. Zeroed before, or cleared. Until this is called there is no
 * rank. */
void hvd_rank_ends_begin(struct hvd_rank_ends *ends, const struct hvd_layout *layout);
/* Returns true when that was the last one: once. A rank that has ended already, or that there is not, changes nothing.
 */
bool hvd_rank_ends_add(struct hvd_rank_ends *ends, uint32_t rank);
/* The same for all ranks of a host. */
bool hvd_rank_ends_add_host(struct hvd_rank_ends *ends, const char *host);
/* While all ranks of one host have ended: the names of those where a rank goes on, with commas between them. NULL while
 * there is none of the one or the other. The caller frees it. */
char *hvd_rank_ends_behind(const struct hvd_rank_ends *ends);
/* The host is named once, however often it is told. */
void hvd_rank_ends_without_munge(struct hvd_rank_ends *ends, const char *host);
void hvd_rank_ends_clear(struct hvd_rank_ends *ends);

#endif
