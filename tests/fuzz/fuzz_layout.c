/* SPDX-License-Identifier: Apache-2.0 */
/* Tasks per node as text, and layouts from arbitrary ranks. */
#include "fuzz.h"
#include "lib/host/layout.h"

#define NODES 8

/* The bytes are task counts and ranks. */
static void any_ranks(const uint8_t *data, size_t size)
{
	int tasks[NODES], ranks[NODES * 16], *tids[NODES], n_nodes, used = 0;
	char name[] = "n", *names[NODES];
	struct hvd_layout l;

	if (size < 1 + NODES)
		return;
	n_nodes = data[0] % (NODES + 1);
	for (int i = 0; i < NODES; i++) {
		names[i] = name;
		tasks[i] = (int8_t)data[1 + i] % 16;
		tids[i] = &ranks[used];
		for (int k = 0; k < tasks[i]; k++, used++)
			ranks[used] = 1 + NODES + (size_t)used < size ? (int8_t)data[1 + NODES + used] : used;
	}
	if (hvd_layout_from_tasks(&l, names, tasks, tids, n_nodes, NULL) == 0) {
		for (int r = 0; r < l.size; r++) {
			const struct hvd_rank_slot *p = &l.rank_slots[r];

			if (p->rank != r || p->local_rank >= p->local_size || p->cross_rank >= p->cross_size ||
			    l.hosts[p->host].ranks[p->local_rank] != r)
				abort();
		}
	}
	hvd_layout_clear(&l);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = fuzz_text(data, size);
	int *tasks, n;

	n = hvd_tasks_per_node_parse(text, 1000, &tasks, NULL);
	if (n < 0 ? tasks != NULL : n < 1 || n > 1000)
		abort();
	for (int i = 0; i < n; i++)
		if (tasks[i] < 0)
			abort();
	free(tasks);
	free(text);
	any_ranks(data, size);
	return 0;
}
