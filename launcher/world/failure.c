/* SPDX-License-Identifier: Apache-2.0 */
/* failure.c - what a failure means for its host, which may be banned, and for the job, whose result is that of the
 * first failure. */
#include "machine_internal.h"

#include "lib/process/spawn.h"

#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/wait.h>

/* How many failures of a host that the job needs do not ban it. */
#define KEEP_TIMES 3

static bool aborted(int status)
{
	return (WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT) ||
	       (WIFEXITED(status) && WEXITSTATUS(status) == 128 + SIGABRT);
}

void hvd_failure_set(struct hvd_machine *m, const struct hvd_worker *w, const char *fmt, ...)
{
	char text[256];
	va_list ap;

	if (m->first_failure.code)
		return;
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	m->first_status = w->status;
	hvd_err_set(&m->first_failure, HVD_E_FAILED, "%s", text);
	hvd_err_host(&m->first_failure, m->hosts[w->host].name);
}

void hvd_failure_note(struct hvd_machine *m, struct hvd_worker *w, const char *what)
{
	w->failed = true;
	hvd_warn(m->log, "rank %d on %s failed: %s", w->rank, m->hosts[w->host].name, what);
	if (hvd_worker_group_has(&m->now, w))
		hvd_failure_set(m, w, "rank %d failed: %s", w->rank, what);
}

void hvd_failure_blame(struct hvd_machine *m, struct hvd_worker *w, bool first, const char *what)
{
	hvd_failure_note(m, w, what);
	if (first || !aborted(w->status))
		m->hosts[w->host].to_judge = true;
}

static bool enough_without(struct hvd_machine *m, struct hvd_managed_host *h, hvd_time now)
{
	hvd_time was = h->banned_until;
	struct hvd_rank_assignment assignment;
	bool enough;

	h->banned_until = HVD_FOREVER;
	assignment = hvd_rank_assignment_find(m, now);
	enough = assignment.n >= m->opts.min_np && (m->opts.restart || m->generation == 0 || assignment.kept > 0);
	hvd_rank_assignment_clear(&assignment);
	h->banned_until = was;
	return enough;
}

bool hvd_machine_needs(struct hvd_machine *m, uint32_t host, hvd_time now)
{
	return host < m->n_hosts && m->opts.hosts_stay && m->opts.spares == 0 &&
	       !enough_without(m, &m->hosts[host], now);
}

void hvd_failure_bad_host(struct hvd_machine *m, uint32_t host, const char *why)
{
	if (m->ops->host_bad)
		m->ops->host_bad(host, why, m->arg);
}

static void ban(struct hvd_machine *m, struct hvd_managed_host *h, hvd_time now)
{
	double seconds = m->opts.cooldown_min;

	h->bans++;
	h->banned_at = now;
	if (seconds <= 0) {
		h->banned_until = HVD_FOREVER;
		hvd_warn(m->log, "%s: a rank failed there; the host is no longer used", h->name);
		hvd_failure_bad_host(m, (uint32_t)(h - m->hosts), "a rank failed there");
		return;
	}
	for (int i = 1; i < h->bans && seconds < m->opts.cooldown_max; i++)
		seconds *= 2;
	if (seconds > m->opts.cooldown_max)
		seconds = m->opts.cooldown_max;
	h->banned_until = now + (hvd_time)(seconds * 1e9);
	hvd_warn(m->log, "%s: a rank failed there; the host is not used for %g s", h->name, seconds);
}

void hvd_failure_judge(struct hvd_machine *m, hvd_time now)
{
	for (uint32_t k = 0; k < m->n_hosts; k++) {
		struct hvd_managed_host *h = &m->hosts[k];

		if (!h->to_judge)
			continue;
		h->to_judge = false;
		if (!h->listed || h->lost || hvd_host_manager_banned(h, now))
			continue;
		if ((m->opts.restart || h->kept < KEEP_TIMES) && !enough_without(m, h, now)) {
			h->kept++;
			if (!m->opts.restart)
				hvd_warn(m->log,
					 "%s: a rank failed there; the host is still used, because the other hosts do "
					 "not have enough slots",
					 h->name);
		} else {
			ban(m, h, now);
		}
	}
}

void hvd_machine_finish(struct hvd_machine *m, const struct hvd_err *why, int status)
{
	m->phase = HVD_OVER;
	m->due = 0;
	m->ops->finish(why, status, m->arg);
}

void hvd_failure_finish(struct hvd_machine *m)
{
	hvd_machine_finish(m, &m->first_failure,
			   m->first_status ? hvd_status_exit(m->first_status) : m->first_failure.code != 0);
}

/* ---- lost hosts, and workers that do not end ---- */

static void lose_worker(struct hvd_machine *m, struct hvd_worker *w, hvd_time now)
{
	w->state = HVD_WORKER_GONE;
	w->status = SIGKILL;
	if (hvd_worker_group_has(&m->now, w))
		m->policy->lost(m, w, now);
}

void hvd_failure_lose_host(struct hvd_machine *m, uint32_t host, enum hvd_host_end how, hvd_time now)
{
	struct hvd_managed_host *h = &m->hosts[host];

	h->stage = HVD_STAGE_AWAY;
	h->tried = true;
	h->unfit |= how == HVD_HOST_UNFIT;
	h->lost = h->listed;
	h->checking = false;
	if (m->opts.cooldown_min > 0 && how == HVD_HOST_LOST && h->listed) {
		h->lost = false;
		h->banned_until = hvd_after(now, m->opts.cooldown_min);
	}
	hvd_host_manager_lost(m, h, how, now);
	for (uint32_t i = 0; i < m->n_workers; i++)
		if (m->workers[i]->host == host && m->workers[i]->state != HVD_WORKER_GONE)
			lose_worker(m, m->workers[i], now);
	m->gen.notified = false;
}

void hvd_failure_unkillable(struct hvd_machine *m, struct hvd_worker *w, hvd_time now)
{
	struct hvd_managed_host *h = &m->hosts[w->host];

	if (enough_without(m, h, now)) {
		hvd_warn(m->log, "%s: the host is no longer used", h->name);
		m->ops->host_give_up(w->host, m->arg);
		hvd_failure_lose_host(m, w->host, HVD_HOST_UNFIT, now);
	} else {
		hvd_warn(m->log,
			 "%s: the other hosts do not have enough slots: waiting up to %g s for the end of that rank",
			 h->name, m->opts.patience);
	}
}

/* Its node agent answers, otherwise the host would be lost. So the kernel keeps the worker from ending. All workers are
 * looked at only if there is something new to see. */
void hvd_failure_bound_ends(struct hvd_machine *m, hvd_time now)
{
	if (!m->more_ending && now < m->ends_at) {
		if (m->ends_at != HVD_FOREVER)
			hvd_machine_wake(m, m->ends_at);
		return;
	}
	m->more_ending = false;
	m->ends_at = HVD_FOREVER;
	for (uint32_t i = 0; i < m->n_workers; i++) {
		struct hvd_worker *w = m->workers[i];
		hvd_time end;

		if (w->state != HVD_WORKER_ENDING)
			continue;
		w->ending_since = w->ending_since ? w->ending_since : now;
		end = hvd_after(w->ending_since, m->opts.patience);
		if (now < end) {
			m->ends_at = hvd_earlier(m->ends_at, end);
			continue;
		}
		hvd_warn(m->log, "%s: local rank %d has not ended %g s after it was asked to; giving the host up",
			 m->hosts[w->host].name, w->slot, m->opts.patience);
		m->ops->host_give_up(w->host, m->arg);
		hvd_failure_lose_host(m, w->host, HVD_HOST_LOST, now);
	}
	if (m->ends_at != HVD_FOREVER)
		hvd_machine_wake(m, m->ends_at);
}
