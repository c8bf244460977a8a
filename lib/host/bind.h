/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bind.h - divides this machine's cores among the ranks of this host, and counts its GPUs.
 */
#ifndef HVD_BIND_H
#define HVD_BIND_H

#include "host_share.h"
#include "lib/base/err.h"

#include <sched.h>
#include <stdbool.h>

/* Which CPUs each rank of this host may run on. A zeroed struct means that ranks are not bound. */
struct hvd_binding {
	int n;           /* ranks; 0: leave them unbound */
	cpu_set_t *sets; /* owned; by local rank. Only sets that are whole NUMA domains may have CPUs in common */
	const char *why; /* static text: why n is 0; NULL if it is not */
};

/* Divide the cores that this process may use (affinity mask, cgroup) among n local ranks. Each rank gets whole cores
 * that are close to each other, and the ranks are spread over NUMA nodes and packages.
 *
 * With `near` each rank gets the whole NUMA domains that these cores are in, and ranks of one domain share it. So a
 * rank's memory is near, while its threads, such as data loaders, may use more cores than the rank's share.
 *
 * With `share`, which may be NULL, all of this is done with those CPUs alone, as if the machine had no others. Where the
 * cores cannot be divided evenly, but the CPUs can, each rank gets so many CPUs. If there are no CPUs from share->first
 * on, all are shared. HVD_E_USAGE if the machine does not have so many.
 *
 * `machine` is NULL for this machine. Tests describe another one in hwloc's XML, or in hwloc's synthetic syntax behind
 * "synthetic:", as in "synthetic:pack:2 core:4 pu:2".
 *
 * Ranks are left unbound, which is no error, when there are more ranks than cores, when the machine has more CPUs than
 * a cpu_set_t holds, and with `near` when it has one NUMA domain. With a share of the CPUs each rank gets all of them
 * instead, if a cpu_set_t holds them. Ranks are unbound after an error too. out->why tells the reason. The caller clears
 * *out. */
int hvd_bind_split(struct hvd_binding *out, int n, bool near, const struct hvd_share *share, const char *machine,
		   struct hvd_err *err);
/* The cores that this process may use. */
struct hvd_cores {
	int cores;
	int threads; /* the least number of usable hardware threads that a core has */
	int packages;
};
/* `machine` as above. After an error *out is undefined. */
int hvd_bind_cores(struct hvd_cores *out, const char *machine, struct hvd_err *err);
/* Bind the ranks as another program has decided: `lists` has a list of CPUs for each of the n ranks, "0,1:2,3". It is
 * an error if the lists are malformed, or this process may not run on one of the CPUs; the ranks are then unbound. */
int hvd_bind_listed(struct hvd_binding *out, int n, const char *lists, struct hvd_err *err);
void hvd_binding_clear(struct hvd_binding *b); /* NULL is fine */

#endif
