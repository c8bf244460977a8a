/* SPDX-License-Identifier: Apache-2.0 */
/*
 * csm.h - what IBM's Cluster System Management knows of a job's hosts.
 *
 * Two of its tools are asked, and print YAML:
 *   csm_allocation_query -a ID            the compute nodes, the launch node, isolated cores, SMT mode
 *   csm_node_attributes_query -n A,B,…    of each node its cores, sockets and GPUs
 * Format and options: the sources of CAST, csmi/src/wm/cmd/allocation_query.c,
 * csmi/src/inv/cmd/node_attributes_query.c and csmi/include. The tools
 * themselves were never run with this program.
 *
 * What they print is untrusted input. CSM writes free text (comment, job
 * name, user script) without quoting it, so only lines with known keys are
 * given to the YAML parser.
 */
#ifndef HVD_LSF_CSM_H
#define HVD_LSF_CSM_H

#include "lib/base/deadline.h"
#include "lib/base/err.h"
#include "lib/job/alloc.h"
#include "lsf.h"

#include <stddef.h>

struct hvd_csm_job {
	struct hvd_alloc nodes; /* compute_nodes, with a slot each */
	char *launch_host;      /* launch_node_name; NULL when there is none */
	int gpus;               /* num_gpus, of each node; -1 = not said */
	int isolated;           /* isolated_cores, of each socket */
	int smt;                /* smt_mode, threads per core; 0 = not said */
};

/* Parse what csm_allocation_query has printed. After an error *out is empty. */
int hvd_csm_parse_job(struct hvd_csm_job *out, const char *text, size_t len, struct hvd_err *err);
void hvd_csm_job_clear(struct hvd_csm_job *job);

/* Parse what csm_node_attributes_query has printed, into hosts[i] for host i of `a`: gpus, sockets and cores, from
 * which `isolated` cores per socket are taken off. Records of others are passed over, hosts without one left as they
 * are. */
int hvd_csm_parse_nodes(struct hvd_lsf_host *hosts, const struct hvd_alloc *a, int isolated, const char *text,
			size_t len, struct hvd_err *err);

/* Run the tools, found in PATH of envp, else in /opt/ibm/csm/bin. */
int hvd_csm_query_job(struct hvd_csm_job *out, const char *id, char *const *envp, hvd_time deadline,
		      struct hvd_err *err);
/* Of all hosts. An error when one of them stays without a record. */
int hvd_csm_query_nodes(struct hvd_lsf_host *hosts, const struct hvd_alloc *a, int isolated, char *const *envp,
			hvd_time deadline, struct hvd_err *err);

#endif
