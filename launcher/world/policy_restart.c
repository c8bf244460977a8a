/* SPDX-License-Identifier: Apache-2.0 */
/* policy_restart.c - PyTorch's policy of an elastic job: after a failure, or when hosts change, all workers are ended,
 * and all of the next generation are new. */
#include "machine_internal.h"

#include "lib/process/spawn.h"

#include <signal.h>

/* New hosts do not end a generation that is younger than this, whose ranks may not even have connected. */
#define YOUNG_SECONDS 10
/* A host is left out when the first failure of two generations in a row was there, each within this time. */
#define SOON_SECONDS 600

/* ---- the end of a generation ---- */

/* Have all hosts checked again that the next generation may use. */
static void check_again(struct hvd_machine *m, hvd_time now)
{
	for (uint32_t k = 0; m->opts.check_wait > 0 && k < m->n_hosts; k++) {
		if (!hvd_host_manager_usable(&m->hosts[k], now))
			continue;
		m->hosts[k].checking = true;
		m->ops->check(k, m->arg);
	}
}

/* Is the result of such a check still awaited? */
static bool awaits_checks(struct hvd_machine *m, hvd_time now)
{
	hvd_time end = hvd_after(m->over_at, m->opts.check_wait);
	bool any = false;

	for (uint32_t k = 0; k < m->n_hosts; k++) {
		struct hvd_managed_host *h = &m->hosts[k];

		if (!h->checking || !hvd_host_manager_usable(h, now))
			continue;
		if (now >= end)
			hvd_verbose(m->log, "%s: going on without the result of its check", h->name);
		h->checking = now < end;
		any |= h->checking;
	}
	if (any)
		hvd_machine_wake(m, end);
	return any;
}

/* End all members that still run, and begin again. */
static void end_members(struct hvd_machine *m, const char *why, hvd_time now)
{
	if (m->ops->restart)
		m->ops->restart(why, m->arg);
	m->gen.ended_all = true;
	m->gen.moved_at = now;
	for (int r = 0; r < m->now.n; r++)
		if (m->now.v[r]->state == HVD_WORKER_RUNNING)
			hvd_worker_stop(m, m->now.v[r], false);
	check_again(m, now);
}

static void no_restart_left(struct hvd_machine *m)
{
	struct hvd_err why = m->first_failure;

	if (m->opts.max_restarts > 0)
		hvd_err_hint(&why, "all ranks were restarted %d time%s, as often as --max-restarts allows",
			     m->opts.max_restarts, m->opts.max_restarts == 1 ? "" : "s");
	else if (m->opts.max_restarts == 0)
		hvd_err_hint(&why, "--max-restarts=0 restarts nothing after a failure");
	hvd_machine_finish(m, &why, hvd_status_exit(m->first_status));
}

static bool has_progress(const struct hvd_machine *m, hvd_time now)
{
	double after = m->opts.progress_after;

	return after < 0 ? m->gen.progress : now >= hvd_after(m->gen.starting_since, after);
}

/* A generation has failed. Has the program failed in the same way on another host, and made no progress since? */
static bool is_the_programs(const struct hvd_machine *m, hvd_time now)
{
	return m->opts.max_idle > 0 && m->gen.repeats && !has_progress(m, now);
}

static void finish_as_the_programs(struct hvd_machine *m)
{
	struct hvd_err why = m->first_failure;

	hvd_err_hint(&why, "the same rank has failed with the same exception on another host, so the program is at "
			   "fault, and not a host (--max-idle-restarts=0 goes on all the same)");
	hvd_machine_finish(m, &why, hvd_status_exit(m->first_status));
}

/* A generation has failed. Is there no point in yet another one? */
static bool lacks_progress(struct hvd_machine *m, hvd_time now)
{
	if (has_progress(m, now))
		m->idle = 0;
	else if (!m->gen.host_lost)
		m->idle++;
	return hvd_machine_idle(m);
}

static void finish_without_progress(struct hvd_machine *m)
{
	struct hvd_err why = m->first_failure;

	hvd_err_hint(&why,
		     m->opts.progress_after < 0
			     ? "the last %d generation%s ended without a new file of --progress-file "
			       "(--max-idle-restarts=0 goes on all the same)"
			     : "the last %d generation%s ended soon after the start (--restart-window, "
			       "--progress-file; --max-idle-restarts=0 goes on all the same)",
		     m->idle, m->idle == 1 ? "" : "s");
	hvd_machine_finish(m, &why, HVD_IDLE_STATUS);
}

/* A member has failed, for the first time in this generation. */
static void begin_restart(struct hvd_machine *m, hvd_time now)
{
	int left = hvd_machine_count(m, HVD_WORKER_RUNNING);

	if (m->restarts >= m->opts.max_restarts) {
		no_restart_left(m);
		return;
	}
	if (is_the_programs(m, now)) {
		finish_as_the_programs(m);
		return;
	}
	if (lacks_progress(m, now)) {
		finish_without_progress(m);
		return;
	}
	m->restarts++;
	hvd_info(m->log, "restarting all ranks, restart %d of %d%s", m->restarts, m->opts.max_restarts,
		 left ? ", when the others have ended" : "");
	end_members(m, m->first_failure.msg, now);
}

/* All members have ended. */
static void over(struct hvd_machine *m, hvd_time now)
{
	m->gen.warned_slots = false;
	hvd_generation_over(m, now);
}

/* ---- failures ---- */

/* Mark a host whose ranks fail first repeatedly for hvd_failure_judge(). With a cooldown, once is enough. */
static void suspect(struct hvd_machine *m, uint32_t host, hvd_time now)
{
	bool soon = now < hvd_after(m->gen.starting_since, SOON_SECONDS);
	bool again = soon && m->suspected && m->suspect == host;

	m->suspected = soon;
	m->suspect = host;
	if (again)
		hvd_failure_bad_host(m, host, "the first failure of two generations in a row was there");
	if (again || m->opts.cooldown_min > 0)
		m->hosts[host].to_judge = true;
}

static void on_exited(struct hvd_machine *m, struct hvd_worker *w, bool was_ended, hvd_time now)
{
	char text[64];

	if (was_ended || m->gen.ended_all)
		return;
	if (w->status == 0) {
		w->success = m->gen.success = true;
		return;
	}
	hvd_failure_note(m, w, hvd_status_text(w->status, text, sizeof(text)));
	if (!m->gen.died)
		suspect(m, w->host, now);
	m->gen.died = true;
}

static void on_lost(struct hvd_machine *m, struct hvd_worker *w, hvd_time now)
{
	(void)now;
	m->gen.host_lost |= !m->gen.died;
	m->gen.died = true;
	hvd_failure_set(m, w, "rank %d was lost with its host", w->rank);
}

/* ---- hosts change ---- */

/* There are new hosts: end the generation for them? Not while it is young or more agents are registering, since every
 * restart loses the training after the last checkpoint. */
static bool may_grow(struct hvd_machine *m, int slots, hvd_time now)
{
	hvd_time young = hvd_after(m->gen.starting_since, YOUNG_SECONDS), settled;

	if (!m->gen.enough_since || m->gen.slots_seen != slots)
		m->gen.enough_since = now;
	m->gen.slots_seen = slots;
	settled = hvd_after(m->gen.enough_since, m->opts.settle);
	if (now < young) {
		hvd_machine_wake(m, young);
		return false;
	}
	if (slots == m->opts.max_np)
		return true;
	if (now < settled) {
		hvd_machine_wake(m, settled);
		return false;
	}
	return hvd_host_manager_promised(m, now) <= slots;
}

static void check_hosts(struct hvd_machine *m, hvd_time now)
{
	struct hvd_rank_assignment assignment = hvd_rank_assignment_find(m, now);
	bool leaving = assignment.kept < m->now.n, coming = assignment.kept < assignment.n;

	hvd_machine_wake(m, hvd_host_manager_due(m, now));
	if (!leaving && !coming) {
		m->gen.enough_since = 0;
	} else if (assignment.n < m->opts.min_np) {
		if (!m->gen.warned_slots)
			hvd_warn(m->log,
				 "%d slots are left, but %d ranks are needed: going on as long as the hosts remain",
				 assignment.n, m->opts.min_np);
		m->gen.warned_slots = true;
	} else if (leaving || may_grow(m, assignment.n, now)) {
		hvd_info(m->log, "hosts have changed: restarting all ranks when they have ended");
		m->suspected = false;
		end_members(m, "hosts have changed", now);
	}
	hvd_rank_assignment_clear(&assignment);
}

/* ---- phases ---- */

/* Each member is found gone once. */
static bool all_gone(struct hvd_machine *m)
{
	int *r = &m->gen.first_left;

	while (*r < m->now.n && m->now.v[*r]->state == HVD_WORKER_GONE)
		(*r)++;
	return *r == m->now.n;
}

static bool step_running(struct hvd_machine *m, hvd_time now)
{
	if (m->gen.died && !m->gen.ended_all) {
		begin_restart(m, now);
		return m->phase != HVD_OVER;
	}
	if (all_gone(m)) {
		if (m->gen.ended_all)
			over(m, now);
		else
			hvd_failure_finish(m);
		return m->phase != HVD_OVER;
	}
	if (!m->gen.ended_all && !m->gen.success)
		check_hosts(m, now); /* once a rank has ended with 0, the job is near its end */
	return false;
}

/* Can there never be as many slots again? */
static bool no_others_come(const struct hvd_machine *m, int need)
{
	bool any = false;

	for (uint32_t k = 0; k < m->n_hosts; k++)
		any |= m->hosts[k].listed;
	return (m->opts.hosts_stay && hvd_host_manager_left(m) < need) || (m->opts.hosts_end && !any);
}

/* There are too few slots. True: a ban was lifted, or the job has ended. */
static bool help_or_give_up(struct hvd_machine *m, int have, int need)
{
	struct hvd_err why = m->first_failure;

	if (hvd_slots_none_came(m))
		return true;
	if (hvd_host_manager_unban(m))
		return true;
	if (m->generation == 0 || !no_others_come(m, need))
		return false;
	if (!why.code)
		hvd_err_set(&why, HVD_E_FAILED, "too few hosts are left");
	hvd_err_hint(&why, "%d slot%s left, but %d ranks are needed; a lower --min-np goes on with fewer", have,
		     have == 1 ? " is" : "s are", need);
	m->too_few = true;
	hvd_machine_finish(m, &why, m->first_status ? hvd_status_exit(m->first_status) : 1);
	return true;
}

static void start(struct hvd_machine *m, const struct hvd_rank_assignment *assignment, hvd_time now)
{
	hvd_generation_form(m, assignment, now);
	for (int r = 0; r < m->now.n; r++) {
		m->now.v[r]->state = HVD_WORKER_RUNNING;
		m->now.v[r]->fresh = false;
	}
	hvd_host_manager_set_ranks(m);
	m->phase = HVD_RUNNING;
	m->first_failure = (struct hvd_err){0};
	m->first_status = 0;
}

static bool step_waiting(struct hvd_machine *m, hvd_time now)
{
	struct hvd_rank_assignment assignment;
	int need = hvd_slots_needed(m, now);
	bool moved = false;

	if (awaits_checks(m, now))
		return false;
	hvd_host_manager_move_ranks(m, now);
	assignment = hvd_rank_assignment_find(m, now);
	if (assignment.n < need) {
		moved = help_or_give_up(m, assignment.n, need);
		if (!moved)
			hvd_slots_wait(m, assignment.n, need, now);
	} else if (hvd_host_manager_settled(m, assignment.n, now) && !m->opts.held) {
		start(m, &assignment, now);
		moved = true;
	}
	hvd_rank_assignment_clear(&assignment);
	return moved && m->phase != HVD_OVER;
}

static bool step(struct hvd_machine *m, hvd_time now)
{
	return m->phase == HVD_WAITING ? step_waiting(m, now) : step_running(m, now);
}

const struct hvd_policy hvd_policy_restart = {step, on_exited, on_lost};
