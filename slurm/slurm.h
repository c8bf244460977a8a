/* SPDX-License-Identifier: Apache-2.0 */
/*
 * slurm.h - everything that hvd asks of libslurm.
 *
 * Only slurm.c, slurm_init.c, slurm_nodes.c and slurm_requeue.c use <slurm/slurm.h>, so only these files know the
 * differences between Slurm's releases. In a build without libslurm (slurm_none.c) every function that asks Slurm fails
 * with HVD_E_NOENT, except that hvd_slurm_site_get() runs scontrol.
 *
 * libslurm keeps its state in the process, so there is no handle: the configuration is read once in the life of a
 * process, and one thread at a time may ask. libslurm waits for the controller as long as MessageTimeout in slurm.conf
 * says and knows no deadline. So a function that asks may block for many seconds while the controller is down.
 *
 * Differences between the releases of Slurm, up to 26.05:
 *   slurm_init          24.11 crashes in a slurm_init() after slurm_fini(): it is called once, slurm_fini() never
 *   slurm_kill_job_step, slurm_load_job, slurm_job_batch_script
 *                       took the numbers of job and step, and take a slurm_step_id_t now: slurm.c chooses by type
 *   slurm_free_ctl_conf is called slurm_free_conf in some: both are weak
 *   slurm_step_id_t     has grown: it is zeroed, and then filled field by field
 *   SLURM_JOB_NODELIST  is missing in salloc's environment of a heterogeneous job
 */
#ifndef HVD_SLURM_H
#define HVD_SLURM_H

#include "lib/base/err.h"
#include "lib/base/hostlist.h"
#include "lib/base/size.h"
#include "lib/base/strv.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Was this program built with libslurm? */
bool hvd_slurm_built_in(void);

/* The release of Slurm that this program was built for: "22.05.8"; "" without libslurm. */
void hvd_slurm_release(char text[16]);

/* Read slurm.conf. Every function below that asks Slurm does so at its first call, unless this was called before.
 * Returns 0 and does nothing if the configuration was read before; after an error the next call tries again. Reading
 * may take long, starts a process, and sets SLURM_CONF in the environment, so call this before the process has threads.
 * Later calls may come from any thread. */
int hvd_slurm_open(struct hvd_err *err);

/* Settings of slurm.conf. */
struct hvd_slurm_site {
	int port_lo, port_hi; /* SrunPortRange; both 0 when there is none */
	bool munge;           /* AuthType is auth/munge */
	int kill_wait;        /* KillWait, in seconds; 0 = not known */
	bool binds;           /* TaskPlugin is not task/none; with task/none srun prints a remark on every --cpu-bind */
};

/* After an error *site is zeroed. */
int hvd_slurm_site_get(struct hvd_slurm_site *site, struct hvd_err *err);

/* Have the controller send a signal to all tasks of a step; SIGKILL ends the step. A step that has already ended is no
 * error. */
int hvd_slurm_step_signal(uint32_t job, uint32_t step, int signal, struct hvd_err *err);

enum hvd_slurm_state {
	HVD_SLURM_PENDING,
	HVD_SLURM_RUNNING, /* also a job that is configuring or suspended */
	HVD_SLURM_ENDED,   /* also a job that is completing, since no step can be started in it any more */
};

/* Whether and where a job may be requeued. */
struct hvd_slurm_rerun {
	bool batch;        /* it has a batch script; another job cannot be requeued */
	bool allowed;      /* … and was submitted with --requeue, or the site allows it to all jobs */
	uint32_t restarts; /* how often it was requeued */
	char name[32];     /* "12"; of a task of an array "10_3": by the number alone Slurm may take the whole array;
			    * of a component of a heterogeneous job that of the job */
	uint32_t nodes;    /* that the job needs at least */
	char *excluded, *required, *reservation; /* lists as the user gave them; "" if there is none */
};

struct hvd_slurm_job {
	enum hvd_slurm_state state;
	struct hvd_strv hosts; /* empty while the job is pending */
	int *gpus;             /* gpus[i]: GPUs granted on hosts.v[i]; NULL if the controller does not say */
	uint32_t id;
	char *name, *comment; /* "" if there is none */
	int tasks_per_node;   /* --ntasks-per-node; 0 if it was not given */
	int tasks;            /* of all hosts; Slurm counts one for each host if the user did not ask for tasks */
	int64_t began, ends;  /* seconds since 1970, by the controller's clock; ends is 0 without a time limit */
	int64_t now;          /* the controller's clock when it answered */
	bool preempted;       /* the job is being preempted, and so ends before `ends`; or that has ended it */
	uint32_t het;         /* number of the heterogeneous job that the job is a component of; 0 if it is none */
	const char *fate;     /* why Slurm has ended it or is ending it: "was cancelled (scancel)"; NULL = not known */
	bool paused;          /* the job is suspended, or its nodes are still being configured */
	struct hvd_slurm_rerun rerun;
};

/* Ask for one job. HVD_E_NOENT if the controller knows no such job. After an error *out is empty. */
int hvd_slurm_job_get(uint32_t job, struct hvd_slurm_job *out, struct hvd_err *err);
void hvd_slurm_job_clear(struct hvd_slurm_job *job); /* leaves a zeroed struct; NULL is fine */

/* Requeue a batch job. Slurm ends its processes, also this one if it is part of the job. `rerun` is the state of the
 * job when the caller last asked: HVD_E_NOENT if the job was requeued since. A job that does not run any longer is left
 * alone, without an error; but with `ended` it is requeued all the same. The error says why Slurm refuses. */
int hvd_slurm_requeue(const struct hvd_slurm_rerun *rerun, bool ended, struct hvd_err *err);

/* Keep a pending job away from nodes, besides its former excluded nodes. errs[i] is set if that is impossible for node
 * i: HVD_E_LIMIT if too few nodes like it would be left for the job, or if the user has required certain nodes. */
void hvd_slurm_exclude(const struct hvd_slurm_rerun *rerun, const struct hvd_strv *nodes, struct hvd_err *errs);

/* Ask for all jobs of this user that the controller knows, including jobs that have ended. The caller calls
 * hvd_slurm_job_clear() on each of *jobs, and frees the array. After an error *jobs is NULL and *n is 0. */
int hvd_slurm_jobs_get(struct hvd_slurm_job **jobs, size_t *n, struct hvd_err *err);

/* The batch script of a job, as a string that the caller frees. NULL with err set, also for a job without one. */
char *hvd_slurm_job_script(uint32_t job, struct hvd_err *err);

/* The nodes of the cluster on which nothing should be started: down, draining or drained, failing, or going down for a
 * reboot or to save power. A node that does not answer at the moment is not among them, because after a restart of the
 * controller no node has answered yet. */
struct hvd_slurm_nodes {
	struct hvd_strv unusable; /* sorted */
	int64_t as_of;            /* time of the controller's data; 0 if it was never asked */
	bool hidden;              /* PrivateData=nodes hides the states of nodes from users; `unusable` is empty then */
};

/* Bring *nodes, which is zeroed or from an earlier call, up to date. Costs little if nothing has changed in the
 * cluster. An error leaves *nodes unchanged. */
int hvd_slurm_nodes_get(struct hvd_slurm_nodes *nodes, struct hvd_err *err);
bool hvd_slurm_node_usable(const struct hvd_slurm_nodes *nodes, const char *name);
void hvd_slurm_nodes_clear(struct hvd_slurm_nodes *nodes); /* NULL is fine */

#endif
