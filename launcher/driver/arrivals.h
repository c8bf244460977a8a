/* SPDX-License-Identifier: Apache-2.0 */
/*
 * arrivals.h - which ranks have called torch.distributed's init_process_group(), and which have not.
 *
 * The rendezvous tells of each process that calls it (struct hvd_rv_join): address, process id and generation. That
 * does not tell the process's rank, so arrivals are counted by host. Who is missing is known exactly when none of a
 * host's ranks has come; else by number. Names of one machine count as one host, since they share their addresses. A
 * rank may be several processes: what a host has beyond its ranks does not count.
 *
 * Does no I/O. Times are handed in.
 */
#ifndef HVD_DRIVER_ARRIVALS_H
#define HVD_DRIVER_ARRIVALS_H

#include "lib/base/deadline.h"
#include "lib/job/layout.h"
#include "lib/rendezvous/server.h"
#include "node_table.h"

/* A warning is due so many seconds after the first rank of a generation has come. */
#define HVD_ARRIVALS_PATIENCE 60.0
/* The latest generations, which are kept. What comes to an earlier one does not count. */
#define HVD_ARRIVALS_GENERATIONS 16

/* One generation: the first call of all processes, or the second … */
struct hvd_arrival {
	uint32_t number;  /* of the store's generation: calls before this one */
	uint32_t arrived; /* ranks */
	uint32_t *by_machine;
	hvd_time first, last; /* arrivals */
	hvd_time warn_at;     /* 0 = all have come, INT64_MAX = not again */
};

/* A zeroed struct has no ranks, and nothing counts. */
struct hvd_arrivals {
	const struct hvd_layout *layout; /* not owned */
	uint32_t n_machines;
	struct hvd_arrivals_machine {
		uint32_t ranks;
		uint32_t n_hosts;
		uint32_t *hosts; /* indices in the layout */
	} * machines;
	struct hvd_arrivals_addr {
		struct hvd_addr addr;
		uint32_t machine;
	} * addrs; /* sorted */
	size_t n_addrs;
	uint32_t server; /* the machine that relays tell of by a loopback address: the only one; UINT32_MAX = there are
			    more */
	uint32_t n, floor;
	struct hvd_arrival generations[HVD_ARRIVALS_GENERATIONS]; /* by number */
};

/* Nobody has come yet. Host I of the layout is host I of the table. The layout must stay until hvd_arrivals_clear();
 * the table need not. *a is zero before. */
void hvd_arrivals_begin(struct hvd_arrivals *a, const struct hvd_layout *layout, const struct hvd_node_table *table);
void hvd_arrivals_clear(struct hvd_arrivals *a); /* leaves a zeroed struct */

/* A process has come. Returns its generation if this was the last rank of it, else NULL. The result is valid until the
 * next call. A process from elsewhere than the layout's hosts does not count. */
const struct hvd_arrival *hvd_arrivals_add(struct hvd_arrivals *a, const struct hvd_rv_join *join, hvd_time now);

/* When hvd_arrivals_late() or hvd_arrivals_overdue() has something to say; INT64_MAX = never, if nobody comes.
 * `patience`: seconds after which the first generation is overdue; 0 = never. */
hvd_time hvd_arrivals_next(const struct hvd_arrivals *a, double patience);
/* A generation for which a warning is due, or NULL. The first generation is told again after twice the time, and so on;
 * later ones are told once. */
const struct hvd_arrival *hvd_arrivals_late(struct hvd_arrivals *a, hvd_time now);
/* The first generation, if it is overdue; else NULL. Later ones never are: a program may make a store of its own in
 * some ranks only, which looks the same. */
const struct hvd_arrival *hvd_arrivals_overdue(const struct hvd_arrivals *a, hvd_time now, double patience);

/* Who of the first generation has not come, as hvd_arrivals_missing(): of all hosts, or of host `host` alone if that is
 * not -1. NULL: all have, or nobody is watched for. *any: has a rank of any host come? The caller frees it. */
char *hvd_arrivals_absent(const struct hvd_arrivals *a, int32_t host, bool *any);

/* Who is missing, with what they have not done: "ranks 6, 7 on n4 have not called init_process_group", "1 of ranks 4, 5
 * on n3 has not called …". The caller frees it. */
char *hvd_arrivals_missing(const struct hvd_arrivals *a, const struct hvd_arrival *generation);

#endif
