/* SPDX-License-Identifier: Apache-2.0 */
/* relay_count.h - for tests: how many relays are connected to a server. */
#ifndef HVD_TESTS_RELAY_COUNT_H
#define HVD_TESTS_RELAY_COUNT_H

#include "lib/rendezvous/server.h"

static inline unsigned relay_count(const struct hvd_rv *rv)
{
	struct hvd_rv_stats stats;

	hvd_rv_stats(rv, &stats);
	return stats.relays_now;
}

#endif
