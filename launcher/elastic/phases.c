/* SPDX-License-Identifier: Apache-2.0 */
/* phases.c - the elastic state machine, from phase to phase. */
#include "machine_internal.h"

#include "spawn.h"

#include <stdio.h>

/* Ready workers whose peers neither ask nor end, though none is known to have died: their connections are cut, and when
 * that has not helped they are replaced. The second is longer than Gloo's own patience. */
#define STRANGE_SECONDS 10
#define PUZZLED_SECONDS 60

static void due(struct hvd_machine *m, hvd_time t)
{
	m->due = m->due ? hvd_earlier(m->due, t) : t;
}

static void finish(struct hvd_machine *m, const struct hvd_err *why, int status)
{
	m->phase = HVD_OVER;
	m->due = 0;
	m->ops->finish(why, status, m->arg);
}

static void finish_as_first(struct hvd_machine *m)
{
	finish(m, &m->first_failure, m->first_status ? hvd_status_exit(m->first_status) : m->first_failure.code != 0);
}

static int count(const struct hvd_machine *m, enum hvd_worker_state state)
{
	return hvd_cast_count(&m->now, state);
}

/* Who has not taken part yet and is being ended may still say a word at the rendezvous. */
static bool unborn_dying(const struct hvd_machine *m)
{
	for (uint32_t i = 0; i < m->n_workers; i++)
		if (m->workers[i]->fresh && m->workers[i]->state == HVD_WORKER_ENDING)
			return true;
	return false;
}

/* ---- waiting ---- */

static void no_slots(struct hvd_machine *m, int have, int need)
{
	struct hvd_err why = {0};

	if (have >= need)
		hvd_err_set(&why, HVD_E_FAILED, "no host that may be used has the state of the training");
	else
		hvd_err_set(&why, HVD_E_TIMEOUT,
			    "there were not enough slots for %g seconds: %d, and %d ranks are needed",
			    m->opts.elastic_timeout, have, need);
	hvd_err_hint(&why, "--min-np goes on with fewer, --elastic-timeout waits longer");
	finish(m, &why, 1);
}

static bool limit_met(const struct hvd_machine *m)
{
	return m->opts.reset_limit >= 0 && m->resets >= m->opts.reset_limit;
}

/* Is there a reason never to go on? Then the job has ended. `fills_up`: the next generation is not counted. */
static bool give_up(struct hvd_machine *m, bool fills_up)
{
	struct hvd_err why = m->first_failure;
	int status = m->first_status ? hvd_status_exit(m->first_status) : 1;

	if (m->generation > 0 && count(m, HVD_WORKER_READY) == 0) {
		if (!why.code)
			hvd_err_set(&why, HVD_E_FAILED, "no rank is left that has the state of the training");
		finish(m, &why, status);
		return true;
	}
	if (m->generation > 0 && limit_met(m) && !fills_up) {
		hvd_err_set(&why, HVD_E_LIMIT, "the ranks have changed %d times, as often as --reset-limit lets them",
			    m->opts.reset_limit);
		if (m->first_failure.code)
			hvd_err_hint(&why, "the last failure: %.200s", m->first_failure.msg);
		finish(m, &why, 1);
		return true;
	}
	if (m->generation == 0 && hvd_crowd_none_came(m)) {
		hvd_err_set(&why, HVD_E_FAILED, "none of the hosts can be used");
		hvd_err_hint(&why, "what was said of each of them above tells why");
		finish(m, &why, 1);
		return true;
	}
	if (hvd_crowd_hopeless(m)) {
		if (!why.code)
			hvd_err_set(&why, HVD_E_FAILED, "ranks have failed on every host");
		hvd_err_hint(&why,
			     "no host is left; --blacklist-cooldown-range lets hosts be used again after a failure");
		finish(m, &why, status);
		return true;
	}
	return false;
}

/* Enough are here. The first generation waits a little for those that are coming. */
static bool settled(struct hvd_machine *m, const struct hvd_seats *seats, hvd_time now)
{
	hvd_time end;

	if (!m->enough_since)
		m->enough_since = now;
	end = hvd_after(m->enough_since, m->opts.settle);
	if (seats->n == m->opts.max_np || !hvd_crowd_coming(m, now) || now >= end)
		return true;
	due(m, end);
	return false;
}

static void wait_for_slots(struct hvd_machine *m, const struct hvd_seats *seats, int need, hvd_time now)
{
	hvd_time end = hvd_after(m->waiting_since, m->opts.elastic_timeout);

	if (now >= end) {
		no_slots(m, seats->n, need);
		return;
	}
	if (seats->n < need && m->generation && !m->warned_slots)
		hvd_info(m->log, "%d slots, and %d ranks are needed: waiting for hosts", seats->n, need);
	m->warned_slots |= seats->n < need;
	m->enough_since = 0;
	due(m, end);
	due(m, hvd_crowd_due(m, now));
}

/* Form a generation of these places, or one of those who are there already if they are enough. */
static bool form(struct hvd_machine *m, struct hvd_seats *seats, hvd_time now)
{
	int need = m->generation || m->opts.np < m->opts.min_np ? m->opts.min_np : m->opts.np;
	int all = seats->n;

	if (m->generation > 0 && seats->kept >= need)
		hvd_seats_keep(seats);
	if (hvd_seats_taken(seats, m) || unborn_dying(m)) {
		due(m, hvd_after(now, 1)); /* their end comes first, and is an event */
		return false;
	}
	if (seats->n < need || (m->generation > 0 && seats->kept == 0)) {
		wait_for_slots(m, seats, need, now);
		return false;
	}
	if (m->generation == 0 && !settled(m, seats, now))
		return false;
	hvd_generation_form(m, seats, now);
	m->short_handed = seats->n < all;
	return true;
}

static bool step_waiting(struct hvd_machine *m, hvd_time now)
{
	struct hvd_seats seats = hvd_seats_find(m, now);
	bool moved = false, prepared = m->next.n > 0 && hvd_seats_hold(&seats, &m->next);

	if (!give_up(m, prepared && m->short_handed)) {
		if (prepared) {
			hvd_generation_begin(m, now);
			moved = true;
		} else {
			hvd_generation_drop(m);
			moved = form(m, &seats, now);
		}
	}
	hvd_seats_clear(&seats);
	return moved;
}

static void wait_again(struct hvd_machine *m, hvd_time now)
{
	hvd_crowd_judge(m, now);
	m->phase = HVD_WAITING;
	m->waiting_since = now;
	m->enough_since = 0;
}

/* ---- starting ---- */

/* Some of those to be started have failed, or a survivor has gone. Begin anew without them: places have changed, so
 * the others that were started are of no use. */
static void start_over(struct hvd_machine *m, hvd_time now)
{
	int fresh = 0, failed = 0;

	for (int r = 0; r < m->now.n; r++) {
		fresh += m->now.v[r]->fresh;
		failed += m->now.v[r]->fresh && m->now.v[r]->failed;
	}
	if (failed == m->now.n && fresh == m->now.n) {
		finish_as_first(m);
		return;
	}
	hvd_generation_undo(m);
	wait_again(m, now);
}

/* Those that have not come to the rendezvous in time never will. */
static void blame_late(struct hvd_machine *m, const struct hvd_cast *cast)
{
	char text[96];

	snprintf(text, sizeof(text), "it has not come to the rendezvous within %g seconds", m->opts.elastic_timeout);
	for (int r = 0; r < cast->n; r++)
		if (cast->v[r]->state == HVD_WORKER_STARTING) {
			hvd_machine_blame(m, cast->v[r], true, text);
			hvd_worker_stop(m, cast->v[r], true);
		}
}

static bool step_starting(struct hvd_machine *m, hvd_time now)
{
	int starting = count(m, HVD_WORKER_STARTING), arrived = count(m, HVD_WORKER_ARRIVED);
	hvd_time patience = hvd_after(m->trouble_at, m->opts.silent_grace);
	hvd_time late = hvd_after(m->starting_since, m->opts.elastic_timeout);

	if (m->success) {
		/* It never came: a program that does no training. Those that go on are waited for. */
		if (starting + arrived == 0)
			finish_as_first(m);
		return false;
	}
	if (m->trouble_at) {
		if (starting + arrived == 0 || now >= patience) {
			start_over(m, now);
			return m->phase != HVD_OVER;
		}
		due(m, patience);
		return false;
	}
	if (starting && now < late) {
		due(m, late);
		return false;
	}
	if (starting) {
		blame_late(m, &m->now);
		m->trouble_at = now;
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
	m->moved_at = now;
	m->first_failure = (struct hvd_err){0};
	m->first_status = 0;
	return true;
}

/* ---- running ---- */

static void tell_rank_0(struct hvd_machine *m, hvd_time now)
{
	if (m->notifying || m->told)
		return;
	if (now < m->notify_after) {
		due(m, m->notify_after);
		return;
	}
	m->notifying = true;
	m->ops->notify(m->now.v[0]->id, m->arg);
}

/* There is room for more. */
static void grow(struct hvd_machine *m, const struct hvd_seats *seats, hvd_time now)
{
	if (limit_met(m) && !m->short_handed) {
		if (!m->warned_limit)
			hvd_warn(m->log,
				 "hosts that come are not used: the ranks have changed %d times, as often as "
				 "--reset-limit lets them",
				 m->opts.reset_limit);
		m->warned_limit = true;
		return;
	}
	if (!m->connected || unborn_dying(m) || hvd_seats_taken(seats, m))
		return;
	if (settled(m, seats, now))
		hvd_generation_prepare(m, seats, now);
}

/* Those that were started for a next generation: have all come? True: they were given up. */
static bool look_at_next(struct hvd_machine *m, hvd_time now)
{
	hvd_time late = hvd_after(m->next_since, m->opts.elastic_timeout);

	if (hvd_cast_count(&m->next, HVD_WORKER_STARTING) == 0) {
		tell_rank_0(m, now);
	} else if (now < late) {
		due(m, late);
	} else {
		blame_late(m, &m->next);
		hvd_crowd_judge(m, now);
		hvd_generation_drop(m);
		return true;
	}
	return false;
}

static bool look_at_hosts(struct hvd_machine *m, hvd_time now)
{
	struct hvd_seats seats = hvd_seats_find(m, now);
	bool leaving = seats.kept < m->now.n, coming = seats.kept < seats.n, again = false;

	due(m, hvd_crowd_due(m, now));
	if (m->next.n && !hvd_seats_hold(&seats, &m->next))
		hvd_generation_drop(m);
	if (!leaving && !coming) {
		m->enough_since = 0;
	} else if (seats.n < m->opts.min_np || seats.kept == 0) {
		if (!m->warned_slots)
			hvd_warn(m->log,
				 "%d slots are left, and %d ranks are needed: going on as long as the hosts last",
				 seats.n, m->opts.min_np);
		m->warned_slots = true;
	} else if (m->next.n) {
		again = look_at_next(m, now);
	} else if (leaving && seats.kept >= m->opts.min_np) {
		tell_rank_0(m, now); /* whoever is to come can come later */
	} else {
		grow(m, &seats, now);
	}
	hvd_seats_clear(&seats);
	return again;
}

/* One that ends wakes those that wait for it: one at first, then twice as many each time. */
static void end_silent(struct hvd_machine *m)
{
	int most = m->ended_silent + 1;

	for (int r = 0; r < m->now.n && most > 0; r++)
		if (m->now.v[r]->state == HVD_WORKER_RUNNING) {
			most--;
			m->ended_silent++;
			hvd_info(m->log, "rank %d on %s is silent while others wait for it: replacing it", r,
				 m->hosts[m->now.v[r]->host].name);
			hvd_worker_stop(m, m->now.v[r], true);
		}
}

/* One has died, or is ready, and others do not know yet. */
static void gather(struct hvd_machine *m, hvd_time now)
{
	bool waited_for = count(m, HVD_WORKER_READY) > 0;
	hvd_time strange = hvd_after(m->moved_at, m->died && waited_for ? 0 : STRANGE_SECONDS), patience;
	double grace = m->opts.silent_grace;

	if (!m->cut && now < strange) {
		due(m, strange);
		return;
	}
	if (!m->cut) {
		m->cut = true;
		m->ops->cut(m->arg);
	}
	if (!waited_for)
		return;
	if (!m->died)
		grace = PUZZLED_SECONDS;
	else if (m->ended_silent)
		grace /= 4;
	else if (!m->uncut)
		grace = m->opts.cut_grace;
	patience = hvd_after(m->moved_at, grace);
	if (now < patience)
		due(m, patience);
	else if (count(m, HVD_WORKER_ENDING) == 0)
		end_silent(m);
}

/* The members have not met yet, and something has gone wrong. True: the job has ended. */
static bool cannot_meet(struct hvd_machine *m, hvd_time now)
{
	int starting = count(m, HVD_WORKER_STARTING);
	hvd_time late = hvd_after(m->starting_since, m->opts.elastic_timeout);
	const struct hvd_worker *missing = NULL;
	struct hvd_err why = {0};

	for (int r = 0; r < m->now.n; r++)
		if (m->now.v[r]->state == HVD_WORKER_GONE && !m->now.v[r]->said)
			missing = m->now.v[r];
	if (starting && !m->died)
		due(m, late);
	if (m->success || (!missing && (!starting || now < late)))
		return false;
	if (missing)
		hvd_err_set(&why, HVD_E_FAILED,
			    "rank %d went while the ranks of generation %d were connecting to each other, and the "
			    "others cannot be freed from that",
			    missing->rank, m->generation);
	else
		hvd_err_set(&why, HVD_E_TIMEOUT, "the ranks of generation %d have not met within %g seconds",
			    m->generation, m->opts.elastic_timeout);
	hvd_err_hint(&why, "start the job again, from the training's last checkpoint");
	if (missing)
		hvd_err_host(&why, m->hosts[missing->host].name);
	finish(m, &why, m->first_status ? hvd_status_exit(m->first_status) : 1);
	return true;
}

static bool step_running(struct hvd_machine *m, hvd_time now)
{
	int ready = count(m, HVD_WORKER_READY), gone = count(m, HVD_WORKER_GONE);

	if (!m->connected && cannot_meet(m, now))
		return false;
	/* A stand-in that is not needed any longer. */
	for (int r = 0; r < m->now.n && m->died; r++)
		if (m->now.v[r]->state == HVD_WORKER_STARTING)
			hvd_worker_stop(m, m->now.v[r], true);

	if (ready + gone == m->now.n) {
		if (m->success) {
			finish_as_first(m);
			return false;
		}
		wait_again(m, now);
		return true;
	}
	if (m->died)
		hvd_generation_drop(m); /* with one that is no more */
	if (ready == 0 && !m->died && !m->success && m->connected)
		return look_at_hosts(m, now);
	if ((ready > 0 || m->died) && count(m, HVD_WORKER_RUNNING) > 0 && !m->success)
		gather(m, now);
	return false;
}

void hvd_machine_step(struct hvd_machine *m, hvd_time now)
{
	bool again = m->phase != HVD_OVER;

	while (again && m->phase != HVD_OVER) {
		m->due = 0;
		hvd_crowd_tend(m, now);
		switch (m->phase) {
		case HVD_WAITING:
			again = step_waiting(m, now);
			break;
		case HVD_STARTING:
			again = step_starting(m, now);
			break;
		case HVD_RUNNING:
			again = step_running(m, now);
			break;
		default:
			again = false;
		}
	}
	if (m->due == HVD_FOREVER)
		m->due = 0;
}
