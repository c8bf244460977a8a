/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rank_binding.h - to which CPUs the ranks of a world on this host are bound.
 */
#ifndef HVD_RANK_BINDING_H
#define HVD_RANK_BINDING_H

#include "lib/base/log.h"
#include "lib/host/bind.h"

/* What is to be bound, and how. */
struct hvd_binding_need {
	int ranks;
	bool bind;             /* bind each rank to cores of its own */
	bool near;             /* bind each rank to the NUMA domains of its cores, which ranks then share */
	struct hvd_share cpus; /* all of them, or those that these ranks keep to */
	const char *listed;    /* the CPUs of each rank, see hvd_bind_listed(); NULL: none. For ranks with all CPUs */
};

/* The last answer, for ranks of one need are started one after the other. A zeroed struct has none. */
struct hvd_rank_binding {
	struct hvd_binding_need need;
	bool known; /* the rest is of this need */
	struct hvd_binding sets;
	int cpus; /* how many all of these ranks may run on together; 0: all of the host's */
};

/* Ranks with all CPUs stay unbound where they cannot be bound, and so does a single one. Ranks with a share are always
 * bound, unless need->bind is not set: -1 with err set if they cannot be. need->listed must outlive *binding. */
int hvd_rank_binding_find(struct hvd_rank_binding *binding, const struct hvd_binding_need *need,
			  const struct hvd_log *log, struct hvd_err *err);
void hvd_rank_binding_clear(struct hvd_rank_binding *binding);

#endif
