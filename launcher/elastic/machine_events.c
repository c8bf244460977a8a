/* SPDX-License-Identifier: Apache-2.0 */
/* machine_events.c - what the state machine is told: one function for each event. */
#include "machine_internal.h"

#include "lib/process/spawn.h"

#include <signal.h>

/* When rank 0 could not be notified, try again after this. */
#define NOTIFY_AGAIN_SECONDS 1
/* How many members of one generation are replaced while its members connect to each other. */
#define MAX_REPLACED 3

void hvd_machine_hosts(struct hvd_machine *m, const struct hvd_alloc *hosts, hvd_time now)
{
	hvd_host_manager_update(m, hosts, now);
	m->gen.notified = m->gen.warned_slots = false;
	hvd_machine_step(m, now);
}

void hvd_machine_host_here(struct hvd_machine *m, uint32_t host, hvd_time now)
{
	if (host >= m->n_hosts || m->hosts[host].stage != HVD_HOST_COMING)
		return;
	m->hosts[host].stage = HVD_HOST_HERE;
	m->hosts[host].tried = true;
	m->gen.notified = false;
	hvd_machine_step(m, now);
}

static void lost_worker(struct hvd_machine *m, struct hvd_worker *w, hvd_time now)
{
	w->state = HVD_WORKER_GONE;
	w->status = SIGKILL;
	if (!hvd_worker_group_has(&m->now, w))
		return;
	m->gen.died = true;
	m->gen.moved_at = now;
	if (m->phase == HVD_STARTING && !m->gen.trouble_at)
		m->gen.trouble_at = now;
	if (!m->first_failure.code && m->phase != HVD_WAITING) {
		m->first_status = SIGKILL;
		hvd_err_set(&m->first_failure, HVD_E_FAILED, "rank %d was lost with its host", w->rank);
		hvd_err_host(&m->first_failure, m->hosts[w->host].name);
	}
}

void hvd_machine_host_gone(struct hvd_machine *m, uint32_t host, enum hvd_host_end how, hvd_time now)
{
	struct hvd_managed_host *h = host < m->n_hosts ? &m->hosts[host] : NULL;

	if (!h || h->stage == HVD_HOST_AWAY)
		return;
	h->stage = HVD_HOST_AWAY;
	h->tried = true;
	h->unfit |= how == HVD_HOST_UNFIT;
	h->lost = h->listed;
	if (m->opts.cooldown_min > 0 && how == HVD_HOST_LOST && h->listed) {
		h->lost = false;
		h->banned_until = hvd_after(now, m->opts.cooldown_min);
	}
	for (uint32_t i = 0; i < m->n_workers; i++)
		if (m->workers[i]->host == host && m->workers[i]->state != HVD_WORKER_GONE)
			lost_worker(m, m->workers[i], now);
	m->gen.notified = false;
	hvd_machine_step(m, now);
}

void hvd_machine_arrived(struct hvd_machine *m, uint32_t worker, hvd_time now)
{
	struct hvd_worker *w = hvd_worker_find(m, worker);

	if (!w)
		return;
	w->published = true;
	if (w->state != HVD_WORKER_STARTING)
		return;
	if (m->phase == HVD_RUNNING && hvd_worker_group_has(&m->now, w)) {
		w->state = HVD_WORKER_RUNNING; /* it replaces a member, and knows its rank already */
		w->fresh = false;
		return;
	}
	w->state = HVD_WORKER_ARRIVED;
	if (hvd_worker_group_count(m->next.n ? &m->next : &m->now, HVD_WORKER_STARTING) == 0)
		hvd_machine_step(m, now); /* the last one to arrive */
}

void hvd_machine_connected(struct hvd_machine *m, hvd_time now)
{
	if (m->phase != HVD_RUNNING || m->gen.connected)
		return;
	m->gen.connected = true;
	hvd_machine_step(m, now);
}

void hvd_machine_ready(struct hvd_machine *m, uint32_t worker, hvd_time now)
{
	struct hvd_worker *w = hvd_worker_find(m, worker);

	if (!w || w->state != HVD_WORKER_RUNNING)
		return;
	w->state = HVD_WORKER_READY;
	m->gen.moved_at = now;
	hvd_machine_step(m, now);
}

/* A member has ended before it published its address, which the others wait for: can a replacement publish it? Rank 0
 * cannot be replaced, for it hands its state to the others. */
static bool can_be_replaced(const struct hvd_machine *m, const struct hvd_worker *w)
{
	const struct hvd_managed_host *h = &m->hosts[w->host];

	return m->phase == HVD_RUNNING && !m->gen.connected && !w->published && !m->gen.died && !m->gen.success &&
	       w->rank > 0 && m->gen.replaced < MAX_REPLACED && h->stage == HVD_HOST_HERE && h->listed;
}

/* A member of this generation has ended. */
static void member_exited(struct hvd_machine *m, struct hvd_worker *w, bool ours, hvd_time now)
{
	bool first = !m->gen.died;
	char text[64];

	m->gen.moved_at = now;
	if (!ours && w->status == 0) {
		w->success = m->gen.success = true;
		return;
	}
	if (!ours && can_be_replaced(m, w)) {
		hvd_warn(m->log, "rank %d on %s failed before it had met the others: %s; starting another one", w->rank,
			 m->hosts[w->host].name, hvd_status_text(w->status, text, sizeof(text)));
		hvd_generation_replace(m, w, now);
		return;
	}
	m->gen.died = true;
	if (!ours)
		hvd_failure_blame(m, w, first, hvd_status_text(w->status, text, sizeof(text)));
	if (m->phase == HVD_STARTING && !m->gen.trouble_at)
		m->gen.trouble_at = now;
	if (m->phase == HVD_WAITING)
		hvd_failure_judge(m, now);
}

/* A worker that was started for the next generation has ended: its host is judged, and the current generation goes on.
 */
static void newcomer_exited(struct hvd_machine *m, struct hvd_worker *w, hvd_time now)
{
	char text[64];

	hvd_failure_blame(m, w, true, hvd_status_text(w->status, text, sizeof(text)));
	hvd_failure_judge(m, now);
}

void hvd_machine_exited(struct hvd_machine *m, uint32_t worker, int status, hvd_time now)
{
	struct hvd_worker *w = hvd_worker_find(m, worker);
	bool ours;

	if (!w || w->state == HVD_WORKER_GONE)
		return;
	ours = w->state == HVD_WORKER_ENDING;
	w->state = HVD_WORKER_GONE;
	w->status = status;
	if (m->phase == HVD_OVER)
		return;
	if (hvd_worker_group_has(&m->now, w))
		member_exited(m, w, ours, now);
	else if (!ours)
		newcomer_exited(m, w, now);
	hvd_machine_step(m, now);
}

void hvd_machine_notified(struct hvd_machine *m, bool heard, hvd_time now)
{
	if (!m->gen.notifying)
		return;
	m->gen.notifying = false;
	m->gen.notified = heard;
	if (!heard)
		m->gen.notify_after = hvd_after(now, NOTIFY_AGAIN_SECONDS);
	hvd_machine_step(m, now);
}

void hvd_machine_kill_failed(struct hvd_machine *m, hvd_time now)
{
	m->gen.kill_failed = m->gen.kill_asked;
	hvd_machine_step(m, now);
}

void hvd_machine_tick(struct hvd_machine *m, hvd_time now)
{
	/* When a ban has ended, rank 0 has to be notified again. */
	for (uint32_t k = 0; k < m->n_hosts; k++)
		if (m->hosts[k].banned_until && m->hosts[k].banned_until <= now) {
			m->hosts[k].banned_until = 0;
			m->gen.notified = false;
		}
	hvd_machine_step(m, now);
}
