/* SPDX-License-Identifier: Apache-2.0 */
#include "rank_binding.h"

#include <string.h>

void hvd_rank_binding_clear(struct hvd_rank_binding *binding)
{
	hvd_binding_clear(&binding->sets);
	*binding = (struct hvd_rank_binding){.known = false};
}

static bool same(const struct hvd_binding_need *a, const struct hvd_binding_need *b)
{
	return a->ranks == b->ranks && a->bind == b->bind && a->near == b->near && a->cpus.first == b->cpus.first &&
	       a->cpus.n == b->cpus.n && a->listed == b->listed;
}

/* Ranks that have the whole host. */
static void bind_all(struct hvd_binding *sets, const struct hvd_binding_need *need, const struct hvd_log *log)
{
	struct hvd_err why = {0};

	if (need->listed) {
		if (hvd_bind_listed(sets, need->ranks, need->listed, &why) == 0)
			return;
		hvd_warn(log, "cannot use the scheduler's list of CPUs, ranks are bound without it: %s", why.msg);
	}
	if (need->ranks > 1 && (hvd_bind_split(sets, need->ranks, need->near, NULL, NULL, NULL) != 0 || sets->n == 0))
		hvd_verbose(log, "ranks are not bound to CPUs: %s", sets->why ? sets->why : "hwloc failed");
}

/* Ranks that share the host with those of other worlds. */
static int bind_share(struct hvd_rank_binding *binding, const struct hvd_binding_need *need, struct hvd_err *err)
{
	struct hvd_binding *sets = &binding->sets;
	cpu_set_t all;

	if (hvd_bind_split(sets, need->ranks, need->near, &need->cpus, NULL, err) != 0)
		return -1;
	if (sets->n == 0)
		return hvd_err_set(err, HVD_E_SYS, "cannot bind the rank to a share of the CPUs: %s", sets->why);
	CPU_ZERO(&all);
	for (int i = 0; i < sets->n; i++)
		CPU_OR(&all, &all, &sets->sets[i]);
	binding->cpus = CPU_COUNT(&all);
	return 0;
}

int hvd_rank_binding_find(struct hvd_rank_binding *binding, const struct hvd_binding_need *need,
			  const struct hvd_log *log, struct hvd_err *err)
{
	if (binding->known && same(&binding->need, need))
		return 0;
	hvd_rank_binding_clear(binding);
	if (need->bind && hvd_share_is_all(&need->cpus))
		bind_all(&binding->sets, need, log);
	else if (need->bind && bind_share(binding, need, err) != 0)
		return -1;
	binding->need = *need;
	binding->known = true;
	return 0;
}
