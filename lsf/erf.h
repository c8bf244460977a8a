/* SPDX-License-Identifier: Apache-2.0 */
/*
 * erf.h - writes jsrun's explicit resource file, which says where each rank runs and on which CPUs.
 *
 * Format: IBM Job Step Manager, "Explicit Resource File (ERF) format". Lines `name: value` come first, then one line
 * for each rank:
 *
 *     rank: 3: { hostname: h2; cpu: {0-27} ; gpu: * ; mem: * }
 *
 * Newer releases of jsrun need one line for each rank, and older ones need a newline at the end of the file. All ranks
 * of a host may use all its GPUs and memory (overlapping_rs: allow), because programs with Horovod choose their GPU by
 * local rank.
 *
 * CPUs. If LSF has bound the job's tasks itself (LSB_AFFINITY_HOSTFILE), a rank gets the CPUs of its tasks, by the
 * kernel's numbers ("physical"). Otherwise the host's cores are divided, by jsrun's own numbers ("logical"). These
 * count the hardware threads that a job may use, core after core. They skip cores that are kept for the system, and
 * threads that the job's SMT mode turns off. Each rank gets neighbouring whole cores, and the ranks' numbers of cores
 * differ by at most one. If the number of ranks is a multiple of the number of sockets, no rank has cores on two
 * sockets. More ranks than cores divide the threads.
 *
 * The text was compared with the documentation and with files that others have published; no jsrun has read it.
 */
#ifndef HVD_LSF_ERF_H
#define HVD_LSF_ERF_H

#include "lib/base/err.h"
#include "lib/base/strv.h"
#include "lib/host/alloc.h"

#include <stdbool.h>

/* The largest number of hardware threads that a host may have. */
#define HVD_ERF_MAX_CPUS 65536

/* The hardware of a host, from the compute node itself (topology.h) or from CSM. */
struct hvd_erf_host {
	int cores;   /* physical cores that the job may use */
	int threads; /* hardware threads of each core that the job may use */
	int sockets; /* that the cores are on, as many on each; 0 or 1: ignore sockets */
	int gpus;    /* -1: unknown */
	/* hvd_lsf_host.cpus, not owned: the CPUs of each of LSF's tasks. NULL or empty: LSF has bound none. */
	const struct hvd_strv *cpus;
};

/* Has LSF bound at least as many tasks on each host as the host has ranks? */
bool hvd_erf_bound(const struct hvd_alloc *ranks, const struct hvd_erf_host *hosts);

/* The file's text: each slot of `ranks` becomes a rank, in this order, and hosts[i] is the hardware of host i of
 * `ranks`. The caller frees it. NULL with err set: HVD_E_USAGE if a host has fewer hardware threads than ranks. */
char *hvd_erf_format(const struct hvd_alloc *ranks, const struct hvd_erf_host *hosts, struct hvd_err *err);

#endif
