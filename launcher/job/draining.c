/* SPDX-License-Identifier: Apache-2.0 */
#include "draining.h"

#include "lib/base/timer.h"
#include "lib/process/spawn.h"

/* From the first rank's end to that of the last one, at least. */
#define LEAVE_SECONDS 30

static void over(struct hvd_draining *leaving)
{
	if (leaving->over_called)
		return;
	leaving->over_called = true;
	hvd_timer_stop(leaving->late);
	leaving->over(leaving->status, leaving->arg);
}

static void on_late(void *arg)
{
	over(arg);
}

void hvd_draining_init(struct hvd_draining *leaving, struct event_base *base)
{
	leaving->late = hvd_timer_new(base, on_late, leaving);
}

void hvd_draining_clear(struct hvd_draining *leaving)
{
	hvd_timer_free(leaving->late);
	leaving->late = NULL;
}

/* The running ranks of the generation. The machine is no longer notified when one ends, so the number stays. */
static int running(const struct hvd_machine *machine)
{
	const struct hvd_worker *w;
	int n = 0;

	for (int rank = 0; (w = hvd_machine_member(machine, rank)); rank++)
		n += w->state != HVD_WORKER_GONE;
	return n;
}

bool hvd_draining_exited(struct hvd_draining *leaving, const struct hvd_machine *machine, int status)
{
	hvd_requeue_rank_ended(leaving->wish, leaving->spec, status);
	if (!hvd_requeue_leaving(leaving->wish))
		return false;
	if (leaving->status == 0)
		leaving->status = hvd_status_exit(status);
	if (leaving->ended++ == 0)
		hvd_timer_at(leaving->late,
			     hvd_deadline_in(leaving->seconds > LEAVE_SECONDS ? leaving->seconds : LEAVE_SECONDS));
	if (leaving->ended >= running(machine))
		over(leaving);
	return true;
}
