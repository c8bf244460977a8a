/* SPDX-License-Identifier: Apache-2.0 */
/* policy_horovod_end.c - what the end of a worker means in Horovod's policy. */
#include "machine_internal.h"

#include "lib/process/spawn.h"

/* How many members of one generation are replaced while its members connect to each other. */
#define MAX_REPLACED 3

/* A member has ended before it published its address, which the others wait for: can a replacement publish it? Rank 0
 * cannot be replaced, because it sends its state to the others. */
static bool can_be_replaced(const struct hvd_machine *m, const struct hvd_worker *w)
{
	const struct hvd_managed_host *h = &m->hosts[w->host];

	return m->phase == HVD_RUNNING && !m->gen.connected && !w->published && !m->gen.died && !m->gen.success &&
	       w->rank > 0 && m->gen.replaced < MAX_REPLACED && h->stage == HVD_STAGE_HERE && h->listed;
}

/* A member of this generation has ended. */
static void member_exited(struct hvd_machine *m, struct hvd_worker *w, bool was_ended, hvd_time now)
{
	bool first = !m->gen.died;
	char text[64];

	m->gen.moved_at = now;
	if (!was_ended && w->status == 0) {
		w->success = m->gen.success = true;
		return;
	}
	if (!was_ended && can_be_replaced(m, w)) {
		hvd_warn(m->log, "rank %d on %s failed before it had connected to the others: %s; replacing it",
			 w->rank, m->hosts[w->host].name, hvd_status_text(w->status, text, sizeof(text)));
		hvd_generation_replace(m, w, now);
		return;
	}
	m->gen.died = true;
	if (!was_ended)
		hvd_failure_blame(m, w, first, hvd_status_text(w->status, text, sizeof(text)));
	if (m->phase == HVD_STARTING && !m->gen.trouble_at)
		m->gen.trouble_at = now;
	if (m->phase == HVD_WAITING)
		hvd_failure_judge(m, now);
}

/* A worker that was started for the next generation has ended. Its host is judged, and the current generation
 * continues. */
static void newcomer_exited(struct hvd_machine *m, struct hvd_worker *w, hvd_time now)
{
	char text[64];

	hvd_failure_blame(m, w, true, hvd_status_text(w->status, text, sizeof(text)));
	hvd_failure_judge(m, now);
}

void hvd_worker_exited(struct hvd_machine *m, struct hvd_worker *w, bool was_ended, hvd_time now)
{
	if (hvd_worker_group_has(&m->now, w))
		member_exited(m, w, was_ended, now);
	else if (!was_ended)
		newcomer_exited(m, w, now);
}

void hvd_worker_lost(struct hvd_machine *m, struct hvd_worker *w, hvd_time now)
{
	m->gen.died = true;
	m->gen.moved_at = now;
	if (m->phase == HVD_STARTING && !m->gen.trouble_at)
		m->gen.trouble_at = now;
	if (m->phase != HVD_WAITING)
		hvd_failure_set(m, w, "rank %d was lost with its host", w->rank);
}
