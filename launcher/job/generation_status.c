/* SPDX-License-Identifier: Apache-2.0 */
#include "generation_status.h"

#include "lib/base/xalloc.h"

#include <stdlib.h>

static void begin(struct hvd_generation_status *status, const struct hvd_event *event)
{
	status->generation = event->generation;
	status->restarts = event->restarts;
	status->began = event->at;
	status->init_began = status->init_done = status->ends = false;
	status->n = event->ranks > 0 ? (uint32_t)event->ranks : 0;
	free(status->ended);
	status->ended = hvd_xcalloc((size_t)status->n + 1, sizeof(*status->ended));
	for (uint32_t r = 0; r < status->n; r++)
		status->ended[r] = -1;
}

static void ends(struct hvd_generation_status *status, const struct hvd_event *event)
{
	status->ends = true;
	free(status->why);
	if (event->name == HVD_EV_GENERATION_FAILED)
		status->why = hvd_xasprintf("rank %lld on %s: %s%s%s", (long long)event->rank, event->host, event->how,
					    event->error ? ": " : "", event->error ? event->error : "");
	else
		status->why = hvd_xstrdup(event->why ? event->why : "");
}

void hvd_generation_status_event(struct hvd_generation_status *status, const struct hvd_event *event)
{
	switch (event->name) {
	case HVD_EV_GENERATION_BEGAN:
		begin(status, event);
		break;
	case HVD_EV_INIT_BEGAN:
		status->init_began = true;
		break;
	case HVD_EV_INIT_DONE:
		status->init_done = true;
		break;
	case HVD_EV_RANK_ENDED:
		if (event->rank >= 0 && event->rank < status->n)
			status->ended[event->rank] = (int16_t)event->status;
		break;
	case HVD_EV_GENERATION_FAILED:
	case HVD_EV_GENERATION_ENDING:
		ends(status, event);
		break;
	default:
		break;
	}
}

void hvd_generation_status_clear(struct hvd_generation_status *status)
{
	free(status->ended);
	free(status->why);
	*status = (struct hvd_generation_status){0};
}
