/* SPDX-License-Identifier: Apache-2.0 */
/* failure.c - what a failure means for its host, which may be banned, and for the job, whose result is that of the
 * first failure. */
#include "machine_internal.h"

#include "lib/process/spawn.h"

#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/wait.h>

/* A host that the job cannot do without is not banned for its first failures. */
#define SPARE_TIMES 3

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

static void ban(struct hvd_machine *m, struct hvd_managed_host *h, hvd_time now)
{
	double seconds = m->opts.cooldown_min;

	h->bans++;
	h->banned_at = now;
	if (seconds <= 0) {
		h->banned_until = HVD_FOREVER;
		hvd_warn(m->log, "%s: a rank failed there; the host is not used any longer", h->name);
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
		if ((m->opts.restart || h->spared < SPARE_TIMES) && !enough_without(m, h, now)) {
			h->spared++;
			if (!m->opts.restart)
				hvd_warn(m->log,
					 "%s: a rank failed there; the host is used further, for there are not enough "
					 "others",
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

void hvd_failure_bound_ends(struct hvd_machine *m, hvd_time since, hvd_time now)
{
	hvd_time end = hvd_after(since, m->opts.patience);
	struct hvd_err why = {0};

	if (now < end) {
		hvd_machine_wake(m, end);
		return;
	}
	hvd_err_set(&why, HVD_E_TIMEOUT, "ranks that were killed have not ended within %g seconds", m->opts.patience);
	hvd_err_hint(&why, "look for processes in state D on the hosts, as of a file system or a device that hangs");
	hvd_machine_finish(m, &why, 1);
}
