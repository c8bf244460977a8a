/* SPDX-License-Identifier: Apache-2.0 */
#include "bind.h"

#include "lib/base/digits.h"
#include "lib/base/hw_topology.h"
#include "lib/base/xalloc.h"

#include <hwloc.h>
#include <hwloc/glibc-sched.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

void hvd_binding_clear(struct hvd_binding *b)
{
	if (!b)
		return;
	free(b->sets);
	memset(b, 0, sizeof(*b));
}

static int unbound(struct hvd_binding *out, const char *why)
{
	hvd_binding_clear(out);
	out->why = why;
	return 0;
}

/* Load a topology: `machine` as in bind.h; of this machine only what this process may use. NULL with err set. */
static hwloc_topology_t load(const char *machine, struct hvd_err *err)
{
	hwloc_topology_t t;
	hwloc_bitmap_t mask;
	bool ok;

	if (hvd_hw_topology_init(&t, 0, HWLOC_TYPE_FILTER_KEEP_STRUCTURE) != 0) {
		hvd_err_sys(err, "cannot read this machine's topology");
		return NULL;
	}
	ok = true;
	if (machine && strncmp(machine, "synthetic:", 10) == 0)
		ok = hwloc_topology_set_synthetic(t, machine + 10) == 0;
	else if (machine)
		ok = hwloc_topology_set_xml(t, machine) == 0;
	if (!ok || hwloc_topology_load(t) != 0) {
		hvd_err_sys(err, "cannot read this machine's topology");
		hwloc_topology_destroy(t);
		return NULL;
	}
	if (machine)
		return t;
	/* hwloc leaves out CPUs that the cgroup forbids, but not those that the affinity mask forbids. */
	mask = hwloc_bitmap_alloc();
	if (mask && hwloc_get_cpubind(t, mask, HWLOC_CPUBIND_PROCESS) == 0 && !hwloc_bitmap_iszero(mask))
		hwloc_topology_restrict(t, mask, 0);
	hwloc_bitmap_free(mask);
	return t;
}

/* Leave only the CPUs of this share in the topology. */
static int restrict_to(hwloc_topology_t t, const struct hvd_share *share, struct hvd_err *err)
{
	const int have = hwloc_get_nbobjs_by_type(t, HWLOC_OBJ_PU);
	const int n = share->n < 0 ? have - share->first : share->n;
	hwloc_bitmap_t mask;
	int rc;

	if (share->n < 0 && n < 1)
		return 0;
	if (n > have - share->first) {
		hvd_err_set(err, HVD_E_USAGE, "asked for %d CPU%s from number %d on, but ranks may use %d here", n,
			    n == 1 ? "" : "s", share->first, have);
		return hvd_err_hint(err, "lower --cpus-per-task or --ntasks-per-node of the roles on this host");
	}
	mask = hwloc_bitmap_alloc();
	for (int i = 0; mask && i < n; i++)
		hwloc_bitmap_or(mask, mask,
				hwloc_get_obj_by_type(t, HWLOC_OBJ_PU, (unsigned)(share->first + i))->cpuset);
	rc = mask ? hwloc_topology_restrict(t, mask, HWLOC_RESTRICT_FLAG_REMOVE_CPULESS) : -1;
	hwloc_bitmap_free(mask);
	return rc == 0 ? 0 : hvd_err_sys(err, "cannot bind ranks to %d of %d CPUs", n, have);
}

/* The depth of cores in the topology; of processing units when the machine does not tell its cores. */
static int core_depth(hwloc_topology_t t)
{
	int depth = hwloc_get_type_depth(t, HWLOC_OBJ_CORE);

	return depth >= 0 ? depth : hwloc_get_type_depth(t, HWLOC_OBJ_PU);
}

/* Does every set exist and have CPUs, and is no CPU in two sets? */
static bool disjoint(hwloc_bitmap_t *sets, int n)
{
	hwloc_bitmap_t seen = hwloc_bitmap_alloc();
	bool fine = seen != NULL;

	for (int i = 0; fine && i < n; i++) {
		fine = sets[i] && !hwloc_bitmap_iszero(sets[i]) && !hwloc_bitmap_intersects(seen, sets[i]);
		if (fine)
			hwloc_bitmap_or(seen, seen, sets[i]);
	}
	hwloc_bitmap_free(seen);
	return fine;
}

/* Give each rank a block of neighbouring cores; the blocks' sizes differ by one at most. For machines on which some
 * cores have one thread and some two: there hwloc_distrib(), which divides threads, may give one core to two ranks. */
static int in_blocks(hwloc_topology_t t, int depth, int cores, hwloc_bitmap_t *sets, int n, struct hvd_err *err)
{
	int next = 0;

	for (int i = 0; i < n; i++) {
		int take = cores / n + (i < cores % n);

		hwloc_bitmap_free(sets[i]);
		sets[i] = hwloc_bitmap_alloc();
		if (!sets[i])
			return hvd_err_set(err, HVD_E_SYS, "out of memory");
		while (take-- > 0)
			hwloc_bitmap_or(sets[i], sets[i], hwloc_get_obj_by_depth(t, depth, (unsigned)next++)->cpuset);
	}
	return 0;
}

/* Extend each set to all CPUs of the NUMA nodes that it has CPUs of. */
static void widen(hwloc_topology_t t, hwloc_bitmap_t *sets, int n)
{
	for (int i = 0; i < n; i++) {
		hwloc_bitmap_t nodes = hwloc_bitmap_alloc();

		if (nodes && hwloc_cpuset_to_nodeset(t, sets[i], nodes) == 0)
			hwloc_cpuset_from_nodeset(t, sets[i], nodes);
		hwloc_bitmap_free(nodes);
	}
}

/* Why ranks have nothing of their own to be bound to; NULL: they have. */
static const char *undivided(hwloc_topology_t t, int n, int cores, bool near)
{
	if (cores < n)
		return "there are more local ranks than cores";
	if (near && hwloc_get_nbobjs_by_type(t, HWLOC_OBJ_NUMANODE) < 2)
		return "this machine has one NUMA domain, which they share";
	return NULL;
}

static int split(struct hvd_binding *out, hwloc_topology_t t, int n, bool near, bool shared, struct hvd_err *err)
{
	int depth = core_depth(t), cores = hwloc_get_nbobjs_by_depth(t, depth), rc = 0;
	const int cpus = hwloc_get_nbobjs_by_type(t, HWLOC_OBJ_PU);
	const bool by_cpu = shared && cores % n != 0 && cpus % n == 0;
	hwloc_obj_t root = hwloc_get_root_obj(t);
	const char *why = undivided(t, n, by_cpu ? cpus : cores, near);
	hwloc_bitmap_t *sets;

	if (why && !shared)
		return unbound(out, why);
	if (hwloc_bitmap_last(root->cpuset) >= CPU_SETSIZE)
		return unbound(out, "this machine has more CPUs than can be bound to");
	sets = hvd_xcalloc((size_t)n, sizeof(*sets)); /* hwloc_distrib allocates each */
	if (why)
		for (int i = 0; i < n; i++)
			sets[i] = hwloc_bitmap_dup(root->cpuset);
	else if (by_cpu)
		rc = in_blocks(t, hwloc_get_type_depth(t, HWLOC_OBJ_PU), cpus, sets, n, err);
	else if (hwloc_distrib(t, &root, 1, sets, (unsigned)n, depth, 0) != 0 || !disjoint(sets, n))
		rc = in_blocks(t, depth, cores, sets, n, err);
	if (rc == 0 && near)
		widen(t, sets, n);
	if (rc == 0) {
		out->n = n;
		out->sets = hvd_xcalloc((size_t)n, sizeof(*out->sets));
	}
	for (int i = 0; i < n; i++) {
		if (rc == 0)
			hwloc_cpuset_to_glibc_sched_affinity(t, sets[i], &out->sets[i], sizeof(out->sets[i]));
		hwloc_bitmap_free(sets[i]);
	}
	free(sets);
	return rc;
}

int hvd_bind_cores(struct hvd_cores *out, const char *machine, struct hvd_err *err)
{
	hwloc_topology_t t = load(machine, err);
	int depth, packages;

	memset(out, 0, sizeof(*out));
	if (!t)
		return -1;
	depth = core_depth(t);
	out->cores = hwloc_get_nbobjs_by_depth(t, depth);
	for (int i = 0; i < out->cores; i++) {
		int threads = hwloc_bitmap_weight(hwloc_get_obj_by_depth(t, depth, (unsigned)i)->cpuset);

		if (threads > 0 && (out->threads == 0 || threads < out->threads))
			out->threads = threads;
	}
	packages = hwloc_get_nbobjs_by_type(t, HWLOC_OBJ_PACKAGE);
	out->packages = packages > 0 ? packages : 1;
	hwloc_topology_destroy(t);
	if (out->cores < 1 || out->threads < 1)
		return hvd_err_set(err, HVD_E_SYS, "this machine does not report its cores");
	return 0;
}

int hvd_bind_split(struct hvd_binding *out, int n, bool near, const struct hvd_share *share, const char *machine,
		   struct hvd_err *err)
{
	const bool shared = share && !hvd_share_is_all(share);
	hwloc_topology_t t;
	int rc;

	memset(out, 0, sizeof(*out));
	out->why = "the machine's topology is not known";
	if (n < 1)
		return hvd_err_set(err, HVD_E_USAGE, "%d is not a valid number of local ranks", n);
	t = load(machine, err);
	if (!t)
		return -1;
	rc = shared ? restrict_to(t, share, err) : 0;
	if (rc == 0) {
		out->why = NULL;
		rc = split(out, t, n, near, shared, err);
	}
	hwloc_topology_destroy(t);
	return rc;
}

/* ---- bindings that another program, such as LSF, has decided ---- */

/* Read one list, "0,1,4", and move *p behind it. */
static bool one_list(const char **p, cpu_set_t *set)
{
	CPU_ZERO(set);
	for (;; ++*p) {
		int64_t cpu = hvd_take_digits(p, CPU_SETSIZE - 1);

		if (cpu < 0)
			return false;
		CPU_SET((size_t)cpu, set);
		if (**p != ',')
			return true;
	}
}

/* May this process run on all of the sets? Only an attempt shows it: the kernel may allow CPUs that are not in the
 * present affinity mask. */
static bool usable(const struct hvd_binding *b)
{
	cpu_set_t before;
	bool fine = sched_getaffinity(0, sizeof(before), &before) == 0;

	for (int i = 0; fine && i < b->n; i++)
		fine = sched_setaffinity(0, sizeof(b->sets[i]), &b->sets[i]) == 0;
	sched_setaffinity(0, sizeof(before), &before);
	return fine;
}

int hvd_bind_listed(struct hvd_binding *out, int n, const char *lists, struct hvd_err *err)
{
	const char *p = lists;
	bool fine = true;

	memset(out, 0, sizeof(*out));
	out->why = "the list of CPUs cannot be used";
	if (n < 1)
		return hvd_err_set(err, HVD_E_USAGE, "%d is not a valid number of local ranks", n);
	out->n = n;
	out->sets = hvd_xcalloc((size_t)n, sizeof(*out->sets));
	for (int i = 0; fine && i < n; i++)
		fine = one_list(&p, &out->sets[i]) && *p++ == (i + 1 < n ? ':' : '\0');
	if (fine && usable(out)) {
		out->why = NULL;
		return 0;
	}
	unbound(out, out->why);
	if (!fine)
		return hvd_err_set(err, HVD_E_PROTO, "this is not a list of CPUs of %d ranks: %.80s", n, lists);
	return hvd_err_set(err, HVD_E_SYS, "some of the CPUs in the list may not be used");
}
