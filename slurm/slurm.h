/* SPDX-License-Identifier: Apache-2.0 */
/*
 * slurm.h - everything that this suite asks of libslurm.
 *
 * slurm.c and slurm_init.c are the only files that include <slurm/slurm.h>,
 * so what differs between Slurm's versions is known there and nowhere else. Built without
 * HVD_WITH_SLURM every function fails with HVD_E_NOENT ("built without Slurm"), see slurm_none.c; except for
 * hvd_slurm_site_get(), which then asks scontrol.
 *
 * libslurm keeps its state in the process, so there is no handle: the configuration is read once in the life of a
 * process, and one thread at a time may ask. libslurm waits for the controller as long as MessageTimeout in slurm.conf
 * says and knows no deadline, so a function that asks may block for many seconds while the controller is down.
 *
 * What has changed between releases in libslurm, as of 26.05:
 *   slurm_init          24.11 dies of a second one after slurm_fini(): called once, never undone
 *   slurm_kill_job_step, slurm_load_job, slurm_job_batch_script
 *                       took numbers of job and step, take a slurm_step_id_t now: chosen by type in slurm.c
 *   slurm_free_ctl_conf has had two names: both are weak
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

/* 1 when this program was built with libslurm. */
int hvd_slurm_built_in(void);

/* Read slurm.conf, which every function below that asks Slurm does at its first call if this was not called before.
 * Returns 0 and does nothing when the configuration was read before; after an error the next call tries again. Reading
 * may take long, starts a process, and sets SLURM_CONF in the environment: call this before the process has threads.
 * Later calls may come from any thread. */
int hvd_slurm_open(struct hvd_err *err);

/* What slurm.conf says. */
struct hvd_slurm_site {
	int port_lo, port_hi; /* SrunPortRange; both 0 when there is none */
	bool munge;           /* AuthType is auth/munge */
	bool binds;           /* TaskPlugin is not task/none, with which srun remarks on every --cpu-bind */
};

/* After an error *site is zeroed. */
int hvd_slurm_site_get(struct hvd_slurm_site *site, struct hvd_err *err);

/* Send a signal to all tasks of a step through the controller; SIGKILL ends the step. A step that
 * has ended already is no error. */
int hvd_slurm_step_signal(uint32_t job, uint32_t step, int signal, struct hvd_err *err);

enum hvd_slurm_state {
	HVD_SLURM_PENDING,
	HVD_SLURM_RUNNING, /* configuring and suspended jobs too */
	HVD_SLURM_ENDED,   /* … and those that are completing: nothing more can be started in them */
};

struct hvd_slurm_job {
	enum hvd_slurm_state state;
	struct hvd_strv hosts; /* empty while pending */
	int *gpus;             /* GPUs granted on each of hosts; NULL when the controller does not say */
	uint32_t id;
	char *name, *comment; /* "" for none */
	int tasks_per_node;   /* as asked for; 0 = not */
	int tasks;            /* … of all hosts; at least one each, also when nobody asked */
	int64_t began, ends;  /* seconds since 1970, by the controller's clock; ends 0 = no limit */
	int64_t now;          /* the same clock, when it answered */
	bool preempted;       /* … and so ends early */
	uint32_t het;         /* the first component of the heterogeneous job that it is one of; 0 = it is none */
	bool held;            /* suspended, or its nodes are still being configured */
};

/* HVD_E_NOENT when the controller knows no such job. After an error *out is empty. */
int hvd_slurm_job_get(uint32_t job, struct hvd_slurm_job *out, struct hvd_err *err);
void hvd_slurm_job_clear(struct hvd_slurm_job *job);

/* All jobs of this user that the controller knows, those that have ended included. The array is the caller's to free,
 * after hvd_slurm_job_clear() on each. After an error there are none. */
int hvd_slurm_jobs_get(struct hvd_slurm_job **jobs, size_t *n, struct hvd_err *err);

/* The batch script of a job, terminated; the caller frees it. NULL with err set, as for a job that has none. */
char *hvd_slurm_job_script(uint32_t job, struct hvd_err *err);

/* The nodes of the cluster that nothing should be started on: down, draining or drained, failing, going down for a
 * reboot or to save power. One that does not answer for the moment is not among them: after a restart of the
 * controller all are like that. */
struct hvd_slurm_nodes {
	struct hvd_strv unusable; /* sorted */
	int64_t as_of;            /* of the controller's data; 0 = never asked */
	bool hidden;              /* from users (PrivateData=nodes): then none is known to be unusable */
};

/* Bring up to date what was got before (or a zeroed struct). Costs little while nothing has changed in the cluster.
 * After an error *nodes is as it was. */
int hvd_slurm_nodes_get(struct hvd_slurm_nodes *nodes, struct hvd_err *err);
bool hvd_slurm_node_usable(const struct hvd_slurm_nodes *nodes, const char *name);
void hvd_slurm_nodes_clear(struct hvd_slurm_nodes *nodes); /* NULL is fine */

#endif
