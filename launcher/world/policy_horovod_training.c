/* SPDX-License-Identifier: Apache-2.0 */
/*
 * policy_horovod_training.c - the running phase: the members of a generation connect to each other and train, while
 * hosts come and go and members fail, ask for their next rank (are ready), or end.
 *
 * The phase ends when every member is ready or gone. Meanwhile a member may block in a receive from a peer that has
 * died, or that has left the training because a third one has died. Three steps free it, each after a time without any
 * change: kill the connections between the remaining members; kill members that are still neither ready nor ended, one
 * at first and twice as many each time; give up the hosts of killed members that do not end.
 */
#include "machine_internal.h"

#include "lib/process/spawn.h"

/* Some members are ready, the others are not, and none is known to have died. After the first time the connections are
 * killed, after the second one the silent members. The second is longer than Gloo's own timeout. */
#define KILL_SECONDS    10
#define REPLACE_SECONDS 60

static void notify_rank_0(struct hvd_machine *m, hvd_time now)
{
	hvd_time after = m->gen.notified ? m->gen.repeat_after : m->gen.notify_after;

	if (m->gen.notifying)
		return;
	if (now < after) {
		hvd_machine_wake(m, after);
		return;
	}
	m->gen.notifying = true;
	m->ops->notify(m->now.v[0]->id, m->arg);
}

/* There are slots for more workers: start them while the current generation trains. */
static void grow(struct hvd_machine *m, const struct hvd_rank_assignment *assignment, hvd_time now)
{
	if (hvd_generation_limit_met(m) && !m->gen.partial) {
		if (!m->warned_limit)
			hvd_warn(m->log,
				 "new hosts are not used: the ranks have changed %d time%s, as often as "
				 "--reset-limit allows",
				 m->opts.reset_limit, m->opts.reset_limit == 1 ? "" : "s");
		m->warned_limit = true;
		return;
	}
	if (!m->gen.connected || hvd_generation_dying(m) || hvd_rank_assignment_occupied(assignment, m))
		return;
	if (hvd_host_manager_settled(m, assignment->n, now))
		hvd_generation_prepare(m, assignment, now);
}

/* Notify rank 0 when all workers of the next generation have arrived. True: some did not in time, and the next
 * generation was given up. */
static bool check_prepared(struct hvd_machine *m, hvd_time now)
{
	hvd_time late = hvd_after(m->next_since, m->opts.patience);

	if (hvd_worker_group_count(&m->next, HVD_WORKER_STARTING) == 0) {
		notify_rank_0(m, now);
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

static bool check_hosts(struct hvd_machine *m, hvd_time now)
{
	struct hvd_rank_assignment assignment = hvd_rank_assignment_find(m, now);
	bool leaving = assignment.kept < m->now.n, coming = assignment.kept < assignment.n, again = false;

	hvd_machine_wake(m, hvd_host_manager_due(m, now));
	if (m->next.n && !hvd_rank_assignment_covers(&assignment, &m->next))
		hvd_generation_drop(m);
	if (!leaving && !coming) {
		m->gen.enough_since = 0;
	} else if (assignment.n < m->opts.min_np || assignment.kept == 0) {
		if (!m->gen.warned_slots)
			hvd_warn(m->log,
				 "%d slots are left, but %d ranks are needed: going on as long as the hosts remain",
				 assignment.n, m->opts.min_np);
		m->gen.warned_slots = true;
	} else if (m->next.n) {
		again = check_prepared(m, now);
	} else if (leaving && assignment.kept >= m->opts.min_np) {
		notify_rank_0(m, now); /* workers on new hosts are started when members have left the lost hosts */
	} else {
		grow(m, &assignment, now);
	}
	hvd_rank_assignment_clear(&assignment);
	return again;
}

/* Kill silent members. The death of one may wake those that wait for it, so kill one at first, and twice as many each
 * time. */
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
			m->now.v[r]->silent = true;
			hvd_worker_stop(m, m->now.v[r], true);
		}
}

/* A member has died or is ready, and others go on waiting for it in the training. */
static void wait_for_members(struct hvd_machine *m, hvd_time now)
{
	bool waited_for = hvd_machine_count(m, HVD_WORKER_READY) > 0;
	hvd_time kill_at = hvd_after(m->gen.moved_at, m->gen.died && waited_for ? 0 : KILL_SECONDS), replace_at;
	double grace = m->opts.silent_grace;

	if (!m->gen.kill_asked && now < kill_at) {
		hvd_machine_wake(m, kill_at);
		return;
	}
	if (!m->gen.kill_asked) {
		m->gen.kill_asked = true;
		m->ops->kill_connections(m->arg);
	}
	if (!waited_for)
		return;
	if (!m->gen.died)
		grace = REPLACE_SECONDS;
	else if (m->gen.ended_silent)
		grace /= 4;
	else if (!m->gen.kill_failed)
		grace = m->opts.kill_grace;
	replace_at = hvd_after(m->gen.moved_at, grace);
	if (now < replace_at)
		hvd_machine_wake(m, replace_at);
	else if (hvd_machine_count(m, HVD_WORKER_ENDING) == 0)
		end_silent(m, now);
}

/* The members have not connected to each other yet. If one of them has gone without a replacement, or it takes too
 * long, end the job and return true. */
static bool cannot_connect(struct hvd_machine *m, hvd_time now)
{
	/* When a member has died, the others cannot connect any more. Horovod's initialisation fails within this
	 * time, and that aborts them. */
	hvd_time late = m->gen.died ? hvd_after(m->gen.moved_at, REPLACE_SECONDS)
				    : hvd_after(m->gen.starting_since, m->opts.patience);
	const struct hvd_worker *missing = NULL;
	struct hvd_err why = {0};

	for (int r = 0; r < m->now.n; r++)
		if (m->now.v[r]->state == HVD_WORKER_GONE && !m->now.v[r]->published)
			missing = m->now.v[r];
	hvd_machine_wake(m, late);
	if (m->gen.success || (!missing && now < late))
		return false;
	if (missing)
		hvd_err_set(&why, HVD_E_FAILED,
			    "rank %d was lost while the ranks of generation %d were connecting to each other, and "
			    "the others cannot recover from that",
			    missing->rank, m->generation);
	else
		hvd_err_set(&why, HVD_E_TIMEOUT,
			    "the ranks of generation %d did not connect to each other within %g seconds%s",
			    m->generation, m->gen.died ? (double)REPLACE_SECONDS : m->opts.patience,
			    m->gen.died ? " after one of them failed" : "");
	hvd_err_hint(&why, "restart the job from the last checkpoint of the training");
	if (missing)
		hvd_err_host(&why, m->hosts[missing->host].name);
	hvd_machine_finish(m, &why, m->first_status ? hvd_status_exit(m->first_status) : 1);
	return true;
}

bool hvd_training_step(struct hvd_machine *m, hvd_time now)
{
	int ready = hvd_machine_count(m, HVD_WORKER_READY), gone = hvd_machine_count(m, HVD_WORKER_GONE);

	if (!m->gen.connected && cannot_connect(m, now))
		return false;
	/* A replacement that was started before another member died is no longer needed. */
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
		hvd_generation_drop(m); /* it includes the member that has died */
	if (ready == 0 && !m->gen.died && !m->gen.success && m->gen.connected)
		return check_hosts(m, now);
	if (m->gen.success || (ready == 0 && !m->gen.died))
		return false;
	if (hvd_machine_count(m, HVD_WORKER_RUNNING) > 0)
		wait_for_members(m, now);
	return false;
}
