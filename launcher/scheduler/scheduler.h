/* SPDX-License-Identifier: Apache-2.0 */
/*
 * scheduler.h - the batch scheduler whose job a launch is part of.
 *
 * A scheduler is one row. To add one: a file with its struct hvd_scheduler, and its key in the list HVD_SCHEDULERS. It
 * has find and hosts. Another function that is NULL is a question that the scheduler does not answer, and
 * callers then do what they do outside of any job.
 *
 * All functions read the environment only as an argument, unless their comment says otherwise.
 */
#ifndef HVD_SCHEDULER_H
#define HVD_SCHEDULER_H

#include "launcher/options/launch_spec.h"
#include "lib/base/deadline.h"
#include "lib/base/err.h"
#include "lib/base/log.h"
#include "lib/base/strv.h"
#include "lib/host/alloc.h"
#include "lsf/lsf.h"

#include <stdbool.h>
#include <stdint.h>

struct hvd_scheduler;

/* The job that a launch is part of. */
struct hvd_batch_job {
	const struct hvd_scheduler *scheduler; /* never NULL; hvd_scheduler_none: there is no job */
	uint32_t number;                       /* Slurm's; 0 = another scheduler's, or none */
	char name[64];                         /* for the scheduler's commands: "12", "12[3]"; "" = none */
};

/* What the scheduler says of a job. A scheduler that does not know something leaves it zeroed. */
struct hvd_job_facts {
	const char *unknown; /* it does not say, for this reason, and the rest is not set; NULL: it has */
	double left;         /* seconds until the job's end; below 0: it has no time limit */
	bool paused;         /* the job is suspended */
	bool preempted;      /* the job is being preempted, and `left` is the rest of its grace time */
	bool over;           /* the job has ended or is being ended, or it was requeued */
	bool requeued;       /* it waits for its next start */
	const char *fate;    /* how it has ended: "was cancelled (scancel)"; NULL: it runs, or nobody knows */
};

/* Why and how to requeue a job. */
struct hvd_requeue_order {
	const char *why;            /* for the log: "its time limit" */
	const struct hvd_strv *bad; /* HOST=REASON: hosts that the job is not to be given again; NULL: none */
	bool preempted;             /* the job may have ended before this process, since it was preempted */
};

struct hvd_scheduler {
	const char *name; /* as users know it: "Slurm" */
	const char *key;  /* in the name of a launch: "slurm" */
	/* An administrator's command that shows the state of a host, whose name follows. */
	const char *host_command;

	/* Is there a job? Then set number and name. `given` is the job that the user names by an option; NULL: none. */
	bool (*find)(const char *given, char *const *envp, struct hvd_batch_job *job);
	/* Does the environment belong to a job, with its hosts? */
	bool (*has_hosts)(char *const *envp);
	/* The job's hosts, in order, each with slots_per_host slots unless that is 0, and out->source. `facts` is LSF's;
	 * others leave it zeroed. */
	int (*hosts)(char *const *envp, int slots_per_host, struct hvd_alloc *out, struct hvd_lsf *facts,
		     struct hvd_err *err);
	/* Only its own command starts processes on its hosts: ssh, say, uses the hosts that the user lists. */
	bool own_starter_only;
	/* It may kill a host's agent without its ranks, so a guard process ends them then. */
	bool kills_agents;

	/* Append HOST=NUMBER for each host of a job that has GPUs as a whole (sbatch -G): its own starter must be told
	 * which host has how many. */
	void (*gpus)(const struct hvd_batch_job *job, char *const *envp, struct hvd_strv *out);

	/* Remove from this process's environment what belongs to another job. Before there are threads. */
	void (*clean_env)(void);
	/* Seconds between SIGTERM and SIGKILL for the processes of a job; 0 = not known. */
	int (*kill_wait)(hvd_time deadline);

	/* Ask about a job. HVD_E_NOENT: there is none of this name any longer. facts->fate is a string constant. */
	int (*facts)(const struct hvd_batch_job *job, struct hvd_job_facts *facts, hvd_time deadline,
		     struct hvd_err *err);
	/* The facts have more than the time that is left. */
	bool reports_state;

	/* How often the job had been requeued when this process was started; -1: not known. */
	long (*restarts)(const struct hvd_batch_job *job);
	/* Requeue a job that runs. Returns 1 when it is requeued, 0 if it was before, or has ended; -1 with err set if
	 * it cannot be. */
	int (*requeue)(const struct hvd_batch_job *job, const struct hvd_requeue_order *order,
		       const struct hvd_log *log, struct hvd_err *err);
	/* The same once killed(arg), which blocks, has returned true; it is false if nothing is to be done. NULL: as
	 * `requeue` then does. */
	int (*requeue_after)(const struct hvd_batch_job *job, const struct hvd_requeue_order *order,
			     bool (*killed)(void *arg), void *arg, const struct hvd_log *log, struct hvd_err *err);
};

/* The keys of all, in the order in which they are asked. */
#define HVD_SCHEDULERS(ROW) ROW(slurm) ROW(lsf)

#define HVD_DECLARE(key) extern const struct hvd_scheduler hvd_scheduler_##key;
HVD_SCHEDULERS(HVD_DECLARE)
#undef HVD_DECLARE
extern const struct hvd_scheduler hvd_scheduler_none;

/* The scheduler that has given hosts to this environment; hvd_scheduler_none if there is none. */
const struct hvd_scheduler *hvd_scheduler_of(char *const *envp);

/* The scheduler with this key; hvd_scheduler_none if there is none. */
const struct hvd_scheduler *hvd_scheduler_named(const char *key);

/* Call clean_env of all schedulers. */
void hvd_scheduler_clean_env(void);

/* The job of this process's environment, or that of --jobid; or Slurm's job of that number, unless it is 0. */
struct hvd_batch_job hvd_batch_job_of(const struct hvd_launch_spec *spec, uint32_t number);
/* The same without options. */
struct hvd_batch_job hvd_batch_job_here(void);

/* Ask the scheduler, which may take until the deadline. HVD_E_NOENT also if there is no job, or nobody to ask. */
int hvd_batch_job_facts(const struct hvd_batch_job *job, struct hvd_job_facts *facts, hvd_time deadline,
			struct hvd_err *err);

/* Why the scheduler has ended the job or is ending it: "job 12 was cancelled (scancel)". NULL: it runs, nobody knows,
 * or there is no job. Asks the scheduler, for two seconds at most. The caller frees it. */
char *hvd_batch_job_fate(const struct hvd_batch_job *job);

/* Is Slurm's job of that number suspended? Asks the controller, for two seconds at most; false also if that is not
 * known. */
bool hvd_batch_job_paused(uint32_t number, const struct hvd_log *log);

#endif
