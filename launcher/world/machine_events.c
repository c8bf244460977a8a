/* SPDX-License-Identifier: Apache-2.0 */
/* machine_events.c - the state machine's begin, and its events: one function for each. */
#include "machine_internal.h"

#include "lib/base/xalloc.h"

#include <stdlib.h>

/* When rank 0 could not be notified, try again after this. */
#define NOTIFY_AGAIN_SECONDS 1
/* Horovod loses what reaches rank 0 during hvd.init(), though it answers. So the notice is repeated in this rhythm. */
#define NOTIFY_REPEAT_SECONDS 20

struct hvd_machine *hvd_machine_create(const struct hvd_machine_opts *opts, hvd_time now,
				       const struct hvd_machine_ops *ops, void *arg, const struct hvd_log *log)
{
	struct hvd_machine *m = hvd_xcalloc(1, sizeof(*m));

	m->opts = *opts;
	m->policy = opts->restart ? &hvd_policy_restart : &hvd_policy_horovod;
	m->ops = ops;
	m->arg = arg;
	m->log = log;
	m->phase = HVD_WAITING;
	m->waiting_since = now;
	m->due = hvd_after(now, opts->elastic_timeout);
	return m;
}

/* After an event: go from phase to phase as far as possible. */
static void step(struct hvd_machine *m, hvd_time now)
{
	bool again = m->phase != HVD_OVER;

	while (again) {
		m->due = 0;
		hvd_failure_bound_ends(m, now);
		hvd_host_manager_tend(m, now);
		again = m->policy->step(m, now) && m->phase != HVD_OVER;
	}
	/* Some workers may have become ENDING just now. */
	if (m->phase != HVD_OVER)
		hvd_failure_bound_ends(m, now);
	if (m->due == HVD_FOREVER)
		m->due = 0;
}

/* The job has as many ranks as the first hosts that are listed without so many spares. */
static void set_spares_aside(struct hvd_machine *m, const struct hvd_alloc *hosts)
{
	struct hvd_err why = {0};
	int room = 0, with_slots = 0;

	if (m->opts.spares == 0 || m->spares_set_aside)
		return;
	for (int i = 0; i < hosts->n_hosts; i++)
		with_slots += hosts->hosts[i].slots > 0;
	if (with_slots == 0)
		return;
	m->spares_set_aside = true;
	for (int i = 0, left = with_slots - m->opts.spares; left > 0; i++) {
		room += hosts->hosts[i].slots;
		left -= hosts->hosts[i].slots > 0;
	}
	if (m->opts.hosts_come && m->opts.np > 0)
		room = m->opts.np;
	if (room > 0 && room >= m->opts.np) {
		if (m->opts.max_np == 0)
			m->opts.max_np = room;
		if (m->opts.np == 0)
			m->opts.np = room < m->opts.max_np ? room : m->opts.max_np;
		if (m->opts.min_np == 0)
			m->opts.min_np = m->opts.np;
		return;
	}
	hvd_err_set(&why, HVD_E_USAGE, "without %d spare host%s there are %d slots, but the job has %d ranks",
		    m->opts.spares, m->opts.spares == 1 ? "" : "s", room, m->opts.np);
	hvd_err_hint(&why, "ask for more hosts, or for spares that have as many slots as the others");
	hvd_machine_finish(m, &why, hvd_err_status(&why));
}

void hvd_machine_hosts(struct hvd_machine *m, const struct hvd_alloc *hosts, hvd_time now)
{
	set_spares_aside(m, hosts);
	hvd_host_manager_update(m, hosts, now);
	m->gen.notified = false;
	/* Agents that come by themselves come one by one. */
	if (!m->opts.hosts_come || m->generation > 0)
		m->gen.warned_slots = false;
	step(m, now);
}

void hvd_machine_host_here(struct hvd_machine *m, uint32_t host, hvd_time now)
{
	const bool later = m->phase == HVD_RUNNING;

	if (host >= m->n_hosts || m->hosts[host].stage != HVD_STAGE_COMING)
		return;
	m->hosts[host].stage = HVD_STAGE_HERE;
	m->hosts[host].tried = true;
	m->gen.notified = false;
	step(m, now);
	if (later && m->phase == HVD_RUNNING)
		hvd_host_manager_log_spares(m, host, host + 1, now);
}

void hvd_machine_network(struct hvd_machine *m, uint32_t host, const char *switch_path, double mbps)
{
	if (host >= m->n_hosts)
		return;
	free(m->hosts[host].switch_path);
	m->hosts[host].switch_path = switch_path ? hvd_xstrdup(switch_path) : NULL;
	m->hosts[host].mbps = mbps;
}

void hvd_machine_host_gone(struct hvd_machine *m, uint32_t host, enum hvd_host_end how, hvd_time now)
{
	if (host >= m->n_hosts || m->hosts[host].stage == HVD_STAGE_AWAY)
		return;
	hvd_failure_lose_host(m, host, how, now);
	step(m, now);
}

void hvd_machine_progress(struct hvd_machine *m)
{
	m->gen.progress = true;
}

void hvd_machine_repeats(struct hvd_machine *m)
{
	m->gen.repeats = true;
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
		step(m, now); /* the last one to arrive */
}

void hvd_machine_connected(struct hvd_machine *m, hvd_time now)
{
	if (m->phase != HVD_RUNNING || m->gen.connected)
		return;
	m->gen.connected = true;
	step(m, now);
}

void hvd_machine_ready(struct hvd_machine *m, uint32_t worker, hvd_time now)
{
	struct hvd_worker *w = hvd_worker_find(m, worker);

	if (!w || w->state != HVD_WORKER_RUNNING)
		return;
	w->state = HVD_WORKER_READY;
	m->gen.moved_at = now;
	step(m, now);
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
	m->policy->exited(m, w, ours, now);
	step(m, now);
}

void hvd_machine_unkillable(struct hvd_machine *m, uint32_t worker, hvd_time now)
{
	struct hvd_worker *w = hvd_worker_find(m, worker);

	if (!w || w->state != HVD_WORKER_ENDING || m->phase == HVD_OVER)
		return;
	hvd_failure_unkillable(m, w, now);
	step(m, now);
}

void hvd_machine_checked(struct hvd_machine *m, uint32_t host, hvd_time now)
{
	if (host >= m->n_hosts || !m->hosts[host].checking)
		return;
	m->hosts[host].checking = false;
	step(m, now);
}

void hvd_machine_notified(struct hvd_machine *m, bool heard, hvd_time now)
{
	if (!m->gen.notifying)
		return;
	m->gen.notifying = false;
	m->gen.notified = heard;
	m->gen.repeat_after = hvd_after(now, NOTIFY_REPEAT_SECONDS);
	if (!heard)
		m->gen.notify_after = hvd_after(now, NOTIFY_AGAIN_SECONDS);
	step(m, now);
}

void hvd_machine_kill_failed(struct hvd_machine *m, hvd_time now)
{
	m->gen.kill_failed = m->gen.kill_asked;
	step(m, now);
}

void hvd_machine_release(struct hvd_machine *m, hvd_time now)
{
	m->opts.held = false;
	step(m, now);
}

void hvd_machine_fail(struct hvd_machine *m, const struct hvd_err *why, int status)
{
	if (m->phase != HVD_OVER)
		hvd_machine_finish(m, why, status);
}

void hvd_machine_tick(struct hvd_machine *m, hvd_time now)
{
	/* When a ban has ended, rank 0 has to be notified again. */
	for (uint32_t k = 0; k < m->n_hosts; k++)
		if (m->hosts[k].banned_until && m->hosts[k].banned_until <= now) {
			m->hosts[k].banned_until = 0;
			m->gen.notified = false;
		}
	step(m, now);
}
