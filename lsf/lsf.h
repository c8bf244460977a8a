/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lsf.h - the hosts and slots of a job of LSF, or of a scheduler that sets the same variables (OpenLava and compatible
 * schedulers).
 *
 * The hosts come from the first usable source of these:
 *   CSM_ALLOCATION_ID    the answer of csm_allocation_query (csm.h)
 *   LSB_DJOB_HOSTFILE    a file with a host name on each line, one line for each slot
 *   LSB_MCPU_HOSTS       "host slots host slots …"
 *   LSB_HOSTS            "host host …", one word for each slot
 * A source that exists but is empty, unreadable or malformed is skipped, and a note says so. A host may be listed
 * several times, at any places: its slots are added up where it is listed first.
 *
 * Formats: IBM Spectrum LSF, "Environment variables set for job execution". CSM: the sources of CAST (csmi/src/wm/cmd,
 * csmi/src/inv/cmd). The variables were seen on a scheduler of the OpenLava family; nothing here has run under IBM's
 * LSF.
 *
 * Variables and files are untrusted input. The environment is an argument: that of the process is not read.
 */
#ifndef HVD_LSF_H
#define HVD_LSF_H

#include "lib/base/deadline.h"
#include "lib/base/err.h"
#include "lib/base/strv.h"
#include "lib/host/alloc.h"

#include <stdbool.h>

/* The facts about a host besides its slots. A number is -1 if it is unknown. */
struct hvd_lsf_host {
	int tasks;   /* LSF's job slots on the host; unknown when only CSM lists the host */
	int gpus;    /* that the job may use */
	int cores;   /* physical cores that the job may use, without isolated cores */
	int sockets; /* that these cores are on */
	/* For each of LSF's tasks in turn the physical ids of its CPUs, as "0,1,2,3", from LSB_AFFINITY_HOSTFILE. Empty
	 * if LSF does not bind tasks. */
	struct hvd_strv cpus;
};

/* The facts about a job besides its allocation. A zeroed struct has none. */
struct hvd_lsf {
	struct hvd_lsf_host *hosts; /* owned; in the order of the allocation's hosts */
	int n_hosts;
	bool csm;          /* on a CSM system the job script runs on a launch node, and jsrun starts the tasks */
	char *launch_host; /* owned; the launch node, if a list names it: it is not in the allocation. NULL: none */
	int isolated;      /* cores of each socket that CSM keeps for the system. jsrun's logical CPU ids skip them */
	int smt;           /* threads per core that CSM has set for the job; 0: unknown */
	struct hvd_strv notes; /* for the user: which sources could not be used, and what was used instead */
};

void hvd_lsf_clear(struct hvd_lsf *facts); /* leaves a zeroed struct; NULL is fine */

/* Does the environment belong to an LSF job? LSB_JOBID alone is no proof, because programs that a job submits or leaves
 * behind inherit it: one of the sources above must be set too. */
bool hvd_alloc_in_lsf(char *const *envp);

/* The name of the job that hvd_alloc_in_lsf() has found, for LSF's commands: "12", or "12[3]" for a task of an array.
 * The caller frees it. */
char *hvd_lsf_job_name(char *const *envp);

/* Does the environment belong to a task of jsrun (JSM_NAMESPACE_RANK)? Such a task must not launch a job itself. */
bool hvd_lsf_in_jsrun(char *const *envp);

struct hvd_alloc_lsf_opts {
	int slots_per_host; /* > 0: every host has this many slots */
	bool jsrun;         /* jsrun is installed, so the first host of LSF's lists is a launch node if it has one slot
			     * and is not the only host. CSM_ALLOCATION_ID implies it */
	hvd_time deadline;  /* for all calls of CSM's tools together; 0: 30 seconds from now */
};

/* Find the job's hosts and what is known of them. `facts` may be NULL. The slots of a host are the first known one of
 * these:
 *   slots_per_host;
 *   its GPUs: from CSM; or, if this host is one of the job's, as many on every host as CUDA_VISIBLE_DEVICES
 *     (ROCR_VISIBLE_DEVICES, HIP_VISIBLE_DEVICES) lists on this one. The ids in that list mean nothing on other hosts;
 *   its tasks: how often LSF's list names it;
 *   1.
 * HVD_E_USAGE within a task of jsrun, HVD_E_NOENT without a job. On success the caller clears *out and *facts; after an
 * error both are empty. */
int hvd_alloc_from_lsf(struct hvd_alloc *out, struct hvd_lsf *facts, char *const *envp,
		       const struct hvd_alloc_lsf_opts *opts, struct hvd_err *err);

/* Convert `facts` of the allocation `from` to facts of `to`, whose hosts are all in `from`. */
void hvd_lsf_select(struct hvd_lsf *facts, const struct hvd_alloc *from, const struct hvd_alloc *to);

/* The CPUs of each of a host's ranks, "0,1:2,3" (hvd_bind_listed()), which are those of the host's tasks in LSF. With
 * fewer ranks than tasks a rank gets the CPUs of several tasks. The caller frees it. NULL if LSF has bound no task
 * there, or fewer tasks than there are ranks. */
char *hvd_lsf_cpus(const struct hvd_lsf_host *host, int ranks);

#endif
