/* SPDX-License-Identifier: Apache-2.0 */
/* policy_horovod.c - Horovod's policy: the phases waiting and starting, and what the end of a worker means;
 * policy_horovod_training.c has the phase running. */
#include "machine_internal.h"

#include "lib/process/spawn.h"

/* How many members of one generation are replaced while its members connect to each other. */
#define MAX_REPLACED 3

/* ---- waiting ---- */

/* End the job if it can never go on. `fills_up`: the next generation does not count against the reset limit. */
static bool give_up(struct hvd_machine *m, bool fills_up)
{
	struct hvd_err why = m->first_failure;
	int status = m->first_status ? hvd_status_exit(m->first_status) : 1;

	if (m->generation > 0 && hvd_machine_count(m, HVD_WORKER_READY) == 0) {
		if (!why.code)
			hvd_err_set(&why, HVD_E_FAILED, "no rank is left that has the training state");
		hvd_machine_finish(m, &why, status);
		return true;
	}
	if (m->generation > 0 && hvd_generation_limit_met(m) && !fills_up) {
		hvd_err_set(&why, HVD_E_LIMIT, "the ranks have changed %d time%s, as often as --reset-limit allows",
			    m->opts.reset_limit, m->opts.reset_limit == 1 ? "" : "s");
		if (m->first_failure.code)
			hvd_err_hint(&why, "the last failure: %.200s", m->first_failure.msg);
		hvd_machine_finish(m, &why, 1);
		return true;
	}
	if (hvd_slots_none_came(m))
		return true;
	if (hvd_host_manager_hopeless(m)) {
		if (!why.code)
			hvd_err_set(&why, HVD_E_FAILED, "ranks have failed on every host");
		hvd_err_hint(&why,
			     "no host is left; with --blacklist-cooldown-range hosts are used again after a failure");
		hvd_machine_finish(m, &why, status);
		return true;
	}
	return false;
}

/* Start a generation with this assignment, or with the survivors only if they are enough. */
static bool form(struct hvd_machine *m, struct hvd_rank_assignment *assignment, hvd_time now)
{
	int need = hvd_slots_needed(m, now), all = assignment->n;

	if (m->generation > 0 && assignment->kept >= need)
		hvd_rank_assignment_keep(assignment);
	if (hvd_rank_assignment_occupied(assignment, m) || hvd_generation_dying(m))
		return false;
	if (assignment->n < need || (m->generation > 0 && assignment->kept == 0)) {
		hvd_slots_wait(m, assignment->n, need, now);
		return false;
	}
	if (m->generation == 0 && !hvd_host_manager_settled(m, assignment->n, now))
		return false;
	hvd_generation_form(m, assignment, now);
	m->gen.partial = assignment->n < all;
	return true;
}

static bool step_waiting(struct hvd_machine *m, hvd_time now)
{
	struct hvd_rank_assignment assignment = hvd_rank_assignment_find(m, now);
	bool moved = false, prepared = m->next.n > 0 && hvd_rank_assignment_covers(&assignment, &m->next);

	if (!give_up(m, prepared && m->gen.partial)) {
		if (prepared) {
			hvd_generation_begin(m, now);
			moved = true;
		} else {
			hvd_generation_drop(m);
			moved = form(m, &assignment, now);
		}
	}
	hvd_rank_assignment_clear(&assignment);
	return moved;
}

/* ---- starting ---- */

/* New workers have failed, or a survivor has gone. Assign ranks again without them. The other new workers are ended,
 * because their ranks change. */
static void start_over(struct hvd_machine *m, hvd_time now)
{
	int fresh = 0, failed = 0;

	for (int r = 0; r < m->now.n; r++) {
		fresh += m->now.v[r]->fresh;
		failed += m->now.v[r]->fresh && m->now.v[r]->failed;
	}
	if (failed == m->now.n && fresh == m->now.n) {
		hvd_failure_finish(m);
		return;
	}
	hvd_generation_undo(m);
	hvd_generation_over(m, now);
}

static bool step_starting(struct hvd_machine *m, hvd_time now)
{
	int starting = hvd_machine_count(m, HVD_WORKER_STARTING), arrived = hvd_machine_count(m, HVD_WORKER_ARRIVED);
	hvd_time patience = hvd_after(m->gen.trouble_at, m->opts.silent_grace);
	/* At the first start no survivor waits, and a program may have much to do before it trains. */
	hvd_time late = m->generation > 1 ? hvd_after(m->gen.starting_since, m->opts.patience) : HVD_FOREVER;

	if (m->gen.success) {
		/* A worker has ended with 0 and has never called the rendezvous: the program does not train. Wait until
		 * the others have ended, too. */
		if (starting + arrived == 0)
			hvd_failure_finish(m);
		return false;
	}
	if (m->gen.trouble_at) {
		if (starting + arrived == 0 || now >= patience) {
			start_over(m, now);
			return m->phase != HVD_OVER;
		}
		hvd_machine_wake(m, patience);
		return false;
	}
	if (starting && now < late) {
		hvd_machine_wake(m, late);
		return false;
	}
	if (starting) {
		hvd_worker_group_give_up_late(m, &m->now);
		m->gen.trouble_at = now;
		return true;
	}
	for (int r = 0; r < m->now.n; r++)
		if (m->now.v[r]->state == HVD_WORKER_ARRIVED)
			m->now.v[r]->state = HVD_WORKER_RUNNING;
	m->ops->answer(m->arg);
	for (int r = 0; r < m->now.n; r++) {
		m->now.v[r]->state = HVD_WORKER_RUNNING;
		m->now.v[r]->fresh = false;
	}
	m->phase = HVD_RUNNING;
	m->gen.moved_at = m->gen.starting_since = now;
	m->first_failure = (struct hvd_err){0};
	m->first_status = 0;
	return true;
}

/* ---- the end of a worker ---- */

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

static void on_exited(struct hvd_machine *m, struct hvd_worker *w, bool was_ended, hvd_time now)
{
	if (hvd_worker_group_has(&m->now, w))
		member_exited(m, w, was_ended, now);
	else if (!was_ended)
		newcomer_exited(m, w, now);
}

static void on_lost(struct hvd_machine *m, struct hvd_worker *w, hvd_time now)
{
	m->gen.died = true;
	m->gen.moved_at = now;
	if (m->phase == HVD_STARTING && !m->gen.trouble_at)
		m->gen.trouble_at = now;
	if (m->phase != HVD_WAITING)
		hvd_failure_set(m, w, "rank %d was lost with its host", w->rank);
}

/* ---- the policy ---- */

static bool step(struct hvd_machine *m, hvd_time now)
{
	switch (m->phase) {
	case HVD_WAITING:
		return step_waiting(m, now);
	case HVD_STARTING:
		return step_starting(m, now);
	default:
		return hvd_training_step(m, now);
	}
}

const struct hvd_policy hvd_policy_horovod = {step, on_exited, on_lost};
