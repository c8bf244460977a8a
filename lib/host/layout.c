/* SPDX-License-Identifier: Apache-2.0 */
#include "layout.h"

#include "lib/base/cleanup.h"
#include "lib/base/digits.h"
#include "lib/base/hostlist.h"
#include "lib/base/size.h"
#include "lib/base/strv.h"
#include "lib/base/xalloc.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int hvd_layout_rank_of(const struct hvd_layout *layout, uint32_t host, uint32_t id)
{
	const struct hvd_layout_host *of = host < (uint32_t)layout->n_hosts ? &layout->hosts[host] : NULL;

	for (int i = 0; of && i < of->n; i++)
		if (layout->rank_slots[of->ranks[i]].id == id)
			return of->ranks[i];
	return -1;
}

char *hvd_layout_hosts_text(const struct hvd_layout *layout)
{
	HVD_CLEANUP(hvd_strv_free) struct hvd_strv names = {0};

	for (int h = 0; h < layout->n_hosts; h++)
		if (layout->hosts[h].n > 0)
			hvd_strv_add(&names, layout->hosts[h].name);
	return hvd_hostlist_compress(names.v, names.n);
}

void hvd_layout_clear(struct hvd_layout *l)
{
	if (!l)
		return;
	for (int i = 0; i < l->n_hosts; i++) {
		free(l->hosts[i].name);
		free(l->hosts[i].ranks);
	}
	free(l->hosts);
	free(l->rank_slots);
	memset(l, 0, sizeof(*l));
}

/* The number of all ranks, or -1. */
static int count_ranks(const int *tasks, int n_hosts, struct hvd_err *err)
{
	long long sum = 0;

	if (n_hosts < 0 || n_hosts > HVD_MAX_HOSTS)
		return hvd_err_set(err, HVD_E_LIMIT, "%d hosts are more than the %d that are possible", n_hosts,
				   HVD_MAX_HOSTS);
	for (int i = 0; i < n_hosts; i++) {
		if (tasks[i] < 0)
			return hvd_err_set(err, HVD_E_PROTO, "host %d of the layout has %d tasks", i, tasks[i]);
		sum += tasks[i];
	}
	if (sum > HVD_MAX_RANKS)
		return hvd_err_set(err, HVD_E_LIMIT, "%lld ranks are more than the %d that are possible", sum,
				   HVD_MAX_RANKS);
	if (sum == 0)
		return hvd_err_set(err, HVD_E_PROTO, "the layout has no ranks");
	return (int)sum;
}

/* Fill in the rank slots from the hosts' ranks. For cross ranks the hosts count in the order of their first ranks, as
 * with horovodrun. That need not be the order of l->hosts: Slurm sorts the nodes of a step by name, and rank 0 may be
 * on any of them (--distribution=arbitrary). */
static void fill_rank_slots(struct hvd_layout *l)
{
	int most = 0;
	int *seen; /* hosts so far that have local rank i */

	for (int h = 0; h < l->n_hosts; h++) {
		const struct hvd_layout_host *host = &l->hosts[h];

		if (host->n > most)
			most = host->n;
		for (int i = 0; i < host->n; i++)
			l->rank_slots[host->ranks[i]] = (struct hvd_rank_slot){.rank = host->ranks[i],
									       .size = l->size,
									       .host = h,
									       .local_rank = i,
									       .local_size = host->n,
									       .id = (uint32_t)host->ranks[i],
									       .cross_rank = -1};
	}
	seen = hvd_xcalloc((size_t)most, sizeof(*seen));
	for (int r = 0; r < l->size; r++) {
		const struct hvd_layout_host *host = &l->hosts[l->rank_slots[r].host];

		if (l->rank_slots[r].cross_rank >= 0)
			continue; /* not the first rank of its host */
		for (int i = 0; i < host->n; i++)
			l->rank_slots[host->ranks[i]].cross_rank = seen[i]++;
	}
	for (int r = 0; r < l->size; r++)
		l->rank_slots[r].cross_size = seen[l->rank_slots[r].local_rank];
	free(seen);
}

int hvd_layout_from_tasks(struct hvd_layout *out, char *const *names, const int *tasks, int *const *tids, int n_hosts,
			  struct hvd_err *err)
{
	int size, next = 0;

	memset(out, 0, sizeof(*out));
	size = count_ranks(tasks, n_hosts, err);
	if (size < 0)
		return -1;
	out->size = size;
	out->n_hosts = n_hosts;
	out->hosts = hvd_xcalloc((size_t)n_hosts, sizeof(*out->hosts));
	out->rank_slots = hvd_xcalloc((size_t)size, sizeof(*out->rank_slots));
	for (int h = 0; h < n_hosts; h++) {
		struct hvd_layout_host *host = &out->hosts[h];

		host->name = hvd_xstrdup(names[h]);
		host->n = tasks[h];
		host->ranks = hvd_xcalloc((size_t)tasks[h], sizeof(*host->ranks));
		for (int i = 0; i < tasks[h]; i++) {
			int rank = tids ? tids[h][i] : next++;

			if (rank < 0 || rank >= size) {
				hvd_err_set(err, HVD_E_PROTO, "task %d of %s has rank %d, but there are %d ranks", i,
					    names[h], rank, size);
				hvd_layout_clear(out);
				return -1;
			}
			if (out->rank_slots[rank].size) {
				hvd_err_set(err, HVD_E_PROTO, "rank %d occurs twice in the layout, again on %s", rank,
					    names[h]);
				hvd_layout_clear(out);
				return -1;
			}
			/* Marks the rank as seen. There are as many tasks as ranks, so if none is seen twice, none is
			 * missing. */
			out->rank_slots[rank].size = size;
			host->ranks[i] = rank;
		}
	}
	fill_rank_slots(out);
	return 0;
}

int hvd_tasks_per_node_parse(const char *text, int max_nodes, int **out, struct hvd_err *err)
{
	const char *p = text;
	hvd_cleanup_free int *v = NULL;
	int n = 0, room = 0;

	*out = NULL;
	if (max_nodes > HVD_MAX_HOSTS)
		max_nodes = HVD_MAX_HOSTS;
	for (;;) {
		int tasks = (int)hvd_take_digits(&p, HVD_MAX_RANKS), times = 1;

		if (tasks < 0)
			goto malformed;
		if (p[0] == '(') {
			if (p[1] != 'x')
				goto malformed;
			p += 2;
			times = (int)hvd_take_digits(&p, INT_MAX);
			if (times < 1 || *p++ != ')')
				goto malformed;
		}
		if (times > max_nodes - n)
			return hvd_err_set(err, HVD_E_LIMIT, "'%.80s' is for more than %d nodes", text, max_nodes);
		if (n + times > room) {
			room = (n + times) * 2;
			v = hvd_xrealloc(v, (size_t)room, sizeof(*v));
		}
		while (times-- > 0)
			v[n++] = tasks;
		if (*p == '\0') {
			*out = hvd_take_ptr(&v);
			return n;
		}
		if (*p++ != ',')
			goto malformed;
	}
malformed:
	return hvd_err_set(err, HVD_E_PROTO, "'%.80s' is not a list of tasks per node like '2(x4),1'", text);
}
