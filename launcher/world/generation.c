/* SPDX-License-Identifier: Apache-2.0 */
/* generation.c - generations: prepared, started, given up. A worker lives from its start until a generation begins that
 * it is not a member of. */
#include "machine_internal.h"

#include "lib/base/hostlist.h"
#include "lib/base/strv.h"
#include "lib/base/xalloc.h"

#include <stdio.h>
#include <stdlib.h>

void hvd_worker_stop(struct hvd_machine *m, struct hvd_worker *w, bool at_once)
{
	w->state = HVD_WORKER_ENDING;
	m->more_ending = true;
	m->ops->worker_end(w, at_once, m->arg);
}

void hvd_worker_group_give_up_late(struct hvd_machine *m, const struct hvd_worker_group *group)
{
	char text[96];

	snprintf(text, sizeof(text), "it did not reach the rendezvous within %g seconds", m->opts.patience);
	for (int r = 0; r < group->n; r++)
		if (group->v[r]->state == HVD_WORKER_STARTING) {
			hvd_failure_blame(m, group->v[r], true, text);
			hvd_worker_stop(m, group->v[r], true);
		}
}

static void mark(const struct hvd_worker_group *group, bool marked)
{
	for (int r = 0; r < group->n; r++)
		group->v[r]->marked = marked;
}

static void forget_gone(struct hvd_machine *m)
{
	uint32_t n = 0;

	mark(&m->now, true);
	for (uint32_t i = 0; i < m->n_workers; i++)
		if (m->workers[i]->state == HVD_WORKER_GONE && !m->workers[i]->marked)
			free(m->workers[i]);
		else
			m->workers[n++] = m->workers[i];
	m->n_workers = n;
	mark(&m->now, false);
}

static struct hvd_worker *new_worker(struct hvd_machine *m, const struct hvd_assigned_slot *slot)
{
	struct hvd_worker *w = hvd_xcalloc(1, sizeof(*w));

	w->id = m->next_worker++;
	w->host = slot->host;
	w->slot = slot->slot;
	w->fresh = true;
	w->state = HVD_WORKER_STARTING;
	m->workers = hvd_xrealloc(m->workers, m->n_workers + 1, sizeof(struct hvd_worker *));
	m->workers[m->n_workers++] = w;
	return w;
}

/* ---- messages ---- */

/* By host: does it have members of the group? The caller frees it. */
static bool *hosts_of(const struct hvd_machine *m, const struct hvd_worker_group *group)
{
	bool *hosts = hvd_xcalloc((size_t)m->n_hosts + 1, sizeof(*hosts));

	for (int r = 0; r < group->n; r++)
		hosts[group->v[r]->host] = true;
	return hosts;
}

/* "hvdn4 added, hvdn2 removed": from the hosts of this generation to those of the next. Caller frees. */
static char *change_of(const struct hvd_machine *m)
{
	struct hvd_strv names[2] = {{0}, {0}};
	bool *was = hosts_of(m, &m->now), *is = hosts_of(m, &m->next);
	char *lists[2], *text;

	for (uint32_t k = 0; k < m->n_hosts; k++)
		if (was[k] != is[k])
			hvd_strv_add(&names[is[k] ? 0 : 1], m->hosts[k].name);
	free(was);
	free(is);
	for (int i = 0; i < 2; i++)
		lists[i] = names[i].n ? hvd_hostlist_compress(names[i].v, names[i].n) : NULL;
	text = hvd_xasprintf("%s%s%s%s%s", lists[0] ? lists[0] : "", lists[0] ? " added" : "",
			     lists[0] && lists[1] ? ", " : "", lists[1] ? lists[1] : "", lists[1] ? " removed" : "");
	for (int i = 0; i < 2; i++) {
		free(lists[i]);
		hvd_strv_free(&names[i]);
	}
	return text;
}

static void log_begin(const struct hvd_machine *m)
{
	char *change = m->generation            ? change_of(m)
		       : m->next.n < m->opts.np ? hvd_xasprintf("-np asks for %d", m->opts.np)
						: hvd_xstrdup("");
	bool *used = hosts_of(m, &m->next);
	int hosts = 0;

	for (uint32_t k = 0; k < m->n_hosts; k++)
		hosts += used[k];
	free(used);
	hvd_info(m->log, "generation %d: %d rank%s on %d host%s%s%s%s", m->generation + 1, m->next.n,
		 m->next.n == 1 ? "" : "s", hosts, hosts == 1 ? "" : "s", *change ? " (" : "", change,
		 *change ? ")" : "");
	free(change);
}

/* ---- prepared ---- */

/* Assign the ranks of the next generation to survivors and to new workers, which are not started yet. */
static void plan(struct hvd_machine *m, const struct hvd_rank_assignment *assignment)
{
	forget_gone(m);
	m->next.v = hvd_xcalloc((size_t)assignment->n + 1, sizeof(struct hvd_worker *));
	m->next.n = assignment->n;
	for (int r = 0; r < assignment->n; r++) {
		m->next.v[r] = assignment->v[r].survivor;
		if (m->next.v[r])
			continue;
		m->next.v[r] = new_worker(m, &assignment->v[r]);
		m->next.v[r]->rank = r;
	}
}

static void start(struct hvd_machine *m, const struct hvd_worker_group *group)
{
	for (int r = 0; r < group->n; r++)
		if (group->v[r]->fresh)
			m->ops->worker_start(group->v[r], m->arg);
}

void hvd_generation_prepare(struct hvd_machine *m, const struct hvd_rank_assignment *assignment, hvd_time now)
{
	int fresh = assignment->n - assignment->kept;

	plan(m, assignment);
	m->next_since = now;
	hvd_verbose(m->log, "starting %d new rank%s while %d train", fresh, fresh == 1 ? "" : "s", assignment->kept);
	m->ops->prepare(m->arg);
	start(m, &m->next);
}

void hvd_generation_drop(struct hvd_machine *m)
{
	for (int r = 0; r < m->next.n; r++) {
		struct hvd_worker *w = m->next.v[r];

		if (w->fresh && (w->state == HVD_WORKER_STARTING || w->state == HVD_WORKER_ARRIVED))
			hvd_worker_stop(m, w, true);
	}
	free(m->next.v);
	m->next = (struct hvd_worker_group){0};
}

/* ---- started ---- */

/* A host without a survivor is new to the training: its ranks follow all others from now on. */
static void reorder(struct hvd_machine *m)
{
	for (int r = 0; r < m->next.n; r++) {
		uint32_t host = m->next.v[r]->host;
		bool survivor = false, seen = false;

		for (int q = 0; q < m->next.n; q++) {
			survivor |= m->next.v[q]->host == host && !m->next.v[q]->fresh;
			seen |= q < r && m->next.v[q]->host == host;
		}
		if (!survivor && !seen)
			m->hosts[host].order = m->next_order++;
	}
}

static void remove_others(struct hvd_machine *m)
{
	for (uint32_t i = 0; i < m->n_workers; i++)
		if (m->workers[i]->state == HVD_WORKER_READY && !hvd_worker_group_has(&m->next, m->workers[i])) {
			m->workers[i]->removed = true;
			hvd_worker_stop(m, m->workers[i], false);
		}
}

static void begin(struct hvd_machine *m, bool prepared, hvd_time now)
{
	log_begin(m);
	if (m->generation > 0 && !m->opts.restart)
		reorder(m);
	remove_others(m);
	free(m->now.v);
	m->now = m->next;
	m->next = (struct hvd_worker_group){0};
	forget_gone(m);
	for (int r = 0; r < m->now.n; r++) {
		m->now.v[r]->rank = r;
		m->now.v[r]->published = m->now.v[r]->state == HVD_WORKER_ARRIVED;
	}
	m->gen = (struct hvd_generation){.counted = m->generation > 0 && !(prepared && m->gen.partial),
					 .starting_since = now};
	m->generation++;
	m->resets += m->gen.counted;
	m->phase = HVD_STARTING;
	if (m->generation == 1)
		hvd_host_manager_log_spares(m, 0, m->n_hosts, now);
	m->ops->generation(prepared, m->arg);
}

void hvd_generation_begin(struct hvd_machine *m, hvd_time now)
{
	begin(m, true, now);
}

void hvd_generation_form(struct hvd_machine *m, const struct hvd_rank_assignment *assignment, hvd_time now)
{
	plan(m, assignment);
	m->ops->prepare(m->arg);
	begin(m, false, now);
	start(m, &m->now);
}

void hvd_generation_replace(struct hvd_machine *m, const struct hvd_worker *w, hvd_time now)
{
	const struct hvd_assigned_slot slot = {.host = w->host, .slot = w->slot};
	int rank = w->rank;

	m->now.v[rank] = new_worker(m, &slot);
	m->now.v[rank]->rank = rank;
	m->gen.replaced++;
	m->gen.starting_since = now;
	m->ops->worker_start(m->now.v[rank], m->arg);
}

void hvd_generation_undo(struct hvd_machine *m)
{
	for (int r = 0; r < m->now.n; r++)
		if (m->now.v[r]->state == HVD_WORKER_STARTING || m->now.v[r]->state == HVD_WORKER_ARRIVED)
			hvd_worker_stop(m, m->now.v[r], true);
	m->generation--;
	m->resets -= m->gen.counted;
}

bool hvd_generation_dying(const struct hvd_machine *m)
{
	for (uint32_t i = 0; i < m->n_workers; i++)
		if (m->workers[i]->fresh && m->workers[i]->state == HVD_WORKER_ENDING)
			return true;
	return false;
}

bool hvd_generation_limit_met(const struct hvd_machine *m)
{
	return m->opts.reset_limit >= 0 && m->resets >= m->opts.reset_limit;
}

void hvd_generation_over(struct hvd_machine *m, hvd_time now)
{
	hvd_failure_judge(m, now);
	m->phase = HVD_WAITING;
	m->waiting_since = m->over_at = now;
	m->gen.enough_since = 0;
	if (m->ops->over)
		m->ops->over(m->arg);
}
