/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bind.h - this machine's cores, divided among local ranks, and its GPUs.
 */
#ifndef HVD_BIND_H
#define HVD_BIND_H

#include "lib/base/err.h"

#include <sched.h>

/* A zeroed struct means "no binding". */
struct hvd_binding {
	int n;           /* ranks; 0 = leave them unbound */
	cpu_set_t *sets; /* sets[local rank]: whole cores; unless ranks share a NUMA domain no CPU in two sets */
	const char *why; /* why n is 0; static text, NULL otherwise */
};

/* Divide the cores that this process may use (affinity mask, cgroup) among n local ranks: whole cores,
 * near in the machine, ranks spread over NUMA nodes and packages. More ranks than cores, or more CPUs than
 * a cpu_set_t holds, is no error: the answer is then "no binding", with the reason. After an error, too. */
int hvd_bind_split(struct hvd_binding *out, int n, struct hvd_err *err);
/* The same for another machine, from a description in hwloc's XML or synthetic syntax
 * ("synthetic:pack:2 core:4 pu:2"): for tests. */
int hvd_bind_split_on(struct hvd_binding *out, int n, const char *machine, struct hvd_err *err);
/* The NUMA domains that those cores are in, where there are several: ranks of one domain share it. So a rank keeps to
 * near memory, and threads of its own, such as data loaders, have more than its share of the cores to run on. Otherwise
 * as above; "no binding" also where there is one domain only. */
int hvd_bind_near(struct hvd_binding *out, int n, struct hvd_err *err);
int hvd_bind_near_on(struct hvd_binding *out, int n, const char *machine, struct hvd_err *err);
/* What there is to divide. */
struct hvd_cores {
	int cores;
	int threads; /* hardware threads that may be used of each core: the least number */
	int packages;
};
/* Of this machine, as far as this process may use it; `machine` as above, or NULL. */
int hvd_bind_cores(struct hvd_cores *out, const char *machine, struct hvd_err *err);
/* Take what another has decided: "0,1:2,3" are the CPUs of ranks 0 and 1, n lists in all. An error also when this
 * process may not run on any of them. */
int hvd_bind_listed(struct hvd_binding *out, int n, const char *lists, struct hvd_err *err);
void hvd_binding_clear(struct hvd_binding *b); /* NULL is fine */

/* GPUs for ranks of this machine: as many as CUDA_VISIBLE_DEVICES, ROCR_VISIBLE_DEVICES or HIP_VISIBLE_DEVICES
 * names in envp, else as many as there are device nodes <root>/dev/nvidia0 … or GPUs among
 * <root>/sys/class/kfd/kfd/topology/nodes. 0 when there are none. `root` is "" or a directory for tests. Device
 * nodes, and not hwloc: to see GPUs it would load the vendors' libraries, which takes seconds. */
int hvd_gpu_count(const char *root, char *const *envp);

/* How many GPUs such a list in envp names: 0 where it is there and empty, -1 without one. */
int hvd_gpu_visible(char *const *envp);

#endif
