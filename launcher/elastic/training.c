/* SPDX-License-Identifier: Apache-2.0 */
/* training.c - the phase in which the ranks of a generation run: hosts come and go, ranks fail, or end. */
#include "machine_internal.h"

#include "lib/process/spawn.h"

/* Ready workers whose peers neither ask nor end, though none is known to have died: their connections are cut, and when
 * that has not helped they are replaced. The second is longer than Gloo's own patience. */
#define STRANGE_SECONDS 10
#define PUZZLED_SECONDS 60

static void tell_rank_0(struct hvd_machine *m, hvd_time now)
{
	if (m->gen.notifying || m->gen.notified)
		return;
	if (now < m->gen.notify_after) {
		hvd_machine_wake(m, m->gen.notify_after);
		return;
	}
	m->gen.notifying = true;
	m->ops->notify(m->now.v[0]->id, m->arg);
}

/* There is room for more. */
static void grow(struct hvd_machine *m, const struct hvd_rank_assignment *assignment, hvd_time now)
{
	if (hvd_generation_limit_met(m) && !m->gen.partial) {
		if (!m->warned_limit)
			hvd_warn(m->log,
				 "hosts that come are not used: the ranks have changed %d time%s, as often as "
				 "--reset-limit lets them",
				 m->opts.reset_limit, m->opts.reset_limit == 1 ? "" : "s");
		m->warned_limit = true;
		return;
	}
	if (!m->gen.connected || hvd_generation_dying(m) || hvd_rank_assignment_taken(assignment, m))
		return;
	if (hvd_host_manager_settled(m, assignment->n, now))
		hvd_generation_prepare(m, assignment, now);
}

/* Those that were started for a next generation: have all come? True: they were given up. */
static bool look_at_next(struct hvd_machine *m, hvd_time now)
{
	hvd_time late = hvd_after(m->next_since, m->opts.patience);

	if (hvd_worker_group_count(&m->next, HVD_WORKER_STARTING) == 0) {
		tell_rank_0(m, now);
	} else if (now < late) {
		hvd_machine_wake(m, late);
	} else {
		hvd_worker_group_give_up_late(m, &m->next);
		hvd_failure_judge(m, now);
		hvd_generation_drop(m);
		return true;
	}
	return false;
}

static bool look_at_hosts(struct hvd_machine *m, hvd_time now)
{
	struct hvd_rank_assignment assignment = hvd_rank_assignment_find(m, now);
	bool leaving = assignment.kept < m->now.n, coming = assignment.kept < assignment.n, again = false;

	hvd_machine_wake(m, hvd_host_manager_due(m, now));
	if (m->next.n && !hvd_rank_assignment_hold(&assignment, &m->next))
		hvd_generation_drop(m);
	if (!leaving && !coming) {
		m->gen.enough_since = 0;
	} else if (assignment.n < m->opts.min_np || assignment.kept == 0) {
		if (!m->gen.warned_slots)
			hvd_warn(m->log,
				 "%d slots are left, and %d ranks are needed: going on as long as the hosts last",
				 assignment.n, m->opts.min_np);
		m->gen.warned_slots = true;
	} else if (m->next.n) {
		again = look_at_next(m, now);
	} else if (leaving && assignment.kept >= m->opts.min_np) {
		tell_rank_0(m, now); /* whoever is to come can come later */
	} else {
		grow(m, &assignment, now);
	}
	hvd_rank_assignment_clear(&assignment);
	return again;
}

/* One that ends wakes those that wait for it: one at first, then twice as many each time. */
static void end_silent(struct hvd_machine *m, hvd_time now)
{
	int most = m->gen.ended_silent + 1;

	m->gen.moved_at = now;
	for (int r = 0; r < m->now.n && most > 0; r++)
		if (m->now.v[r]->state == HVD_WORKER_RUNNING) {
			most--;
			m->gen.ended_silent++;
			hvd_info(m->log, "rank %d on %s is silent while others wait for it: replacing it", r,
				 m->hosts[m->now.v[r]->host].name);
			hvd_worker_stop(m, m->now.v[r], true);
		}
}

/* One has died, or is ready, and others do not know yet. */
static void gather(struct hvd_machine *m, hvd_time now)
{
	bool waited_for = hvd_machine_count(m, HVD_WORKER_READY) > 0;
	hvd_time strange = hvd_after(m->gen.moved_at, m->gen.died && waited_for ? 0 : STRANGE_SECONDS), patience;
	double grace = m->opts.silent_grace;

	if (!m->gen.kill_asked && now < strange) {
		hvd_machine_wake(m, strange);
		return;
	}
	if (!m->gen.kill_asked) {
		m->gen.kill_asked = true;
		m->ops->cut(m->arg);
	}
	if (!waited_for)
		return;
	if (!m->gen.died)
		grace = PUZZLED_SECONDS;
	else if (m->gen.ended_silent)
		grace /= 4;
	else if (!m->gen.kill_failed)
		grace = m->opts.cut_grace;
	patience = hvd_after(m->gen.moved_at, grace);
	if (now < patience)
		hvd_machine_wake(m, patience);
	else if (hvd_machine_count(m, HVD_WORKER_ENDING) == 0)
		end_silent(m, now);
	else
		hvd_failure_bound_ends(m, m->gen.moved_at, now);
}

/* The members have not met yet, and something has gone wrong. True: the job has ended. */
static bool cannot_meet(struct hvd_machine *m, hvd_time now)
{
	/* Who has not met the others when one has died never will: initialising fails by then, and that aborts. */
	hvd_time late = m->gen.died ? hvd_after(m->gen.moved_at, PUZZLED_SECONDS)
				    : hvd_after(m->gen.starting_since, m->opts.patience);
	const struct hvd_worker *missing = NULL;
	struct hvd_err why = {0};

	for (int r = 0; r < m->now.n; r++)
		if (m->now.v[r]->state == HVD_WORKER_GONE && !m->now.v[r]->said)
			missing = m->now.v[r];
	hvd_machine_wake(m, late);
	if (m->gen.success || (!missing && now < late))
		return false;
	if (missing)
		hvd_err_set(&why, HVD_E_FAILED,
			    "rank %d went while the ranks of generation %d were connecting to each other, and the "
			    "others cannot be freed from that",
			    missing->rank, m->generation);
	else
		hvd_err_set(&why, HVD_E_TIMEOUT, "the ranks of generation %d have not met within %g seconds%s",
			    m->generation, m->gen.died ? (double)PUZZLED_SECONDS : m->opts.patience,
			    m->gen.died ? " after one of them failed" : "");
	hvd_err_hint(&why, "start the job again, from the training's last checkpoint");
	if (missing)
		hvd_err_host(&why, m->hosts[missing->host].name);
	hvd_machine_finish(m, &why, m->first_status ? hvd_status_exit(m->first_status) : 1);
	return true;
}

bool hvd_training_step(struct hvd_machine *m, hvd_time now)
{
	int ready = hvd_machine_count(m, HVD_WORKER_READY), gone = hvd_machine_count(m, HVD_WORKER_GONE);

	if (!m->gen.connected && cannot_meet(m, now))
		return false;
	/* A stand-in that is not needed any longer. */
	for (int r = 0; r < m->now.n && m->gen.died; r++)
		if (m->now.v[r]->state == HVD_WORKER_STARTING)
			hvd_worker_stop(m, m->now.v[r], true);

	if (ready + gone == m->now.n) {
		if (m->gen.success) {
			hvd_failure_finish(m);
			return false;
		}
		hvd_generation_over(m, now);
		return true;
	}
	if (m->gen.died)
		hvd_generation_drop(m); /* with one that is no more */
	if (ready == 0 && !m->gen.died && !m->gen.success && m->gen.connected)
		return look_at_hosts(m, now);
	if (m->gen.success || (ready == 0 && !m->gen.died))
		return false;
	if (hvd_machine_count(m, HVD_WORKER_RUNNING) > 0)
		gather(m, now);
	else
		hvd_failure_bound_ends(m, m->gen.moved_at, now);
	return false;
}
