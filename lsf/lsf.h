/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lsf.h - the allocation of a job of LSF, or of a scheduler that speaks as LSF does (OpenLava and its kin).
 *
 * Where hosts come from, the first that is there:
 *   CSM_ALLOCATION_ID    what csm_allocation_query says (csm.h)
 *   LSB_DJOB_HOSTFILE    a file with a host name a line, one line per slot
 *   LSB_MCPU_HOSTS       "host slots host slots …"
 *   LSB_HOSTS            "host host …", a word per slot
 * A source that is there but empty, unreadable or malformed is passed over,
 * and a note says so. A host may be named again anywhere: its slots add up on
 * the first mention.
 *
 * Formats: IBM Spectrum LSF, "Environment variables set for job execution";
 * those of CSM: the sources of CAST (csmi/src/wm/cmd, csmi/src/inv/cmd). The
 * variables were seen on a scheduler of the OpenLava family; nothing here has
 * run under IBM's LSF.
 *
 * Variables and files are untrusted input. Nothing here reads the environment
 * of the process: it is passed in.
 */
#ifndef HVD_LSF_H
#define HVD_LSF_H

#include "lib/base/deadline.h"
#include "lib/base/err.h"
#include "lib/base/strv.h"
#include "lib/job/alloc.h"

#include <stdbool.h>

/* What is known of a host beyond its slots. Numbers are -1 where nobody says. */
struct hvd_lsf_host {
	int tasks;            /* job slots: how often LSF's list names it; -1 where CSM was the source */
	int gpus;             /* that the job may use there */
	int cores;            /* physical ones that the job may use: isolated cores are taken off already */
	int sockets;          /* that these cores are on */
	struct hvd_strv cpus; /* LSB_AFFINITY_HOSTFILE: of each task in turn its physical CPU ids, as "0,1,2,3";
			       * empty when the scheduler binds nothing */
};

/* A zeroed struct knows nothing. */
struct hvd_lsf {
	struct hvd_lsf_host *hosts; /* hosts[i] is about hosts[i] of the allocation that it came with */
	int n_hosts;
	bool csm;              /* a CSM system: the job script runs on a launch node, and jsrun starts the tasks */
	char *launch_host;     /* that node, where a list named it: it is left out of the allocation; NULL = none */
	int isolated;          /* cores that CSM keeps for the system, of each socket; 0 = none. jsrun's logical CPU
				* indices skip them */
	int smt;               /* threads per core that CSM has set for the job; 0 = nobody says */
	struct hvd_strv notes; /* what could not be had, and what was taken instead: for the user */
};

void hvd_lsf_clear(struct hvd_lsf *facts); /* leaves a zeroed struct; NULL is fine */

/* Is there an LSF job in this environment? LSB_JOBID alone does not tell, as it is inherited by what a job submits
 * or leaves behind: one of the sources above has to be there as well. */
bool hvd_alloc_in_lsf(char *const *envp);

/* Are we a task of jsrun already (JSM_NAMESPACE_RANK)? Then there is nothing to launch. */
bool hvd_lsf_in_jsrun(char *const *envp);

struct hvd_alloc_lsf_opts {
	int slots_per_host; /* > 0: this many on every host, whatever the job says */
	bool jsrun;         /* jsrun is installed: the first host of LSF's lists is a launch node, where it has one slot
			     * and others follow. Implied by CSM_ALLOCATION_ID */
	hvd_time deadline;  /* for the tools of CSM together; 0 = 30 seconds from now */
};

/* The job's hosts, and what is known of them (`facts` may be NULL). Slots per host, the first that is known:
 *   slots_per_host;
 *   GPUs: CSM's; else as many as CUDA_VISIBLE_DEVICES (ROCR_…, HIP_…) lists on this host, for every host, where this
 *     host is one of the job's. Only their number goes to other hosts, never the ids;
 *   tasks: how often LSF's list names the host;
 *   1.
 * A task of jsrun is refused. HVD_E_NOENT when there is no job. After an error *out and *facts are empty. */
int hvd_alloc_from_lsf(struct hvd_alloc *out, struct hvd_lsf *facts, char *const *envp,
		       const struct hvd_alloc_lsf_opts *opts, struct hvd_err *err);

/* What is known of the hosts of `from`, made to fit `to`, of which every host is one of `from`. */
void hvd_lsf_select(struct hvd_lsf *facts, const struct hvd_alloc *from, const struct hvd_alloc *to);

/* The CPUs of each of a host's ranks as LSF has bound its tasks: "0,1:2,3". With fewer ranks than tasks a rank gets
 * those of several. NULL when LSF binds nothing there, or fewer tasks than there are ranks. Caller frees. */
char *hvd_lsf_cpus(const struct hvd_lsf_host *host, int ranks);

#endif
