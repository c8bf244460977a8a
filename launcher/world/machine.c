/* SPDX-License-Identifier: Apache-2.0 */
/* machine.c - queries by the owner of the state machine, and its end. */
#include "machine_internal.h"

#include "lib/base/xalloc.h"

#include <stdlib.h>

bool hvd_worker_group_has(const struct hvd_worker_group *group, const struct hvd_worker *w)
{
	for (int r = 0; r < group->n; r++)
		if (group->v[r] == w)
			return true;
	return false;
}

int hvd_worker_group_count(const struct hvd_worker_group *group, enum hvd_worker_state state)
{
	int n = 0;

	for (int r = 0; r < group->n; r++)
		n += group->v[r]->state == state;
	return n;
}

static int by_id(const void *id, const void *worker)
{
	const uint32_t a = *(const uint32_t *)id, b = (*(struct hvd_worker *const *)worker)->id;

	return a < b ? -1 : a > b;
}

struct hvd_worker *hvd_worker_find(const struct hvd_machine *m, uint32_t id)
{
	struct hvd_worker **found =
		m->n_workers ? bsearch(&id, m->workers, m->n_workers, sizeof(*m->workers), by_id) : NULL;

	return found ? *found : NULL;
}

hvd_time hvd_machine_due(const struct hvd_machine *m)
{
	return m->due;
}

int hvd_machine_generation(const struct hvd_machine *m)
{
	return m->generation;
}

int hvd_machine_restarts(const struct hvd_machine *m)
{
	return m->restarts;
}

bool hvd_machine_too_few(const struct hvd_machine *m)
{
	return m->too_few;
}

bool hvd_machine_lost(const struct hvd_machine *m, uint32_t host)
{
	return host < m->n_hosts && (m->hosts[host].lost || m->hosts[host].unfit);
}

bool hvd_machine_checking(const struct hvd_machine *m, uint32_t host)
{
	return host < m->n_hosts && m->hosts[host].checking;
}

bool hvd_machine_idle(const struct hvd_machine *m)
{
	return m->opts.max_idle > 0 && m->idle >= m->opts.max_idle;
}

const struct hvd_worker *hvd_machine_member(const struct hvd_machine *m, int rank)
{
	return rank >= 0 && rank < m->now.n ? m->now.v[rank] : NULL;
}

bool hvd_machine_has_rank(const struct hvd_machine *m, uint32_t host)
{
	const struct hvd_worker *w;

	for (int rank = 0; (w = hvd_machine_member(m, rank)); rank++)
		if (w->host == host)
			return true;
	return false;
}

void hvd_machine_busy_hosts(const struct hvd_machine *m, bool *busy, uint32_t n)
{
	for (uint32_t i = 0; i < m->n_workers; i++)
		if (m->workers[i]->host < n)
			busy[m->workers[i]->host] = true;
}

const struct hvd_worker *hvd_machine_nth_worker(const struct hvd_machine *m, uint32_t i)
{
	return i < m->n_workers ? m->workers[i] : NULL;
}

const struct hvd_worker *hvd_machine_newcomer(const struct hvd_machine *m, int rank)
{
	const struct hvd_worker_group *group = m->next.n ? &m->next : &m->now;
	const struct hvd_worker *w = rank >= 0 && rank < group->n ? group->v[rank] : NULL;

	return w && w->fresh ? w : NULL;
}

const struct hvd_worker *hvd_machine_worker(const struct hvd_machine *m, uint32_t id)
{
	return hvd_worker_find(m, id);
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

uint32_t hvd_machine_slurm_job(const struct hvd_machine *m, uint32_t host)
{
	return host < m->n_hosts ? m->hosts[host].slurm_job : 0;
}

int hvd_machine_layout(const struct hvd_machine *m, bool next, struct hvd_layout *layout, struct hvd_err *err)
{
	const struct hvd_worker_group *group = next ? &m->next : &m->now;
	char **names = hvd_xcalloc(m->n_hosts, sizeof(*names));
	int *tasks = hvd_xcalloc(m->n_hosts, sizeof(*tasks)), **tids = hvd_xcalloc(m->n_hosts, sizeof(*tids)), rc;

	for (uint32_t h = 0; h < m->n_hosts; h++) {
		names[h] = m->hosts[h].name;
		tids[h] = hvd_xcalloc((size_t)group->n + 1, sizeof(**tids));
	}
	for (int r = 0; r < group->n; r++) {
		tids[group->v[r]->host][group->v[r]->slot] = r;
		tasks[group->v[r]->host]++;
	}
	rc = hvd_layout_from_tasks(layout, names, tasks, tids, (int)m->n_hosts, err);
	for (int r = 0; r < layout->size; r++)
		layout->rank_slots[r].id = group->v[r]->id;
	for (uint32_t h = 0; h < m->n_hosts; h++)
		free(tids[h]);
	free(names);
	free(tasks);
	free(tids);
	return rc;
}

void hvd_machine_destroy(struct hvd_machine *m)
{
	if (!m)
		return;
	for (uint32_t i = 0; i < m->n_workers; i++)
		free(m->workers[i]);
	free(m->workers);
	free(m->now.v);
	free(m->next.v);
	for (uint32_t k = 0; k < m->n_hosts; k++) {
		free(m->hosts[k].name);
		free(m->hosts[k].switch_path);
	}
	free(m->hosts);
	free(m);
}
