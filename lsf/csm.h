/* SPDX-License-Identifier: Apache-2.0 */
/*
 * csm.h - what IBM's Cluster System Management (CSM) knows of a job's hosts.
 *
 * Two of its tools, which print YAML, are run:
 *   csm_allocation_query -a ID            the compute nodes, the launch node, isolated cores, SMT mode
 *   csm_node_attributes_query -n A,B,…    the cores, sockets and GPUs of each node
 * Format and options are from the sources of CAST: csmi/src/wm/cmd/allocation_query.c,
 * csmi/src/inv/cmd/node_attributes_query.c and csmi/include. The tools themselves were never run with this program.
 *
 * Their output is untrusted input. They print free text (comment, job name, user script) without quoting it, so the
 * YAML parser gets only lines with known keys.
 */
#ifndef HVD_LSF_CSM_H
#define HVD_LSF_CSM_H

#include "lib/base/deadline.h"
#include "lib/base/err.h"
#include "lib/host/alloc.h"
#include "lsf.h"

#include <stddef.h>

/* Parse the output of csm_allocation_query: *nodes gets the compute nodes, each with one slot; launch_host, isolated and
 * smt of *facts are set, and *gpus is how many GPUs each node has, -1 if that is unknown. After an error *nodes is empty,
 * and the others are as they were. */
int hvd_csm_parse_job(struct hvd_alloc *nodes, struct hvd_lsf *facts, int *gpus, const char *text, size_t len,
		      struct hvd_err *err);

/* Parse the output of csm_node_attributes_query: fill in gpus, sockets and cores of hosts[i] for host i of `a`, without
 * `isolated` cores of each socket. Records of other hosts are skipped; hosts without a record stay unchanged. */
int hvd_csm_parse_nodes(struct hvd_lsf_host *hosts, const struct hvd_alloc *a, int isolated, const char *text,
			size_t len, struct hvd_err *err);

/* Run the tools, which are searched in PATH of `envp`, then in /opt/ibm/csm/bin, and parse their output. The second
 * function fails if a host of `a` has no record. */
int hvd_csm_query_job(struct hvd_alloc *nodes, struct hvd_lsf *facts, int *gpus, const char *id, char *const *envp,
		      hvd_time deadline, struct hvd_err *err);
int hvd_csm_query_nodes(struct hvd_lsf_host *hosts, const struct hvd_alloc *a, int isolated, char *const *envp,
			hvd_time deadline, struct hvd_err *err);

#endif
