/* SPDX-License-Identifier: Apache-2.0 */
/*
 * slurm.h - everything that hvd's programs ask of Slurm.
 *
 * Slurm's own commands are asked (slurm_command.h): squeue for jobs (squeue.h), scontrol for nodes, GPUs and the
 * configuration (scontrol.h), sinfo for nodes that are down. So no program is linked with libslurm, and one build works with each release. A command
 * takes 10 to 15 milliseconds, and as long as the deadline allows while the controller does not answer; an event loop
 * that cannot wait for that asks in a child process (launcher/job/ask.h) or in a thread (discovery_slurm.c). Any thread
 * may ask.
 */
#ifndef HVD_SLURM_H
#define HVD_SLURM_H

#include "lib/base/deadline.h"
#include "lib/base/err.h"
#include "lib/base/hostlist.h"
#include "lib/base/size.h"
#include "lib/base/strv.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* How long the controller may take to answer where nothing else limits it: Slurm's commands themselves try again for a
 * minute, so that a controller may be restarted meanwhile. */
#define HVD_SLURM_SECONDS 70.0

/* Settings of slurm.conf. */
struct hvd_slurm_site {
	int port_lo, port_hi; /* SrunPortRange; both 0 when there is none */
	bool munge;           /* AuthType is auth/munge */
	int kill_wait;        /* KillWait, in seconds; 0 = not known */
	bool binds;           /* TaskPlugin is not task/none; with task/none srun prints a remark on every --cpu-bind */
};

/* After an error *site is zeroed. */
int hvd_slurm_site_get(struct hvd_slurm_site *site, hvd_time deadline, struct hvd_err *err);

/* Have the controller send a signal to all tasks of a step; SIGKILL ends the step. A step that has already ended is no
 * error. */
int hvd_slurm_step_signal(uint32_t job, uint32_t step, int signal, hvd_time deadline, struct hvd_err *err);

/* Append the hosts where the srun of the job's steps run. Of a job without steps there are none. */
int hvd_slurm_srun_hosts(uint32_t job, struct hvd_strv *hosts, hvd_time deadline, struct hvd_err *err);

enum hvd_slurm_state {
	HVD_SLURM_PENDING,
	HVD_SLURM_RUNNING, /* also a job that is configuring or suspended */
	HVD_SLURM_ENDED,   /* also a job that is completing, since no step can be started in it any more */
};

/* Whether and where a job may be requeued. */
struct hvd_slurm_rerun {
	bool batch;        /* it has a batch script; another job cannot be requeued */
	bool allowed;      /* it was submitted with --requeue, or the site allows requeues to all jobs */
	uint32_t restarts; /* how often it was requeued */
	char name[32];     /* "12"; of a task of an array "10_3": by the number alone Slurm may take the whole array;
			    * of a component of a heterogeneous job that of the job */
	uint32_t nodes;    /* that the job needs at least */
	char *required, *reservation; /* a list as the user gave it, a name; "" if there is none */
};

#define HVD_SLURM_CANCELLED "was cancelled (scancel)"

struct hvd_slurm_job {
	enum hvd_slurm_state state;
	struct hvd_strv hosts; /* empty while the job is pending */
	int *gpus;             /* of each of hosts, after hvd_slurm_job_gpus(); NULL: not known */
	uint32_t id;
	char *name, *comment; /* "" if there is none */
	int tasks_per_node;   /* --ntasks-per-node; 0 if it was not given */
	int tasks;            /* of all hosts; Slurm counts one for each host if the user did not ask for tasks */
	int64_t began, ends;  /* seconds since 1970, by the controller's clock; ends is 0 without a time limit */
	int64_t now;          /* this host's clock when Slurm answered */
	bool preempted;       /* the job is being preempted, and so ends before `ends`; or that has ended it */
	uint32_t het;         /* number of the heterogeneous job that the job is a component of; 0 if it is none */
	const char *fate;     /* why Slurm has ended it or is ending it: HVD_SLURM_CANCELLED; NULL = not known */
	char *grace_of;       /* only from the parser: `ends` lacks this partition's GraceTime; else NULL */
	bool paused;          /* the job is suspended, or its nodes are still being configured */
	bool doubtful;        /* Slurm is ending it, and does not say yet whether it was cancelled or has ended well */
	struct hvd_slurm_rerun rerun;
};

/* Ask for one job. HVD_E_NOENT if the controller knows no such job. If the answer is doubtful, this asks again for a
 * second. After an error *out is empty. */
int hvd_slurm_job_get(uint32_t job, struct hvd_slurm_job *out, hvd_time deadline, struct hvd_err *err);
void hvd_slurm_job_clear(struct hvd_slurm_job *job); /* leaves a zeroed struct; NULL is fine */

/* Ask for the GPUs that a job has been granted on each host, if they are not known. If Slurm does not say, they stay
 * unknown. */
void hvd_slurm_job_gpus(struct hvd_slurm_job *job, hvd_time deadline);

/* Ask for all jobs of this user that have hosts. The caller calls hvd_slurm_jobs_free(). After an error *jobs is NULL
 * and *n is 0. */
int hvd_slurm_jobs_get(struct hvd_slurm_job **jobs, size_t *n, hvd_time deadline, struct hvd_err *err);
void hvd_slurm_jobs_free(struct hvd_slurm_job *jobs, size_t n); /* NULL is fine */

/* The batch script of a job, as a string that the caller frees. NULL with err set, also for a job without one. */
char *hvd_slurm_job_script(uint32_t job, hvd_time deadline, struct hvd_err *err);

/* Requeue a batch job. Slurm ends its processes, also this one if it is part of the job. `rerun` is the state of the
 * job when the caller last asked: HVD_E_NOENT if the job was requeued since. A job that does not run any longer is left
 * alone, without an error; but with `ended` it is requeued all the same. The error says why Slurm refuses. */
int hvd_slurm_requeue(const struct hvd_slurm_rerun *rerun, bool ended, hvd_time deadline, struct hvd_err *err);

/* The nodes that a job is to be kept away from when it was requeued: those that it is kept away from already, and
 * `nodes`, without those of which that is impossible. For them errs[i] is set: HVD_E_LIMIT if too few nodes like it
 * would be left for the job, or if the user has required certain nodes. Returns a list that the caller frees; NULL:
 * nothing is to be changed. */
char *hvd_slurm_excludable(const struct hvd_slurm_rerun *rerun, const struct hvd_strv *nodes, hvd_time deadline,
			   struct hvd_err *errs);

/* Keep a pending job away from the nodes of a list, and from no other. */
int hvd_slurm_exclude(const struct hvd_slurm_rerun *rerun, const char *list, hvd_time deadline, struct hvd_err *err);

/* Nodes on which nothing should be started: down, draining or drained, failing, or going down for a reboot or to save
 * power. A node that does not answer at the moment is not among them, because after a restart of the controller no node
 * has answered yet. */
struct hvd_slurm_nodes {
	struct hvd_strv unusable; /* sorted */
	bool hidden;              /* PrivateData=nodes hides the states of nodes from users; `unusable` is empty then */
};

/* Ask for the states of these nodes. An error leaves *nodes, which is zeroed or from an earlier call, unchanged. */
int hvd_slurm_nodes_get(const struct hvd_strv *names, struct hvd_slurm_nodes *nodes, hvd_time deadline,
			struct hvd_err *err);
bool hvd_slurm_node_usable(const struct hvd_slurm_nodes *nodes, const char *name);
/* The first of these nodes (a list) that is down; the caller frees it. NULL: none is, or Slurm does not answer. */
char *hvd_slurm_node_down(const char *list, hvd_time deadline);
void hvd_slurm_nodes_clear(struct hvd_slurm_nodes *nodes); /* NULL is fine */

#endif
