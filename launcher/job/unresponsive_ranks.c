/* SPDX-License-Identifier: Apache-2.0 */
#include "unresponsive_ranks.h"

#include "launcher/diagnosis/stack_groups.h"
#include "launcher/world/stacks.h"
#include "lib/base/cleanup.h"
#include "lib/base/xalloc.h"

#include <stdlib.h>

/* How long hosts may take to report where their ranks are. */
#define STACKS_SECONDS 4.0

struct hvd_unresponsive_ranks {
	struct hvd_world *world;
	const struct hvd_log *log;
	struct silent_rank {
		uint32_t host, worker;
	} * v; /* that are to be killed when the hosts have answered */
	size_t n;
};

static void on_stacks(json_t *said, void *arg)
{
	struct hvd_unresponsive_ranks *silent = arg;
	hvd_cleanup_free char *groups = hvd_stack_groups_text(said, "this launch");

	hvd_log_text(silent->log, HVD_LOG_INFO, groups);
	for (size_t i = 0; i < silent->n; i++)
		hvd_world_stop(silent->world, silent->v[i].host, silent->v[i].worker, true);
	silent->n = 0;
}

struct hvd_unresponsive_ranks *hvd_unresponsive_ranks_create(struct hvd_world *world, const struct hvd_log *log)
{
	struct hvd_unresponsive_ranks *silent = hvd_xcalloc(1, sizeof(*silent));

	*silent = (struct hvd_unresponsive_ranks){.world = world, .log = log};
	return silent;
}

void hvd_unresponsive_ranks_destroy(struct hvd_unresponsive_ranks *silent)
{
	if (!silent)
		return;
	hvd_stacks_forget(hvd_world_stacks(silent->world), silent);
	free(silent->v);
	free(silent);
}

void hvd_unresponsive_ranks_end(struct hvd_unresponsive_ranks *silent, uint32_t host, uint32_t worker)
{
	silent->v = hvd_xrealloc(silent->v, silent->n + 1, sizeof(*silent->v));
	silent->v[silent->n++] = (struct silent_rank){host, worker};
	if (silent->n == 1)
		hvd_stacks_ask(hvd_world_stacks(silent->world), STACKS_SECONDS, on_stacks, silent);
}
