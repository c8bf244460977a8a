/* SPDX-License-Identifier: Apache-2.0 */
/* machine.c - from phase to phase. Workers live from their start until the first generation that they are no part of.
 */
#include "machine_internal.h"

#include "spawn.h"
#include "xalloc.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

/* Ready workers whose peers neither ask nor end, though none is known to have died: longer than Gloo's own patience. */
#define PUZZLED_SECONDS 60
/* When rank 0 could not be told, it is tried again after this. */
#define NOTIFY_AGAIN_SECONDS 1

static hvd_time after(hvd_time t, double seconds)
{
	return t + (hvd_time)(seconds * 1e9);
}

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

static int count(const struct hvd_machine *m, enum hvd_worker_state state)
{
	int n = 0;

	for (int r = 0; r < m->size; r++)
		n += m->members[r]->state == state;
	return n;
}

static bool is_member(const struct hvd_machine *m, const struct hvd_worker *w)
{
	return w->rank >= 0 && w->rank < m->size && m->members[w->rank] == w;
}

static void end_worker(struct hvd_machine *m, struct hvd_worker *w, bool at_once)
{
	w->state = HVD_WORKER_ENDING;
	m->ops->worker_end(w, at_once, m->arg);
}

/* ---- a new generation ---- */

static void forget_gone(struct hvd_machine *m)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < m->n_workers; i++)
		if (m->workers[i]->state == HVD_WORKER_GONE)
			free(m->workers[i]);
		else
			m->workers[n++] = m->workers[i];
	m->n_workers = n;
}

static struct hvd_worker *new_worker(struct hvd_machine *m, const struct hvd_seat_plan *place)
{
	struct hvd_worker *w = hvd_xcalloc(1, sizeof(*w));

	w->id = m->next_worker++;
	w->host = place->host;
	w->slot = place->slot;
	w->fresh = true;
	w->state = HVD_WORKER_STARTING;
	m->workers = hvd_xrealloc(m->workers, m->n_workers + 1, sizeof(struct hvd_worker *));
	m->workers[m->n_workers++] = w;
	return w;
}

/* A host of which nobody survived is new to the training: its ranks come last from now on. */
static void reorder(struct hvd_machine *m, const struct hvd_seat_plan *places, int n)
{
	for (int i = 0; i < n; i++) {
		if (i && places[i].host == places[i - 1].host)
			continue;
		if (!places[i].survivor && m->generation > 0)
			m->hosts[places[i].host].order = m->next_order++;
	}
}

static int n_hosts_of(const struct hvd_seat_plan *places, int n)
{
	int hosts = 0;

	for (int i = 0; i < n; i++)
		hosts += i == 0 || places[i].host != places[i - 1].host;
	return hosts;
}

static void tell_generation(const struct hvd_machine *m, const struct hvd_seat_plan *places, int n)
{
	char *change = hvd_crowd_change(m, places, n);
	int hosts = n_hosts_of(places, n);

	hvd_info(m->log, "generation %d: %d rank%s on %d host%s%s%s%s", m->generation + 1, n, n == 1 ? "" : "s", hosts,
		 hosts == 1 ? "" : "s", *change && m->generation ? " (" : "", m->generation ? change : "",
		 *change && m->generation ? ")" : "");
	free(change);
}

static void form(struct hvd_machine *m, const struct hvd_seat_plan *places, int n)
{
	bool *kept = hvd_xcalloc(m->n_workers + 1, sizeof(*kept));

	tell_generation(m, places, n);
	reorder(m, places, n);
	for (uint32_t i = 0; i < m->n_workers; i++)
		for (int k = 0; k < n; k++)
			kept[i] |= places[k].survivor == m->workers[i];
	for (uint32_t i = 0; i < m->n_workers; i++)
		if (!kept[i] && m->workers[i]->state == HVD_WORKER_READY) {
			m->workers[i]->removed = true;
			end_worker(m, m->workers[i], false);
		}
	free(kept);
	forget_gone(m);
	free(m->members);
	m->members = hvd_xcalloc((size_t)n, sizeof(struct hvd_worker *));
	m->size = n;
	for (int r = 0; r < n; r++) {
		m->members[r] = places[r].survivor ? places[r].survivor : new_worker(m, &places[r]);
		m->members[r]->rank = r;
	}
	m->generation++;
	m->phase = HVD_STARTING;
	m->trouble_at = m->enough_since = m->notify_after = 0;
	m->ended_silent = 0;
	m->died = m->success = m->cut = m->uncut = m->notifying = m->told = m->warned_slots = false;
	m->ops->generation(m->arg);
	for (int r = 0; r < n; r++)
		if (m->members[r]->fresh)
			m->ops->worker_start(m->members[r], m->arg);
}

/* A place cannot be given to a new worker while the old one is still dying there. */
static bool taken(const struct hvd_machine *m, const struct hvd_seat_plan *places, int n)
{
	for (int k = 0; k < n; k++) {
		const struct hvd_worker *w =
			places[k].survivor ? NULL : hvd_machine_at(m, places[k].host, places[k].slot);

		if (w && w->state != HVD_WORKER_GONE)
			return true;
	}
	return false;
}

static bool carried(const struct hvd_seat_plan *places, int n)
{
	for (int k = 0; k < n; k++)
		if (places[k].survivor)
			return true;
	return false;
}

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

/* Is there a reason never to go on? Then the job has ended. */
static bool give_up(struct hvd_machine *m)
{
	struct hvd_err why = m->first_failure;
	int survivors = count(m, HVD_WORKER_READY);

	if (m->generation > 0 && survivors == 0) {
		if (!why.code)
			hvd_err_set(&why, HVD_E_FAILED, "no rank is left that has the state of the training");
		finish(m, &why, m->first_status ? hvd_status_exit(m->first_status) : 1);
		return true;
	}
	if (m->generation > 0 && m->opts.reset_limit >= 0 && m->generation > m->opts.reset_limit) {
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
		finish(m, &why, m->first_status ? hvd_status_exit(m->first_status) : 1);
		return true;
	}
	return false;
}

static bool step_waiting(struct hvd_machine *m, hvd_time now)
{
	int n, need = m->generation || m->opts.np < m->opts.min_np ? m->opts.min_np : m->opts.np;
	struct hvd_seat_plan *places;
	hvd_time end = after(m->waiting_since, m->opts.elastic_timeout), settled;
	bool moved = false;

	if (give_up(m))
		return false;
	places = hvd_crowd_places(m, now, &n);
	if (n >= need && !taken(m, places, n) && (m->generation == 0 || carried(places, n))) {
		if (!m->enough_since)
			m->enough_since = now;
		settled = after(m->enough_since, m->opts.settle);
		if (m->generation == 0 && n != m->opts.max_np && hvd_crowd_coming(m, now) && now < settled) {
			due(m, settled);
		} else {
			form(m, places, n);
			moved = true;
		}
	} else if (now >= end && !taken(m, places, n)) {
		no_slots(m, n, need);
	} else {
		if (n < need && m->generation && !m->warned_slots)
			hvd_info(m->log, "%d slots, and %d ranks are needed: waiting for hosts", n, need);
		m->warned_slots |= n < need;
		m->enough_since = 0;
		due(m, now < end ? end : after(now, 1));
		due(m, hvd_crowd_due(m, now));
	}
	free(places);
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
 * the others that were started are of no use. Survivors still wait. */
static void start_over(struct hvd_machine *m, hvd_time now)
{
	int fresh = 0, failed = 0;

	for (int r = 0; r < m->size; r++) {
		fresh += m->members[r]->fresh;
		failed += m->members[r]->fresh && m->members[r]->failed;
	}
	if (failed == m->size && fresh == m->size) {
		finish(m, &m->first_failure, hvd_status_exit(m->first_status));
		return;
	}
	for (int r = 0; r < m->size; r++)
		if (m->members[r]->state == HVD_WORKER_STARTING || m->members[r]->state == HVD_WORKER_ARRIVED)
			end_worker(m, m->members[r], true);
	m->generation--;
	wait_again(m, now);
}

static bool step_starting(struct hvd_machine *m, hvd_time now)
{
	int starting = count(m, HVD_WORKER_STARTING), arrived = count(m, HVD_WORKER_ARRIVED);
	hvd_time patience = after(m->trouble_at, m->opts.silent_grace);

	if (m->success) {
		/* It never came: a program that does no training. Those that go on are waited for. */
		if (starting + arrived == 0)
			finish(m, &m->first_failure, hvd_status_exit(m->first_status));
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
	if (starting)
		return false;
	for (int r = 0; r < m->size; r++)
		if (m->members[r]->state == HVD_WORKER_ARRIVED)
			m->members[r]->state = HVD_WORKER_RUNNING;
	m->ops->answer(m->arg);
	for (int r = 0; r < m->size; r++) {
		m->members[r]->state = HVD_WORKER_RUNNING;
		m->members[r]->fresh = false;
	}
	m->phase = HVD_RUNNING;
	m->moved_at = now;
	m->first_failure = (struct hvd_err){0};
	m->first_status = 0;
	return true;
}

/* ---- running, gathering ---- */

static bool differs(const struct hvd_machine *m, const struct hvd_seat_plan *places, int n)
{
	if (n != m->size)
		return true;
	for (int k = 0; k < n; k++)
		if (!places[k].survivor)
			return true;
	return false;
}

static void tell_changes(struct hvd_machine *m, hvd_time now)
{
	int n;
	struct hvd_seat_plan *places = hvd_crowd_places(m, now, &n);
	hvd_time settled;

	due(m, hvd_crowd_due(m, now));
	if (!differs(m, places, n)) {
		m->enough_since = 0;
	} else if (n < m->opts.min_np || !carried(places, n)) {
		if (!m->warned_slots)
			hvd_warn(m->log,
				 "%d slots are left, and %d ranks are needed: going on as long as the hosts last", n,
				 m->opts.min_np);
		m->warned_slots = true;
	} else if (!m->notifying && !m->told) {
		if (!m->enough_since)
			m->enough_since = now;
		settled = after(m->enough_since, m->opts.settle);
		if (hvd_crowd_coming(m, now) && now < settled) {
			due(m, settled); /* several are coming: change once */
		} else if (now < m->notify_after) {
			due(m, m->notify_after);
		} else {
			m->notifying = true;
			m->enough_since = 0;
			m->ops->notify(m->members[0]->id, m->arg);
		}
	}
	free(places);
}

static bool step_running(struct hvd_machine *m, hvd_time now)
{
	int ready = count(m, HVD_WORKER_READY), gone = count(m, HVD_WORKER_GONE),
	    running = count(m, HVD_WORKER_RUNNING);
	double grace = !m->died ? PUZZLED_SECONDS : m->ended_silent ? m->opts.silent_grace / 4 : m->opts.silent_grace;
	int most = m->ended_silent + 1;

	if (ready + gone == m->size) {
		if (m->success) {
			finish(m, &m->first_failure, hvd_status_exit(m->first_status));
			return false;
		}
		wait_again(m, now);
		return true;
	}
	if (ready > 0 && running > 0 && m->died && !m->success && !m->cut) {
		m->cut = true;
		m->ops->cut(m->arg);
	}
	if (ready == 0 && !m->died && !m->success) {
		tell_changes(m, now);
	} else if (ready > 0 && running > 0 && !m->success && count(m, HVD_WORKER_ENDING) == 0) {
		if (now < after(m->moved_at, grace)) {
			due(m, after(m->moved_at, grace));
			return false;
		}
		/* One that ends wakes those that wait for it: one at first, then twice as many each time. */
		for (int r = 0; r < m->size && most > 0; r++)
			if (m->members[r]->state == HVD_WORKER_RUNNING) {
				most--;
				m->ended_silent++;
				hvd_info(m->log, "rank %d on %s is silent while others wait for it: replacing it", r,
					 m->hosts[m->members[r]->host].name);
				end_worker(m, m->members[r], true);
			}
	}
	return false;
}

static void step(struct hvd_machine *m, hvd_time now)
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

/* ---- what has happened ---- */

void hvd_machine_hosts(struct hvd_machine *m, const struct hvd_alloc *hosts, hvd_time now)
{
	hvd_crowd_update(m, hosts, now);
	m->told = m->warned_slots = false;
	step(m, now);
}

void hvd_machine_host_here(struct hvd_machine *m, uint32_t host, hvd_time now)
{
	if (host >= m->n_hosts || m->hosts[host].stage != HVD_HOST_COMING)
		return;
	m->hosts[host].stage = HVD_HOST_HERE;
	m->told = false;
	step(m, now);
}

static void lost_worker(struct hvd_machine *m, struct hvd_worker *w, hvd_time now)
{
	w->state = HVD_WORKER_GONE;
	w->status = SIGKILL;
	if (!is_member(m, w))
		return;
	m->died = true;
	m->moved_at = now;
	if (m->phase == HVD_STARTING && !m->trouble_at)
		m->trouble_at = now;
	if (!m->first_failure.code && m->phase != HVD_WAITING) {
		m->first_status = SIGKILL;
		hvd_err_set(&m->first_failure, HVD_E_FAILED, "rank %d was lost with its host", w->rank);
		hvd_err_host(&m->first_failure, m->hosts[w->host].name);
	}
}

void hvd_machine_host_gone(struct hvd_machine *m, uint32_t host, enum hvd_host_end how, hvd_time now)
{
	struct hvd_crowd_host *h = host < m->n_hosts ? &m->hosts[host] : NULL;

	if (!h || h->stage == HVD_HOST_AWAY)
		return;
	h->stage = HVD_HOST_AWAY;
	h->unfit |= how == HVD_HOST_UNFIT;
	h->lost = h->listed;
	if (m->opts.cooldown_min > 0 && how == HVD_HOST_LOST && h->listed) {
		h->lost = false;
		h->banned_until = after(now, m->opts.cooldown_min);
	}
	for (uint32_t i = 0; i < m->n_workers; i++)
		if (m->workers[i]->host == host && m->workers[i]->state != HVD_WORKER_GONE)
			lost_worker(m, m->workers[i], now);
	m->told = false;
	step(m, now);
}

static struct hvd_worker *find(const struct hvd_machine *m, uint32_t id)
{
	for (uint32_t i = 0; i < m->n_workers; i++)
		if (m->workers[i]->id == id)
			return m->workers[i];
	return NULL;
}

void hvd_machine_arrived(struct hvd_machine *m, uint32_t worker, hvd_time now)
{
	struct hvd_worker *w = find(m, worker);

	if (!w || w->state != HVD_WORKER_STARTING)
		return;
	w->state = HVD_WORKER_ARRIVED;
	step(m, now);
}

void hvd_machine_ready(struct hvd_machine *m, uint32_t worker, hvd_time now)
{
	struct hvd_worker *w = find(m, worker);

	if (!w || w->state != HVD_WORKER_RUNNING)
		return;
	w->state = HVD_WORKER_READY;
	m->moved_at = now;
	step(m, now);
}

static bool aborted(int status)
{
	return (WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT) ||
	       (WIFEXITED(status) && WEXITSTATUS(status) == 128 + SIGABRT);
}

static void failed(struct hvd_machine *m, struct hvd_worker *w, bool first)
{
	const char *host = m->hosts[w->host].name;
	char text[64];

	w->failed = true;
	hvd_status_text(w->status, text, sizeof(text));
	hvd_warn(m->log, "rank %d on %s failed: %s", w->rank, host, text);
	if (first || !aborted(w->status))
		m->hosts[w->host].to_judge = true;
	if (m->first_failure.code)
		return;
	m->first_status = w->status;
	hvd_err_set(&m->first_failure, HVD_E_FAILED, "rank %d failed first: %s", w->rank, text);
	hvd_err_host(&m->first_failure, host);
}

void hvd_machine_exited(struct hvd_machine *m, uint32_t worker, int status, hvd_time now)
{
	struct hvd_worker *w = find(m, worker);
	bool ours, first = !m->died;

	if (!w || w->state == HVD_WORKER_GONE)
		return;
	ours = w->state == HVD_WORKER_ENDING;
	w->state = HVD_WORKER_GONE;
	w->status = status;
	if (is_member(m, w) && m->phase != HVD_OVER) {
		m->moved_at = now;
		if (!ours && status == 0) {
			w->success = m->success = true;
		} else {
			m->died = true;
			if (!ours)
				failed(m, w, first);
			if (m->phase == HVD_STARTING && !m->trouble_at)
				m->trouble_at = now;
			if (m->phase == HVD_WAITING)
				hvd_crowd_judge(m, now);
		}
	}
	step(m, now);
}

void hvd_machine_notified(struct hvd_machine *m, bool heard, hvd_time now)
{
	if (!m->notifying)
		return;
	m->notifying = false;
	m->told = heard;
	if (!heard)
		m->notify_after = after(now, NOTIFY_AGAIN_SECONDS);
	step(m, now);
}

void hvd_machine_uncut(struct hvd_machine *m, hvd_time now)
{
	m->uncut = m->cut;
	step(m, now);
}

void hvd_machine_tick(struct hvd_machine *m, hvd_time now)
{
	/* A ban may have ended since rank 0 was told last. */
	for (uint32_t k = 0; k < m->n_hosts; k++)
		if (m->hosts[k].banned_until && m->hosts[k].banned_until <= now) {
			m->hosts[k].banned_until = 0;
			m->told = false;
		}
	step(m, now);
}

/* ---- how things are ---- */

hvd_time hvd_machine_due(const struct hvd_machine *m)
{
	return m->due;
}

int hvd_machine_generation(const struct hvd_machine *m)
{
	return m->generation;
}

int hvd_machine_size(const struct hvd_machine *m)
{
	return m->size;
}

const struct hvd_worker *hvd_machine_member(const struct hvd_machine *m, int rank)
{
	return rank >= 0 && rank < m->size ? m->members[rank] : NULL;
}

const struct hvd_worker *hvd_machine_worker(const struct hvd_machine *m, uint32_t id)
{
	return find(m, id);
}

const struct hvd_worker *hvd_machine_at(const struct hvd_machine *m, uint32_t host, int slot)
{
	const struct hvd_worker *w = NULL;

	for (uint32_t i = 0; i < m->n_workers; i++)
		if (m->workers[i]->host == host && m->workers[i]->slot == slot && (!w || w->state == HVD_WORKER_GONE))
			w = m->workers[i];
	return w;
}

const char *hvd_machine_host(const struct hvd_machine *m, uint32_t host)
{
	return host < m->n_hosts ? m->hosts[host].name : "?";
}

uint32_t hvd_machine_n_hosts(const struct hvd_machine *m)
{
	return m->n_hosts;
}

int hvd_machine_slots(const struct hvd_machine *m, uint32_t host)
{
	return host < m->n_hosts ? m->hosts[host].slots : 0;
}

struct hvd_machine *hvd_machine_create(const struct hvd_machine_opts *opts, hvd_time now,
				       const struct hvd_machine_ops *ops, void *arg, const struct hvd_log *log)
{
	struct hvd_machine *m = hvd_xcalloc(1, sizeof(*m));

	m->opts = *opts;
	m->ops = ops;
	m->arg = arg;
	m->log = log;
	m->phase = HVD_WAITING;
	m->waiting_since = now;
	m->due = after(now, opts->elastic_timeout);
	return m;
}

void hvd_machine_destroy(struct hvd_machine *m)
{
	if (!m)
		return;
	for (uint32_t i = 0; i < m->n_workers; i++)
		free(m->workers[i]);
	free(m->workers);
	free(m->members);
	hvd_crowd_clear(m);
	free(m);
}
