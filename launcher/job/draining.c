/* SPDX-License-Identifier: Apache-2.0 */
#include "draining.h"

#include "lib/process/spawn.h"

/* From the first rank's end to that of the last one. */
#define ASKED_SECONDS 30

static void over(struct hvd_draining *draining)
{
	if (draining->over_called)
		return;
	draining->over_called = true;
	hvd_timer_stop(draining->late);
	draining->over(draining->status, draining->arg);
}

static void on_late(void *arg)
{
	over(arg);
}

void hvd_draining_init(struct hvd_draining *draining, struct event_base *base)
{
	draining->late = hvd_timer_new(base, on_late, draining);
}

void hvd_draining_clear(struct hvd_draining *draining)
{
	hvd_timer_free(draining->late);
	draining->late = NULL;
}

/* Somebody else ends the ranks in time. */
static bool has_end(const struct hvd_draining *draining)
{
	return draining->wish->preempted || hvd_requeue_wanted(draining->wish, HVD_REQUEUE_LIMIT);
}

bool hvd_draining(const struct hvd_draining *draining)
{
	return has_end(draining) || (draining->restarts && hvd_requeue_leaving(draining->wish));
}

void hvd_draining_exited(struct hvd_draining *draining, int ranks, int status)
{
	if (draining->status == 0)
		draining->status = hvd_status_exit(status);
	if (draining->ended++ == 0 && !has_end(draining))
		hvd_timer_in_ms(draining->late, ASKED_SECONDS * 1000);
	if (draining->ended >= ranks)
		over(draining);
}
