/* SPDX-License-Identifier: Apache-2.0 */
/*
 * init_barrier.h - which ranks have called torch.distributed's init_process_group(), and which have not.
 *
 * The rendezvous reports each process that calls it (struct hvd_rv_init_event): address, process id and epoch. The
 * report lacks the process's rank, so arrivals are counted by host. If no rank of a host has arrived, the missing ranks
 * are known exactly; otherwise only their number is. Names of one machine count as one host, because they share their
 * addresses. A rank may be several processes: arrivals beyond the host's number of ranks do not count.
 *
 * Does no I/O. The caller passes times.
 */
#ifndef HVD_INIT_BARRIER_H
#define HVD_INIT_BARRIER_H

#include "launcher/hosts/host_table.h"
#include "lib/base/deadline.h"
#include "lib/host/layout.h"
#include "lib/rendezvous/server.h"

/* A warning is due this many seconds after the first rank of an epoch has arrived. */
#define HVD_INIT_BARRIER_PATIENCE 60.0
/* How many of the latest epochs are kept. Arrivals in an earlier one do not count. */
#define HVD_INIT_BARRIER_EPOCHS 16

/* One epoch: the first call of all processes, or the second, and so on. */
struct hvd_init_round {
	uint32_t number;  /* of the store's epoch: calls before this one */
	uint32_t arrived; /* ranks */
	uint32_t *by_machine;
	hvd_time first, last; /* arrivals */
	hvd_time warn_at;     /* 0 = all have come, INT64_MAX = not again */
};

/* A zeroed struct has no ranks, and nothing counts. */
struct hvd_init_barrier {
	const struct hvd_layout *layout; /* not owned */
	uint32_t n_machines;
	struct hvd_init_barrier_machine {
		uint32_t ranks;
		uint32_t n_hosts;
		uint32_t *hosts; /* indices in the layout */
	} * machines;
	struct hvd_init_barrier_addr {
		struct hvd_addr addr;
		uint32_t machine;
	} * addrs; /* sorted */
	size_t n_addrs;
	uint32_t server; /* the machine that relays tell of by a loopback address: the only one; UINT32_MAX = there are
			    more */
	uint32_t n, floor;
	struct hvd_init_round epochs[HVD_INIT_BARRIER_EPOCHS]; /* by number */
};

/* Nobody has arrived yet. Host I of the layout is host I of the table. The layout must stay until
 * hvd_init_barrier_clear(); the table need not. *a is zero before. */
void hvd_init_barrier_begin(struct hvd_init_barrier *a, const struct hvd_layout *layout,
			    const struct hvd_host_table *table);
void hvd_init_barrier_clear(struct hvd_init_barrier *a); /* leaves a zeroed struct */

/* A process has arrived. Returns its epoch if this was the last rank of it, else NULL. The result is valid until the
 * next call. A process that is not on the layout's hosts does not count. */
const struct hvd_init_round *hvd_init_barrier_add(struct hvd_init_barrier *a, const struct hvd_rv_init_event *join,
						  hvd_time now);

/* When hvd_init_barrier_late() or hvd_init_barrier_overdue() is next due; INT64_MAX = never, if nobody arrives.
 * `patience`: seconds after which the first epoch is overdue; 0 = never. */
hvd_time hvd_init_barrier_next(const struct hvd_init_barrier *a, double patience);
/* An epoch for which a warning is due, or NULL. The first epoch is due again after twice the time, and so on; later
 * ones are due once. */
const struct hvd_init_round *hvd_init_barrier_late(struct hvd_init_barrier *a, hvd_time now);
/* The first epoch, if it is overdue; else NULL. Later ones never are: a program may make a store of its own in some
 * ranks only, which looks the same. */
const struct hvd_init_round *hvd_init_barrier_overdue(const struct hvd_init_barrier *a, hvd_time now, double patience);

/* The ranks that are missing in the first epoch, as hvd_init_barrier_missing() names them: of all hosts, or of host
 * `host` alone if that is not -1. NULL: none is missing, or nobody is watched. *any: has a rank of any host arrived?
 * The caller frees it. */
char *hvd_init_barrier_absent(const struct hvd_init_barrier *a, int32_t host, bool *any);

/* The missing ranks, and the call that they have not made: "ranks 6, 7 on n4 have not called init_process_group", "1 of
 * ranks 4, 5 on n3 has not called …". The caller frees it. */
char *hvd_init_barrier_missing(const struct hvd_init_barrier *a, const struct hvd_init_round *epoch);

#endif
