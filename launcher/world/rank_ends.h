/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rank_ends.h - which ranks of a launch have ended.
 *
 * A rank counts as ended when its host's agent has reported it, or when its host is lost.
 */
#ifndef HVD_RANK_ENDS_H
#define HVD_RANK_ENDS_H

#include "lib/base/strv.h"
#include "lib/host/layout.h"

#include <stdbool.h>
#include <stdint.h>

struct hvd_rank_ends {
	const struct hvd_layout *layout;
	bool *ended; /* by rank */
	uint32_t n, left;
	struct hvd_strv without_munge; /* hosts where no munged was left when their ranks had ended */
};

/* No rank of the layout, which is not owned, has ended. *ends is zero before; then it has no ranks. */
void hvd_rank_ends_begin(struct hvd_rank_ends *ends, const struct hvd_layout *layout);
/* The rank has ended. False: that was known before, or there is no such rank. */
bool hvd_rank_ends_add(struct hvd_rank_ends *ends, uint32_t rank);
/* All ranks of the host have ended. */
void hvd_rank_ends_add_host(struct hvd_rank_ends *ends, const char *host);
/* The hosts where a rank still runs while all ranks of another host have ended: their names, with commas between them.
 * NULL if there are no hosts of the one or the other kind. The caller frees the text. */
char *hvd_rank_ends_behind(const struct hvd_rank_ends *ends);
/* The hosts where a rank still runs, in the same way; NULL when there is none. */
char *hvd_rank_ends_hosts_left(const struct hvd_rank_ends *ends);
/* The host's munged has gone. The host is listed once. */
void hvd_rank_ends_without_munge(struct hvd_rank_ends *ends, const char *host);
void hvd_rank_ends_clear(struct hvd_rank_ends *ends);

#endif
