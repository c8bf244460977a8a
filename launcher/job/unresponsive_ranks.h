/* SPDX-License-Identifier: Apache-2.0 */
/*
 * unresponsive_ranks.h - ranks that are replaced because they are silent while others wait for them: before they are
 * killed, the log shows where they and all others are.
 */
#ifndef HVD_UNRESPONSIVE_RANKS_H
#define HVD_UNRESPONSIVE_RANKS_H

#include "launcher/world/world.h"
#include "lib/base/log.h"

struct hvd_unresponsive_ranks;

/* Nothing is owned, and all must outlive the result. */
struct hvd_unresponsive_ranks *hvd_unresponsive_ranks_create(struct hvd_world *world, const struct hvd_log *log);
/* Ranks that were not killed yet are left alone. NULL is fine. */
void hvd_unresponsive_ranks_destroy(struct hvd_unresponsive_ranks *silent);

/* Kill this worker when all hosts have reported, some seconds from now at the latest. */
void hvd_unresponsive_ranks_end(struct hvd_unresponsive_ranks *silent, uint32_t host, uint32_t worker);

#endif
