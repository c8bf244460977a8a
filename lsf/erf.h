/* SPDX-License-Identifier: Apache-2.0 */
/*
 * erf.h - jsrun's explicit resource file: where each rank runs and on which CPUs.
 *
 * Format: IBM Job Step Manager, "Explicit Resource File (ERF) format". A
 * preamble of `name: value` lines, then one line for each rank:
 *
 *     rank: 3: { hostname: h2; cpu: {0-27} ; gpu: * ; mem: * }
 *
 * One line per rank, since newer releases of jsrun want that; the file ends
 * with a newline, since older ones want that. GPUs and memory of a host are
 * open to all of its ranks (overlapping_rs: allow): Horovod's programs choose
 * their GPU by local rank.
 *
 * CPUs. Where LSF has bound the job's tasks itself (LSB_AFFINITY_HOSTFILE) a
 * rank gets what LSF gave its tasks, by the kernel's numbers ("physical").
 * Else the host's cores are divided, by jsrun's own numbers ("logical"): those
 * count the hardware threads that a job may use, core after core, and pass
 * over cores that are kept for the system and threads that its SMT mode turns
 * off. Ranks of a host get neighbouring whole cores, as many as any other or
 * one more; where the number of ranks is a multiple of that of the sockets, no
 * rank's cores are on two. More ranks than cores share by threads.
 *
 * The text was compared with the documentation and with files that others
 * publish; no jsrun has read it.
 */
#ifndef HVD_LSF_ERF_H
#define HVD_LSF_ERF_H

#include "lib/base/err.h"
#include "lib/base/strv.h"
#include "lib/job/alloc.h"

#include <stdbool.h>

/* More hardware threads than this no host has. */
#define HVD_ERF_MAX_CPUS 65536

/* What one host has, as the compute node itself or CSM says. */
struct hvd_erf_host {
	int cores;   /* physical ones that the job may use */
	int threads; /* hardware threads of each that the job may use */
	int sockets; /* that these cores are spread over evenly; 0 or 1: never mind */
	int gpus;    /* -1: nobody says */
	/* Of each task in turn what LSF has bound it to, "0,1,2,3": struct hvd_lsf_host.cpus. Not owned; NULL or empty:
	 * it has not. */
	const struct hvd_strv *cpus;
};

/* Has LSF bound enough tasks on each host for its ranks? */
bool hvd_erf_bound(const struct hvd_alloc *ranks, const struct hvd_erf_host *hosts);

/* The file for ranks in slot order on the hosts of `ranks`, of which hosts[i] says what host i has. Caller frees. NULL
 * with err set (HVD_E_USAGE) when a host has fewer hardware threads than ranks. */
char *hvd_erf_format(const struct hvd_alloc *ranks, const struct hvd_erf_host *hosts, struct hvd_err *err);

#endif
